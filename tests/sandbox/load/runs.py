"""Runs a plan, in this process or in a worker's own, and gathers what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import uvloop

from loadtest.clock import SystemClock
from loadtest.columns import ABSENT, ConnectionBlock, RequestBlock
from loadtest.load import frames
from loadtest.load.frames import Message
from loadtest.load.process import LoadProcess
from loadtest.load.worker import Worker
from loadtest.model import FAILURE_KINDS, Drop, Failure, Lane, LoadEnd, LoadPlan, OpenRequest, PodName, Progress, WorkerLost

SECOND = 1_000_000_000
CLOCK = SystemClock()


def plan_for(url: str, **facts: Any) -> LoadPlan:
    """A plan that starts as soon as the worker is ready."""
    return replace(LoadPlan(run_id="run", epoch_ns=CLOCK.monotonic_ns(), url=url, qps=100.0, start_ns=0), **facts)


@dataclass
class Run:
    """What a load said."""

    requests: list[dict[str, int]] = field(default_factory=list)
    connections: list[dict[str, int]] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    drops: list[Drop] = field(default_factory=list)
    opens: list[OpenRequest] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=lambda: {0: ""})
    progress: list[Progress] = field(default_factory=list)
    end: LoadEnd | None = None
    lost: WorkerLost | None = None

    def take(self, message: Message) -> None:
        """One more."""
        match message:
            case RequestBlock():
                self.requests += _rows(message)
                assert all(row["pod"] in self.names for row in self.requests)
            case ConnectionBlock():
                self.connections += _rows(message)
            case Failure():
                self.failures.append(message)
            case Drop():
                self.drops.append(message)
            case OpenRequest():
                self.opens.append(message)
            case PodName():
                self.names[message.index] = message.name
            case Progress():
                self.progress.append(message)
            case LoadEnd():
                self.end = message
            case WorkerLost():
                self.lost = message

    def kinds(self) -> list[str]:
        """How each request ended, in the order of their numbers."""
        rows = sorted(self.requests, key=lambda row: row["seq"])
        return [FAILURE_KINDS[row["kind"] - 1].value if row["kind"] else "ok" for row in rows]

    def row(self, seq: int) -> dict[str, int]:
        """The request with this number."""
        return next(row for row in self.requests if row["seq"] == seq)

    def check_laws(self, workers: int = 1) -> None:
        """Laws 1 and 2 of the design, and that what is counted twice is counted alike."""
        seqs = [row["seq"] for row in self.requests] + [drop.seq for drop in self.drops] + [one.seq for one in self.opens]
        assert len(seqs) == len(set(seqs))
        if self.end is not None:
            assert sorted(seqs) == list(range(self.end.worker, self.end.last_due + 1, workers))
            assert (len(self.requests), len(self.drops), len(self.opens)) == (self.end.sent, self.end.dropped, self.end.open)
        for row in self.requests:
            moments = [row[name] for name in ("due", "started", "written", "first_byte", "ended") if row[name] != ABSENT]
            assert moments == sorted(moments), row
            assert row["due"] >= 0
        assert sorted(failure.seq for failure in self.failures) == sorted(row["seq"] for row in self.requests if row["kind"])
        assert len({row["connection"] for row in self.connections}) == len(self.connections)


def _rows(block: RequestBlock | ConnectionBlock) -> list[dict[str, int]]:
    return [dict(zip(block.columns, values, strict=True)) for values in zip(*block.columns.values(), strict=True)]


def run_here(plan: LoadPlan, *, uv: bool = True) -> Run:
    """Runs the worker's own code on a loop of this process. A plan that names no begin starts in 40 ms."""
    run = Run()

    def put(data: bytes) -> None:
        message = frames.message_of(data[:1], data[frames.HEADER.size :])
        assert not isinstance(message, frames.Hello)
        run.take(message)

    async def work() -> None:
        start_ns = plan.start_ns or CLOCK.monotonic_ns() + 40_000_000
        assert await Worker(replace(plan, start_ns=start_ns), CLOCK, put).run()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if uv else asyncio.new_event_loop) as runner:
        runner.run(work())
    run.check_laws()
    return run


async def run_process(plan: LoadPlan, meanwhile: Callable[[LoadProcess], Awaitable[None]] | None = None) -> Run:
    """Runs a worker process; `meanwhile` is awaited beside the reading."""
    run = Run()
    async with LoadProcess(plan, CLOCK) as load:
        beside = asyncio.ensure_future(meanwhile(load)) if meanwhile is not None else None
        async for message in load.messages():
            run.take(message)
        if beside is not None:
            await beside
    run.check_laws(plan.workers)
    return run


def stop_after(seconds: float) -> Callable[[LoadProcess], Awaitable[None]]:
    """Tells the worker at once when its last tick is due."""

    async def meanwhile(load: LoadProcess) -> None:
        await load.stop(load.plan.start_ns + round(seconds * SECOND))

    return meanwhile


def one(url: str, lane: Lane, sender: str, **facts: Any) -> LoadPlan:
    """One request on a fresh connection; or two on one kept connection, where the second is the one to look at."""
    total = 1 if lane is Lane.NEW else 2
    defaults = {"qps": 12.5, "lanes": (lane,), "total": total, "connections": 1, "max_connections": 1, "sender": sender}
    return plan_for(url, **{**defaults, "timeout_ns": 2 * SECOND, **facts})
