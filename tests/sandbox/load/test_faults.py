"""Every fault on a fresh and on a kept connection, by both senders on both loops: what it must be called."""

from __future__ import annotations

import errno
import resource
from dataclasses import dataclass

import aiohttp
import pytest

from loadtest.columns import ABSENT, CLOSED_BY
from loadtest.load.process import LoadProcess
from loadtest.model import Lane, PodFrom, PodSource
from tests.sandbox.load.runs import SECOND, one, run_here, run_process
from tests.servers import OK, Behaviour, Request, Server, Wire, black_hole, nobody_listens, well

SENDERS = [("own", True), ("own", False), ("aiohttp", True)]
SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nX-Pod-Name: web-1\r\n\r\nshort"
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\nhello"
TIMEOUT_NS = 250_000_000


@pytest.fixture(params=SENDERS, ids=["own-uvloop", "own-asyncio", "aiohttp-uvloop"])
def sender(request: pytest.FixtureRequest) -> tuple[str, bool]:
    chosen: tuple[str, bool] = request.param
    return chosen


@pytest.fixture(params=Lane, ids=["new", "reused"])
def lane(request: pytest.FixtureRequest) -> Lane:
    chosen: Lane = request.param
    return chosen


def says(data: bytes) -> Behaviour:
    """Sends this and goes on."""
    return lambda wire, _: wire.send(data)


def says_and_closes(data: bytes) -> Behaviour:
    def behave(wire: Wire, _: Request) -> None:
        wire.send(data)
        wire.fin()

    return behave


def says_and_resets(data: bytes) -> Behaviour:
    def behave(wire: Wire, _: Request) -> None:
        wire.send(data)
        if data:
            wire.wait(0.05)  # a reset overtakes what was sent just before it
        wire.rst()

    return behave


def drips(wire: Wire, _: Request) -> None:
    wire.send(SHORT)
    for _byte in range(20):
        wire.wait(0.05)
        wire.send(b".")


@dataclass(frozen=True)
class Fault:
    """What the server does, and what it must be called."""

    name: str
    behave: Behaviour
    kind: str
    closed_by: str
    received: int
    status: int = 0
    pod: str = ""
    answered: bool = False  # the answer is whole: the connection may live on


FAULTS = [
    Fault("fin-before", says_and_closes(b""), "closed-before-response", "peer-fin", 0),
    Fault("rst-before", says_and_resets(b""), "reset-before-response", "peer-reset", 0),
    Fault("fin-in-status", says_and_closes(b"HTTP/1.1 2"), "truncated", "peer-fin", 10),
    Fault("fin-in-head", says_and_closes(b"HTTP/1.1 200 OK\r\nServer: x\r\n"), "truncated", "peer-fin", 28),
    Fault("rst-in-head", says_and_resets(b"HTTP/1.1 200 OK\r\nServer: x\r\n"), "reset-mid-response", "peer-reset", 28),
    Fault("fin-in-body", says_and_closes(SHORT), "truncated", "peer-fin", len(SHORT), 200, "web-1"),
    Fault("rst-in-body", says_and_resets(SHORT), "reset-mid-response", "peer-reset", len(SHORT), 200, "web-1"),
    Fault("fin-between-chunks", says_and_closes(CHUNKS), "truncated", "peer-fin", len(CHUNKS), 200),
    Fault("rst-until-close", says_and_resets(UNTIL_CLOSE), "reset-mid-response", "peer-reset", len(UNTIL_CLOSE), 200),
    Fault("garbage", says_and_closes(b"SSH-2.0-dropbear\r\n"), "bad-response", "error", 18),
    Fault("bad-chunk", says(CHUNKS.replace(b"\r\n5", b"\r\nzz")), "bad-response", "error", len(CHUNKS) + 1, 200),
    Fault("silence", says(b""), "response-timeout", "timeout", 0),
    Fault("drip", drips, "response-timeout", "timeout", -1, 200, "web-1"),
    Fault("301", says(OK.replace(b"200 OK", b"301 Moved\r\nLocation: /b")), "http-3xx", "", -1, 301, "web-1", True),
    Fault("404", says(OK.replace(b"200 OK", b"404 Not Found")), "http-4xx", "", -1, 404, "web-1", True),
    Fault("503", says(OK.replace(b"200 OK", b"503 Unavailable")), "http-5xx", "", -1, 503, "web-1", True),
]


def at_the_last(behave: Behaviour, lane: Lane) -> Behaviour:
    """Fails the only request of a fresh connection, and the second one of a kept connection."""
    return lambda wire, request: (behave if lane is Lane.NEW or request.number == 1 else well)(wire, request)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_has_one_name_on_any_connection_by_any_sender(fault: Fault, lane: Lane, sender: tuple[str, bool]) -> None:
    with Server(at_the_last(fault.behave, lane)) as server:
        run = run_here(one(server.url, lane, sender[0], timeout_ns=TIMEOUT_NS), uv=sender[1])

    reused = lane is Lane.REUSED
    assert run.kinds() == ["ok"] * reused + [fault.kind]
    assert server.ids() == ["run-0", "run-1"][: 1 + reused]
    assert server.connections == 1
    row = run.row(int(reused))
    if not (sender[0] == "aiohttp" and fault.name == "bad-chunk"):  # it tells nothing of such an answer
        assert (row["status"], run.names[row["pod"]]) == (fault.status, fault.pod)
    assert row["answers_before"] == reused
    assert row["written"] != ABSENT
    assert (row["first_byte"] != ABSENT) == (fault.received != 0)
    assert (row["connect"] == ABSENT) == reused
    assert row["port"] > 0
    (failure,) = run.failures
    assert failure.peer == server.url[7:-1]
    assert failure.connection_age_ns > 0
    assert failure.connection_pod == ("web-1" if reused else "")
    if fault.received >= 0:
        assert failure.received == fault.received
    if not fault.answered:
        assert [CLOSED_BY[connection["closed_by"]] for connection in run.connections] == [fault.closed_by]
        assert run.connections[0]["port"] == row["port"]


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.answered], ids=lambda fault: fault.name)
def test_a_wrong_status_leaves_a_kept_connection_open(fault: Fault, sender: tuple[str, bool]) -> None:
    with Server(fault.behave) as server:
        run = run_here(one(server.url, Lane.REUSED, sender[0]), uv=sender[1])

    assert run.kinds() == [fault.kind] * 2
    assert server.connections == 1


def test_a_port_where_nobody_listens_refuses(lane: Lane, sender: tuple[str, bool]) -> None:
    with nobody_listens() as url:
        run = run_here(one(url, lane, sender[0], total=1), uv=sender[1])

    assert run.kinds() == ["connect-refused"]
    assert run.failures[0].errno == errno.ECONNREFUSED
    row = run.row(0)
    assert row["port"] > 0
    assert row["connect"] > 0
    assert row["written"] == row["first_byte"] == ABSENT
    # The one of the warm-up that failed as well is no request, but its port is known.
    assert [connection["port"] > 0 for connection in run.connections] == [True] * (lane is Lane.REUSED)


def test_a_silent_address_is_a_connect_timeout(sender: tuple[str, bool]) -> None:
    with black_hole() as url:
        run = run_here(one(url, Lane.NEW, sender[0], timeout_ns=TIMEOUT_NS), uv=sender[1])

    assert run.kinds() == ["connect-timeout"]
    row = run.row(0)
    assert row["port"] > 0
    assert TIMEOUT_NS * 0.9 <= row["connect"] <= row["ended"] - row["started"]


def test_a_name_without_an_address_is_dns(sender: tuple[str, bool]) -> None:
    run = run_here(one("http://" + "a" * 64 + ".invalid/", Lane.NEW, sender[0]), uv=sender[1])

    assert run.kinds() == ["dns"]
    assert run.row(0)["connect"] == ABSENT


async def test_without_descriptors_ticks_are_dropped_and_no_request_fails() -> None:
    async def starve(load: LoadProcess) -> None:
        resource.prlimit(load.pid, resource.RLIMIT_NOFILE, (14, 14))

    with black_hole() as url:
        plan = one(url, Lane.NEW, "own", total=20, max_connections=20, qps=200.0, timeout_ns=TIMEOUT_NS)
        run = await run_process(plan, starve)

    assert len(run.drops) > 10
    assert {drop.reason.value for drop in run.drops} == {"local"}
    assert set(run.kinds()) <= {"connect-timeout"}


def test_an_answer_without_its_text_is_a_wrong_body(lane: Lane, sender: tuple[str, bool]) -> None:
    with Server() as server:
        run = run_here(one(server.url, lane, sender[0], total=1, expect_body="green"), uv=sender[1])

    assert run.kinds() == ["wrong-body"]
    assert run.row(0)["status"] == 200


@pytest.mark.parametrize(
    "answer",
    [
        UNTIL_CLOSE,
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        CHUNKS + b"0\r\nX-Trailer: a\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
    ],
    ids=["until-close", "http-1.0", "close", "continue", "chunks", "204"],
)
def test_whole_answers_of_every_form_are_ok(answer: bytes, lane: Lane, sender: tuple[str, bool]) -> None:
    with Server(at_the_last(says_and_closes(answer), lane)) as server:
        run = run_here(one(server.url, lane, sender[0]), uv=sender[1])

    assert set(run.kinds()) == {"ok"}
    assert server.connections == 1


def test_junk_right_behind_an_answer_leaves_it_whole(lane: Lane, sender: tuple[str, bool]) -> None:
    """aiohttp knows of the junk before it gives the answer away, and calls it a bad one: the one form on which the two differ."""
    with Server(at_the_last(says_and_closes(OK + b"junk behind it"), lane)) as server:
        run = run_here(one(server.url, lane, sender[0]), uv=sender[1])

    assert run.kinds()[-1] == ("bad-response" if sender[0] == "aiohttp" else "ok")
    assert set(run.kinds()[:-1]) <= {"ok"}
    assert server.connections == 1


def test_an_answer_to_head_is_whole_without_its_body(lane: Lane, sender: tuple[str, bool]) -> None:
    with Server(says(OK[:-5])) as server:
        run = run_here(one(server.url, lane, sender[0], method="HEAD"), uv=sender[1])

    assert set(run.kinds()) == {"ok"}
    assert server.connections == 1


def test_a_large_request_and_a_large_answer_pass_whole(lane: Lane, sender: tuple[str, bool]) -> None:
    body = bytes(range(256)) * 20_000
    with Server(says(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)) as server:
        run = run_here(one(server.url, lane, sender[0], method="POST", body=body), uv=sender[1])

    assert set(run.kinds()) == {"ok"}
    assert {row["size"] for row in run.requests} == {len(body)}
    assert all(request.body == body for request in server.requests)
    assert all(row["written"] != ABSENT for row in run.requests)


@pytest.mark.parametrize("lanes", [(Lane.REUSED,), (Lane.NEW,)], ids=["reused", "new"])
def test_a_dropped_connection_is_never_repeated(lanes: tuple[Lane, ...], sender: tuple[str, bool]) -> None:
    """Law 3."""

    def every_third_is_dropped(wire: Wire, request: Request) -> None:
        if request.total % 3 == 2:
            (wire.rst if request.total % 2 else wire.fin)()
        else:
            well(wire, request)

    with Server(every_third_is_dropped) as server:
        run = run_here(one(server.url, lanes[0], sender[0], total=60, qps=300.0, connections=4, max_connections=20), uv=sender[1])

    ids = server.ids()
    assert sorted(ids) == sorted(f"run-{seq}" for seq in range(60))
    assert len(run.failures) == 20
    assert {failure.kind.value for failure in run.failures} == {"closed-before-response", "reset-before-response"}


@pytest.mark.parametrize(("retries", "tries"), [(True, 2), (False, 1)])
async def test_aiohttp_still_has_its_hidden_retry_and_the_switch_that_we_turn(retries: bool, tries: int) -> None:
    with Server(says_and_closes(b"")) as server:
        async with aiohttp.ClientSession() as session:
            session._retry_connection = retries
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await session.get(server.url)

    assert len(server.requests) == tries


def test_a_kept_connection_closed_while_idle_is_replaced_and_fails_nothing(sender: tuple[str, bool]) -> None:
    def closes_soon(wire: Wire, request: Request) -> None:
        well(wire, request)
        wire.wait(0.005)
        wire.fin()

    with Server(closes_soon) as server:
        run = run_here(one(server.url, Lane.REUSED, sender[0], total=6, qps=20.0), uv=sender[1])

    assert set(run.kinds()) == {"ok"}
    assert server.connections == 6
    ends = sorted(CLOSED_BY[connection["closed_by"]] for connection in run.connections)
    assert ends == ["open"] + ["peer-fin"] * 5  # the last one when the load was over


def test_bytes_that_nobody_asked_for_end_an_idle_connection(sender: tuple[str, bool]) -> None:
    def talks_again(wire: Wire, request: Request) -> None:
        well(wire, request)
        wire.wait(0.005)
        wire.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")

    with Server(talks_again) as server:
        run = run_here(one(server.url, Lane.REUSED, sender[0], total=3, qps=20.0), uv=sender[1])

    assert set(run.kinds()) == {"ok"}
    assert server.connections == 3


def test_a_timeout_is_neither_early_nor_late(sender: tuple[str, bool]) -> None:
    with Server(says(b"")) as server:
        run = run_here(one(server.url, Lane.NEW, sender[0], timeout_ns=TIMEOUT_NS), uv=sender[1])

    row = run.row(0)
    assert TIMEOUT_NS <= row["ended"] - row["started"] < TIMEOUT_NS + SECOND // 10


def test_both_senders_send_the_same_bytes() -> None:
    heads = []
    for name in ("own", "aiohttp"):
        for lane in Lane:
            with Server() as server:
                plan = one(server.url, lane, name, total=1, headers=(("X-A", "1"), ("X-A", "2")), method="POST", body=b"abc")
                run_here(plan)
            lines = server.requests[0].head.replace(server.url[7:-1].encode(), b"HOST").split(b"\r\n")
            heads.append((lines[0], sorted(lines[1:])))

    assert heads[0] == heads[2]
    assert heads[1] == heads[3]


def test_the_pods_name_is_read_from_where_it_is(sender: tuple[str, bool]) -> None:
    answer = b'HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{"node_id": "web-1"}'
    for pod_from in (PodFrom(source=PodSource.JSON, value="/node_id"), PodFrom(source=PodSource.BODY, value='"(web-.)"')):
        with Server(says(answer)) as server:
            run = run_here(one(server.url, Lane.REUSED, sender[0], pod_from=pod_from), uv=sender[1])
        assert [run.names[row["pod"]] for row in run.requests] == ["web-1"] * 2
