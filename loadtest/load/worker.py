"""The load process: one worker's share of the load, and nothing else on its loop.

Input: the plan as the first line of standard input (it may hold secrets, so it is never in argv), then commands. Output:
frames on standard output. It ignores SIGINT, which a terminal sends to the whole group: the conductor decides what a Ctrl-C
means. SIGTERM, the end of standard input and a broken standard output all mean: cut, and leave; so no worker outlives its
conductor.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

from loadtest.clock import Clock, SystemClock
from loadtest.load import frames
from loadtest.load.connection import HttpSender
from loadtest.load.engine import Engine
from loadtest.load.outbox import Outbox
from loadtest.load.pace import alarm_for
from loadtest.load.podname import PodNames
from loadtest.load.recorder import Recorded, Recorder
from loadtest.load.sender import Sender
from loadtest.model import LoadPlan

FLUSH_S = 0.25
FLUSHES_A_REPORT = 4
MOST_GARBAGE = 20_000
"""Objects that may come to be between two looks of ours before the collector runs; connections leave no cycles."""


def sender_for(plan: LoadPlan, clock: Clock, names: PodNames) -> Sender:
    """The sender that the plan asks for.

    Raises:
        ValueError: there is none of that name.
    """
    match plan.sender:
        case "own":
            return HttpSender(plan, clock, names)
        case "aiohttp":
            from loadtest.load.aiohttp_client import AiohttpSender  # takes a quarter of a second to import

            return AiohttpSender(plan, clock, names)
        case other:
            raise ValueError(f"no sender {other!r}")


class Worker:
    """Drives an engine until it is over, and passes on what it records."""

    def __init__(self, plan: LoadPlan, clock: Clock, put: Callable[[bytes], None]) -> None:
        self._clock = clock
        self._put = put
        names = PodNames()
        self._recorder = Recorder(plan.worker, plan.epoch_ns, names, self._deliver)
        self._sender = sender_for(plan, clock, names)
        self._over = asyncio.Event()
        self._trouble: str = ""
        self.engine = Engine(plan, clock, self._sender, self._recorder, self._over.set)
        self._loop = asyncio.get_running_loop()
        self._alarm = alarm_for(self._loop, clock, self._rung)

    async def run(self) -> bool:
        """From the warm-up to the end of the last request. False: trouble of our own ended it, what was recorded is passed on."""
        self._loop.set_exception_handler(self._on_trouble)
        await self._sender.start()
        self.engine.warm_up()
        reporter = asyncio.create_task(self._report())
        self._after()
        await self._over.wait()
        self._alarm.close()
        reporter.cancel()
        await asyncio.gather(reporter, return_exceptions=True)
        await self._sender.close()
        self._recorder.flush()
        if self._trouble:
            return False
        self._put(frames.frame(self.engine.progress()))
        self._put(frames.frame(self.engine.account(_cpu_s())))
        return True

    def command(self, line: bytes) -> None:
        """Does what the conductor says."""
        command = json.loads(line)
        if command["command"] == "stop":
            self.engine.stop(int(command["at"]))
            self._after()
        else:
            self.engine.cut()

    def _rung(self) -> None:
        self.engine.turn()
        # A step later: what has arrived by now is read before anything is called too late.
        self._loop.call_soon(self._after)

    def _after(self) -> None:
        self.engine.expire()
        if not self.engine.over:
            self._alarm.set(self.engine.next_ns())

    def _on_trouble(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception in a callback: a fault of ours. Going on would mean a load with holes that nobody knows of."""
        loop.default_exception_handler(context)
        self._trouble = context["message"]
        self._over.set()

    def _deliver(self, values: list[Recorded]) -> None:
        for value in values:
            self._put(frames.frame(value))

    async def _report(self) -> None:
        count = 0
        while True:
            await self._clock.sleep(FLUSH_S)
            self._recorder.flush()
            count += 1
            if count % FLUSHES_A_REPORT == 0:
                self._put(frames.frame(self.engine.progress()))
                if gc.get_count()[0] > MOST_GARBAGE:
                    gc.collect()


async def serve(clock: Clock, fd_in: int, fd_out: int) -> int:
    """Runs one plan from the first line of the input. The exit status."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd_in, "rb", buffering=0))
    line = await reader.readline()
    if not line:
        return 0  # called off before it began
    gone = asyncio.Event()
    outbox = Outbox(fd_out, lambda: loop.call_soon_threadsafe(gone.set))

    def put(data: bytes) -> None:
        outbox.put(data)
        if outbox.full:
            gone.set()

    worker = Worker(frames.plan_of(line), clock, put)
    loop.add_signal_handler(signal.SIGTERM, worker.engine.cut)
    gc.collect()
    gc.freeze()
    gc.disable()
    tasks = [asyncio.create_task(_obey(worker, reader)), asyncio.create_task(_cut_when(gone, worker))]
    done = False
    try:
        done = await worker.run()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        outbox.close(timeout_s=0.0 if gone.is_set() else 10.0)
    if gone.is_set() and outbox.full:
        print("loadtest worker: nobody reads the results any more", file=sys.stderr)
        return 1
    return 0 if done else 1


async def _obey(worker: Worker, reader: asyncio.StreamReader) -> None:
    while line := await reader.readline():
        worker.command(line)
    worker.engine.cut()  # the conductor is gone


async def _cut_when(gone: asyncio.Event, worker: Worker) -> None:
    await gone.wait()
    worker.engine.cut()


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    with contextlib.suppress(ImportError):
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
        return factory
    return asyncio.new_event_loop


def main() -> int:
    """The process. Says hello at once: the conductor compares the stamp with its own clock."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    clock = SystemClock()
    # The frames get a descriptor of their own, and whatever prints by accident goes to standard error.
    fd_out = os.dup(1)
    os.dup2(2, 1)
    fd_in = os.dup(0)
    os.write(fd_out, frames.frame(frames.Hello(stamp_ns=clock.monotonic_ns())))
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(serve(clock, fd_in, fd_out))


if __name__ == "__main__":
    sys.exit(main())
