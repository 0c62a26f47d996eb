"""The phases of a run, in order: watch, warm up, baseline, trigger, rollout until the last old pod is gone, settle.

Load never stops in between and nothing waits for the analysis. Whatever goes wrong on the way, what was seen is in the file:
the marks say how far the run came.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from loadtest.clock import Clock
from loadtest.cluster import trigger
from loadtest.cluster.api import ClusterApi
from loadtest.cluster.rollout import Status, observed, status
from loadtest.errors import LoadtestError, StoreError
from loadtest.load.process import LoadProcess
from loadtest.model import (
    ClockSample,
    LoadEnd,
    LoadPlan,
    Mark,
    Phase,
    Progress,
    TriggerKind,
    WorkerLost,
)
from loadtest.run.prepare import Prepared
from loadtest.run.watching import Watching
from loadtest.store import Note, RunWriter

CLOCK_SAMPLE_S = 10.0
POLL_S = 0.25
CUT_S = 2.0
EXTERNAL_LATE_NS = 250_000_000
"""An external trigger is known by the arrival of its change, which the watch delivers up to 67 ms late: take more off."""

Say = Callable[[str], None]
Tick = Callable[[Progress, Watching], None]


class Conductor:
    """One run. `interrupt` may be called from a signal handler at any time.

    Args:
        api: the API server.
        prepared: what `prepare` found.
        plan: of the load; its `epoch_ns` is the run's start.
        clock: of the run.
        writer: of `run.db`.
        say: is given a line at each turn of the run.
        tick: is given the load's counts about once a second.
    """

    def __init__(
        self,
        api: ClusterApi,
        prepared: Prepared,
        plan: LoadPlan,
        clock: Clock,
        writer: RunWriter,
        say: Say,
        tick: Tick,
    ) -> None:
        self._api = api
        self._prepared = prepared
        self._plan = plan
        self._clock = clock
        self._writer = writer
        self._say = say
        self._tick = tick
        self._interrupted = asyncio.Event()
        self._load_ended = asyncio.Event()
        self._lost: WorkerLost | None = None

    def interrupt(self) -> None:
        """Load stops at once; what was seen is kept."""
        self._interrupted.set()

    async def run(self) -> None:
        """From the first list to the end of the load.

        Raises:
            LoadtestError: the run could not go on; what was seen is in the file all the same.
        """
        sampler = asyncio.create_task(self._sample_clock())
        try:
            async with Watching(self._api, self._prepared, self._clock, self._plan.epoch_ns, self._writer) as watching:
                await self._with_load(watching)
        finally:
            sampler.cancel()
            self._mark_now("end")

    async def _with_load(self, watching: Watching) -> None:
        async with LoadProcess(self._plan, self._clock) as load:
            pump = asyncio.create_task(self._pump(load, watching))
            phases = asyncio.create_task(self._phases(load, watching))
            interrupted = asyncio.create_task(self._interrupted.wait())
            ended = asyncio.create_task(self._load_ended.wait())
            try:
                await asyncio.wait({phases, interrupted, ended}, return_when=asyncio.FIRST_COMPLETED)
                if interrupted.done():
                    self._mark_now("interrupted")
                    self._mark_now("stop")
                    await self._cut(load, pump)
                elif phases.done():
                    phases.result()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(asyncio.shield(pump), self._plan.timeout_ns / 1e9 + CUT_S)
                    if not pump.done():
                        await self._cut(load, pump)
                else:
                    self._mark_now("stop")
                    self._writer.put(Note(text=self._why_load_ended()))
                if pump.done():
                    pump.result()  # a full disk
            except BaseException:
                await self._cut(load, pump)
                raise
            finally:
                for task in (phases, interrupted, ended, pump):
                    task.cancel()
                await asyncio.gather(phases, interrupted, ended, pump, return_exceptions=True)

    def _why_load_ended(self) -> str:
        if self._lost is None:
            return "The load ended before it was told to."
        self._mark_now("worker-lost", f"exit status {self._lost.status}")
        return f"The load worker died (exit status {self._lost.status}); what it had not handed over is lost."

    async def _cut(self, load: LoadProcess, pump: asyncio.Task[None]) -> None:
        with contextlib.suppress(TimeoutError, OSError, LoadtestError):
            await load.cut()
            await asyncio.wait_for(asyncio.shield(pump), CUT_S)

    async def _pump(self, load: LoadProcess, watching: Watching) -> None:
        """From the worker into the file."""
        try:
            async for message in load.messages():
                match message:
                    case Progress():
                        self._tick(message, watching)
                    case WorkerLost():
                        self._lost = message
                    case LoadEnd():
                        self._writer.put(message)
                    case _:
                        self._writer.put(message)
        finally:
            self._load_ended.set()

    async def _phases(self, load: LoadProcess, watching: Watching) -> None:
        scenario = self._prepared.scenario
        begin = load.plan.start_ns - self._plan.epoch_ns
        self._mark(str(Phase.WARMUP), begin)
        self._say(f"warm-up {scenario.warmup_ns / 1e9:g} s: {scenario.qps:g} requests/s on {self._prepared.target.url}")
        await self._until(begin + scenario.warmup_ns)
        self._mark_now(str(Phase.BASELINE))
        self._say(f"baseline {scenario.baseline_ns / 1e9:g} s")
        await self._until(begin + scenario.warmup_ns + scenario.baseline_ns)
        if not await self._trigger(watching):
            await self._stop(load)
            return
        if await self._roll(watching):
            self._mark_now(str(Phase.SETTLE))
            self._say(f"settle {scenario.settle / 1e9:g} s")
            await self._until(self._now() + scenario.settle)
        await self._stop(load)

    async def _stop(self, load: LoadProcess) -> None:
        self._mark_now("stop")
        await load.stop(self._clock.monotonic_ns())

    async def _trigger(self, watching: Watching) -> bool:
        """Starts the rollout, or waits for somebody to. False: nobody did."""
        change = self._prepared.change
        self._old = frozenset(watching.pods)
        self._generation = _generation(watching)
        if self._prepared.scenario.trigger is TriggerKind.EXTERNAL:
            return await self._external(watching)
        self._say(f"rollout: {change.name} {change.detail}".rstrip())
        self._mark_now(str(Phase.ROLLOUT))
        self._mark_now("trigger", change.detail)
        answer = await trigger.send(self._api, change)
        self._mark_now("trigger-sent")
        self._generation = int((answer.get("metadata") or {}).get("generation") or self._generation + 1) - 1
        return True

    async def _external(self, watching: Watching) -> bool:
        scenario = self._prepared.scenario
        if scenario.ready_file:
            await asyncio.to_thread(_write_ready, Path(scenario.ready_file))
        self._say("ready: start the rollout now")
        until = self._now() + scenario.wait_for_rollout_ns
        while _generation(watching) <= self._generation:
            if self._now() > until:
                self._say("no rollout was seen to start")
                return False
            self._old = frozenset(watching.pods)
            await self._changed(watching)
        at = self._now() - EXTERNAL_LATE_NS
        self._mark(str(Phase.ROLLOUT), at)
        self._mark("trigger", at, "seen by its change of the Deployment")
        self._say("rollout: the Deployment was changed")
        return True

    async def _roll(self, watching: Watching) -> bool:
        """Until the rollout is complete and the last old pod is gone. False: it got stuck."""
        until = self._now() + self._prepared.rollout_timeout_ns
        completed, said = False, ""
        while True:
            now = status(watching.deployment) if self._is_newer(watching) else Status(message="Waiting for the change to be seen")
            alive = watching.old_pods_alive(self._old)
            if now.done and not completed:
                completed = True
                self._mark_now("completed", now.message)
            if completed and not alive:
                self._mark_now("old-pods-gone")
                self._say("rollout complete, the last old pod is gone")
                return True
            message = f"waiting for old pods to end: {len(alive)} left" if completed else now.message
            if message != said:
                self._say(f"rollout: {message}")
                said = message
            if now.failed or self._now() > until:
                why = (
                    now.message if now.failed else f"not complete after {self._prepared.rollout_timeout_ns / 1e9:g} s: {message}"
                )
                self._mark_now("stuck", why)
                self._say(f"rollout stuck: {why}")
                return False
            await self._changed(watching)

    def _is_newer(self, watching: Watching) -> bool:
        return _generation(watching) > self._generation and observed(watching.deployment)

    async def _changed(self, watching: Watching) -> None:
        """Until the watch brings something, or a quarter of a second is over."""
        watching.changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(watching.changed.wait(), POLL_S)
        failure = watching.failed()
        if failure is not None:
            raise failure

    async def _until(self, at: int) -> None:
        while (left := at - self._now()) > 0:
            await self._clock.sleep(left / 1e9)

    async def _sample_clock(self) -> None:
        while True:
            self._writer.put(ClockSample(at=self._now(), wall_ns=self._clock.wall_ns()))
            await self._clock.sleep(CLOCK_SAMPLE_S)

    def _now(self) -> int:
        return self._clock.monotonic_ns() - self._plan.epoch_ns

    def _mark_now(self, name: str, detail: str = "") -> None:
        self._mark(name, self._now(), detail)

    def _mark(self, name: str, at: int, detail: str = "") -> None:
        self._writer.put(Mark(name=name, at=at, detail=detail))


def _generation(watching: Watching) -> int:
    return int((watching.deployment.get("metadata") or {}).get("generation") or 0)


def _write_ready(path: Path) -> None:
    try:
        path.write_text("ready\n")
    except OSError as error:
        raise StoreError(f"--ready-file: {path}: cannot be written: {error.strerror}") from error
