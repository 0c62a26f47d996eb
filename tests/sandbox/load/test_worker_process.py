"""The load in its own process, as the conductor sees it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from loadtest.errors import UsageError, WorkerError
from loadtest.load.process import LoadProcess
from loadtest.model import Lane
from tests.sandbox.load.runs import CLOCK, SECOND, Run, plan_for, run_process, stop_after
from tests.servers import Request, Server, Wire, well


def lateness_us(run: Run) -> list[int]:
    return sorted((row["started"] - row["due"]) // 1000 for row in run.requests)


def gone(pid: int) -> bool:
    """The process has ended (a zombie that nobody waited for has as well)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


async def is_gone_within(pid: int, seconds: float) -> bool:
    for _ in range(round(seconds * 50)):
        if gone(pid):
            return True
        await asyncio.sleep(0.02)
    return False


async def test_the_rate_is_held_and_nothing_is_early_or_repeated() -> None:
    with Server() as server:
        run = await run_process(plan_for(server.url, qps=300.0), stop_after(3.0))

    assert run.end is not None
    assert run.end.last_due == 899
    assert run.kinds() == ["ok"] * 900
    assert sorted(server.ids()) == sorted(f"run-{seq}" for seq in range(900))  # law 3
    rows = sorted(run.requests, key=lambda row: row["seq"])
    assert [row["due"] - rows[0]["due"] for row in rows] == [seq * 10**9 // 300 for seq in range(900)]
    assert lateness_us(run)[450] < 5_000
    assert {row["lane"] for row in rows} == {0, 1}
    assert {run.names[row["pod"]] for row in rows} == {"web-1"}
    assert len(run.progress) >= 3
    assert run.progress[-1].ok == 900
    assert 0 < run.end.cpu_s < 5


@pytest.mark.parametrize("sender", ["own", "aiohttp"])
async def test_each_lane_gets_the_connections_it_asks_for(sender: str) -> None:
    with Server() as server:
        run = await run_process(plan_for(server.url, total=80, sender=sender, connections=4))

    fresh = [row for row in run.requests if row["lane"] == Lane.NEW]
    kept = [row for row in run.requests if row["lane"] == Lane.REUSED]
    assert {row["answers_before"] for row in fresh} == {0}
    assert len({row["connection"] for row in fresh}) == 40
    assert {row["connection"] for row in kept} == {1, 2, 3, 4}
    assert max(row["answers_before"] for row in kept) == 9
    assert all(row["connect"] > 0 for row in fresh)
    assert {row["connect"] for row in kept} == {-1}
    assert server.connections == 44
    assert sorted(row["connection"] for row in run.connections) == list(range(1, 45))


async def test_a_stalled_server_delays_no_other_request() -> None:
    stalled = threading.Event()
    free = threading.Event()

    def stall(wire: Wire, request: Request) -> None:
        if stalled.is_set():
            free.wait(5)
        well(wire, request)

    async def meanwhile(load: LoadProcess) -> None:
        await load.stop(load.plan.start_ns + 5 * SECOND)
        await asyncio.sleep((load.plan.start_ns - CLOCK.monotonic_ns()) / 1e9 + 1)
        stalled.set()
        await asyncio.sleep(3)
        free.set()
        stalled.clear()

    with Server(stall) as server:
        run = await run_process(plan_for(server.url, qps=200.0, max_connections=1008), meanwhile)

    assert run.kinds() == ["ok"] * 1000
    during = [row for row in run.requests if row["ended"] - row["started"] > SECOND // 2]
    assert len(during) > 400
    assert lateness_us(run)[500] < 5_000
    assert lateness_us(run)[-1] < 500_000
    assert [row["started"] for row in sorted(run.requests, key=lambda row: row["seq"])] == sorted(
        row["started"] for row in run.requests
    )


async def test_a_conductor_that_does_not_read_for_a_while_loses_nothing() -> None:
    async def dawdle(load: LoadProcess) -> None:
        await load.stop(load.plan.start_ns + 2 * SECOND)
        time.sleep(1.5)  # noqa: ASYNC251 - it is this loop that is to stand still

    with Server() as server:
        run = await run_process(plan_for(server.url, qps=1000.0, lanes=(Lane.REUSED,)), dawdle)

    assert run.end is not None
    assert run.end.last_due == 1999


async def test_what_is_open_when_the_load_is_cut_is_told() -> None:
    async def cut(load: LoadProcess) -> None:
        await asyncio.sleep((load.plan.start_ns - CLOCK.monotonic_ns()) / 1e9 + 0.5)
        await load.cut()

    with Server(lambda wire, _: wire.wait(5)) as server:
        begun = time.monotonic()
        run = await run_process(plan_for(server.url, qps=40.0), cut)

    assert time.monotonic() - begun < 3
    assert run.end is not None
    assert run.end.cut
    assert len(run.opens) == run.end.open == run.end.last_due + 1 >= 15
    assert run.requests == []


async def test_a_terminals_interrupt_does_not_reach_the_worker_and_a_termination_cuts() -> None:
    async def signals(load: LoadProcess) -> None:
        await asyncio.sleep((load.plan.start_ns - CLOCK.monotonic_ns()) / 1e9 + 0.3)
        os.kill(load.pid, signal.SIGINT)
        await asyncio.sleep(0.3)
        assert not gone(load.pid)
        os.kill(load.pid, signal.SIGTERM)

    with Server() as server:
        run = await run_process(plan_for(server.url), signals)

    assert run.end is not None
    assert run.end.cut
    assert run.end.last_due >= 50


async def test_a_killed_worker_is_a_value_and_what_it_said_is_kept() -> None:
    async def kill(load: LoadProcess) -> None:
        await asyncio.sleep((load.plan.start_ns - CLOCK.monotonic_ns()) / 1e9 + 1)
        os.kill(load.pid, signal.SIGKILL)

    with Server() as server:
        run = await run_process(plan_for(server.url), kill)

    assert run.end is None
    assert run.lost is not None
    assert run.lost.status == -signal.SIGKILL
    assert run.lost.last_seq == max(row["seq"] for row in run.requests) > 40
    assert {int(name[4:]) for name in server.ids()} >= {row["seq"] for row in run.requests}


async def test_a_worker_that_does_not_leave_is_not_left_behind() -> None:
    with Server() as server:
        async with LoadProcess(plan_for(server.url), CLOCK) as load:
            os.kill(load.pid, signal.SIGSTOP)

    assert gone(load.pid)


async def test_leaving_early_ends_the_worker_at_once() -> None:
    with Server(lambda wire, _: wire.wait(30)) as server:
        begun = time.monotonic()
        async with LoadProcess(plan_for(server.url, timeout_ns=30 * SECOND), CLOCK) as load:
            await asyncio.sleep(0.8)

        assert gone(load.pid)
        assert time.monotonic() - begun < 3


async def test_the_conductors_death_ends_the_worker(tmp_path: Path) -> None:
    program = tmp_path / "conductor.py"
    program.write_text(
        "import asyncio, sys\n"
        "from loadtest.load.process import LoadProcess\n"
        "from tests.sandbox.load.runs import CLOCK, plan_for\n"
        "async def main():\n"
        "    async with LoadProcess(plan_for(sys.argv[1]), CLOCK) as load:\n"
        "        print(load.pid, flush=True)\n"
        "        async for _ in load.messages(): pass\n"
        "asyncio.run(main())\n"
    )
    with Server() as server:
        environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
        conductor = await asyncio.create_subprocess_exec(
            sys.executable, program, server.url, stdout=asyncio.subprocess.PIPE, env=environment
        )
        assert conductor.stdout is not None
        worker = int(await conductor.stdout.readline())
        await asyncio.sleep(0.8)
        assert not gone(worker)
        conductor.kill()
        await conductor.wait()

        assert await is_gone_within(worker, 3)


async def test_two_workers_share_one_schedule() -> None:
    with Server() as server:
        plan = plan_for(server.url, start_ns=CLOCK.monotonic_ns() + 3 * SECOND // 2, qps=200.0, total=200, workers=2)
        runs = await asyncio.gather(*(run_process(replace(plan, worker=worker)) for worker in range(2)))

    assert sorted(row["seq"] for run in runs for row in run.requests) == list(range(200))
    for worker, run in enumerate(runs):
        assert {row["seq"] % 2 for row in run.requests} == {worker}
        assert {row["lane"] for row in run.requests} == {0, 1}


class OtherClock:
    """A clock an hour away."""

    def monotonic_ns(self) -> int:
        return CLOCK.monotonic_ns() + 3600 * SECOND

    def wall_ns(self) -> int:
        return CLOCK.wall_ns()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def test_a_worker_on_another_clock_is_refused_and_ended() -> None:
    load = LoadProcess(plan_for("http://127.0.0.1:1/"), OtherClock())
    with pytest.raises(WorkerError, match="another clock"):
        await load.__aenter__()

    assert gone(load.pid)


async def test_secrets_are_not_in_the_command_line() -> None:
    with Server() as server:
        plan = plan_for(server.url, headers=(("Authorization", "Bearer hush"),), total=1)
        async with LoadProcess(plan, CLOCK) as load:
            assert b"hush" not in command_line(load.pid)


@pytest.mark.parametrize("facts", [{"url": "https://127.0.0.1/"}, {"qps": 0.0}, {"headers": (("A", "\n"),)}])
async def test_a_plan_that_cannot_be_sent_starts_nothing(facts: dict[str, object]) -> None:
    plan = replace(plan_for("http://127.0.0.1:1/"), **facts)  # type: ignore[arg-type]  # facts of many types
    load = LoadProcess(plan, CLOCK)

    with pytest.raises(UsageError):
        await load.__aenter__()


async def test_trouble_of_our_own_ends_the_worker_and_is_said_aloud(capfd: pytest.CaptureFixture[str]) -> None:
    with Server() as server:
        run = await run_process(plan_for(server.url, sender="pigeon"))

    assert run.lost is not None
    assert run.lost.status == 1
    assert "no sender 'pigeon'" in capfd.readouterr().err
