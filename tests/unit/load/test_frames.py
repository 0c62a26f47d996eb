from __future__ import annotations

from array import array

import pytest

from loadtest.columns import CONNECTION_COLUMNS, REQUEST_COLUMNS, ConnectionBlock, RequestBlock
from loadtest.load import frames
from loadtest.load.frames import Hello, Message
from loadtest.model import (
    Drop,
    DropReason,
    Failure,
    FailureKind,
    Lane,
    LoadEnd,
    LoadPlan,
    OpenRequest,
    PodFrom,
    PodName,
    PodSource,
    Progress,
)

MESSAGES: list[Message | Hello] = [
    Hello(stamp_ns=12),
    RequestBlock(worker=1, columns={name: array(code, [1, 2, 3]) for name, code in REQUEST_COLUMNS}),
    ConnectionBlock(worker=2, columns={name: array(code, [5]) for name, code in CONNECTION_COLUMNS}),
    PodName(worker=0, index=1, name="web-1"),
    Failure(worker=0, seq=5, kind=FailureKind.DNS, errno=3, received=4, connection_pod="web-1", peer="127.0.0.1:80", message="ä"),
    Drop(worker=0, seq=6, due=7, reason=DropReason.LATE_LOOP),
    OpenRequest(worker=0, seq=1, due=2, started=3, lane=Lane.REUSED),
    Progress(worker=0, at=1, sent=2, ok=3, failed=4, dropped=5, kept=6, worst_lateness_ns=7, last_failure="dns"),
    LoadEnd(worker=0, last_due=9, sent=8, dropped=1, open=1, cut=True, cpu_s=0.25),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent(message: Message | Hello) -> None:
    data = frames.frame(message)
    letter, size = frames.HEADER.unpack_from(data)
    payload = data[frames.HEADER.size :]

    assert size == len(payload)
    assert frames.message_of(letter, payload) == message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_keeps_its_types(message: Message | Hello) -> None:
    data = frames.frame(message)
    again = frames.message_of(data[:1], data[frames.HEADER.size :])

    assert [type(getattr(again, name)) for name in _fields(again)] == [type(getattr(message, name)) for name in _fields(message)]


def _fields(message: object) -> list[str]:
    return list(type(message).__dataclass_fields__)  # type: ignore[attr-defined]  # every message is a dataclass


def test_an_unknown_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown frame"):
        frames.message_of(b"?", b"{}")


def test_a_block_that_ends_early_is_refused() -> None:
    data = frames.frame(MESSAGES[1])

    with pytest.raises(ValueError):
        frames.message_of(b"R", data[frames.HEADER.size : -1])


def test_a_plan_survives_its_journey() -> None:
    plan = LoadPlan(
        run_id="r",
        epoch_ns=1,
        url="http://h/",
        qps=0.1,
        start_ns=2,
        lanes=(Lane.REUSED,),
        reuse=(1, 5),
        headers=(("A", "ä"),),
        body=b"\0\xff\n",
        pod_from=PodFrom(source=PodSource.JSON, value="/x"),
        expect_status=(200, 404),
    )
    line = frames.plan_line(plan)

    assert line.count(b"\n") == 1
    assert frames.plan_of(line) == plan


def test_a_plan_may_have_no_pod_source() -> None:
    plan = LoadPlan(run_id="r", epoch_ns=1, url="http://h/", qps=1.0, start_ns=2, pod_from=None)

    assert frames.plan_of(frames.plan_line(plan)) == plan
