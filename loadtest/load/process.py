"""The conductor's side of a load process: starts it, reads what it says, tells it when to stop, never leaves it behind.

Decides: whether the two clocks are one (a worker's stamp must lie within the exchange), and what a worker's death means: not
an exception that loses what was seen, but a last value, `WorkerLost`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from types import TracebackType
from typing import Self

from loadtest.clock import Clock
from loadtest.columns import RequestBlock
from loadtest.errors import UsageError, WorkerError
from loadtest.load import frames
from loadtest.load.frames import Hello, Message
from loadtest.load.podname import PodReader
from loadtest.load.request import RequestBytes
from loadtest.load.schedule import schedule_of
from loadtest.model import Drop, LoadEnd, LoadPlan, OpenRequest, WorkerLost

HELLO_S = 30.0
LEAVE_S = 3.0
CLOCK_ERROR_NS = 1_000_000
LEAD_NS = 500_000_000
"""From the plan's arrival to tick 0 where the plan leaves it open: for the warm-up's connections."""

_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from loadtest.load.worker import main; sys.exit(main())"


class LoadProcess:
    """A worker process, as an async context manager.

    Args:
        plan: what it is to do. `start_ns` 0: half a second after it is ready; `plan` then says when that is.

    Raises (on entering):
        UsageError: the plan cannot be sent; nothing was started.
        WorkerError: it did not start, or its clock is not ours.
    """

    def __init__(self, plan: LoadPlan, clock: Clock) -> None:
        self.plan = plan
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._last_seq = -1

    async def __aenter__(self) -> Self:
        check_plan(self.plan)
        sent_ns = self._clock.monotonic_ns()
        try:
            # Our own module path and not the working directory: the same code, whatever lies where the user stands.
            self._process = process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-c",
                _PROGRAM,
                *sys.path,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise WorkerError(f"the load process cannot be started: {error.strerror}") from error
        try:
            hello = await asyncio.wait_for(self._read(), HELLO_S)
            if not isinstance(hello, Hello):
                raise WorkerError("the load process ended before it began", "its own words are above")
            check_stamp(sent_ns, hello.stamp_ns, self._clock.monotonic_ns())
            if self.plan.start_ns == 0:
                self.plan = replace(self.plan, start_ns=self._clock.monotonic_ns() + LEAD_NS)
            await self._tell(frames.plan_line(self.plan))
        except TimeoutError as error:
            await self._end(process)
            raise WorkerError(f"the load process said nothing for {HELLO_S:g} s") from error
        except BaseException:
            await self._end(process)
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is not None:
            await self._end(self._process)

    @property
    def pid(self) -> int:
        """Of the worker."""
        assert self._process is not None
        return self._process.pid

    async def messages(self) -> AsyncIterator[Message]:
        """Everything that the worker says, until `LoadEnd` or, if it died before that, `WorkerLost`."""
        while (message := await self._read()) is not None:
            if isinstance(message, Hello):
                continue
            self._note(message)
            yield message
            if isinstance(message, LoadEnd):
                return
        assert self._process is not None
        status = await self._process.wait()
        yield WorkerLost(worker=self.plan.worker, status=status, last_seq=self._last_seq)

    async def stop(self, at_ns: int) -> None:
        """Nothing due at or after this monotonic time is sent; what is open may finish."""
        await self._tell(frames.stop_line(at_ns))

    async def cut(self) -> None:
        """Ends at once; requests under way become `OpenRequest`."""
        await self._tell(frames.cut_line())

    def _note(self, message: Message) -> None:
        if isinstance(message, RequestBlock):
            self._last_seq = max(self._last_seq, max(message.columns["seq"]))
        elif isinstance(message, Drop | OpenRequest):
            self._last_seq = max(self._last_seq, message.seq)

    async def _read(self) -> Message | Hello | None:
        """The next message; None: there will be no more."""
        assert self._process is not None
        stream = self._process.stdout
        assert stream is not None
        try:
            letter, size = frames.HEADER.unpack(await stream.readexactly(frames.HEADER.size))
            if size > frames.MOST_PAYLOAD:
                raise WorkerError("the load process says something else than frames")
            return frames.message_of(letter, await stream.readexactly(size))
        except asyncio.IncompleteReadError:  # it died, perhaps in the middle of a word
            return None
        except ValueError as error:
            raise WorkerError(f"the load process says something else than frames: {error}") from error

    async def _tell(self, line: bytes) -> None:
        assert self._process is not None
        stream = self._process.stdin
        assert stream is not None
        with contextlib.suppress(ConnectionError):  # it is gone; `messages` will say so
            stream.write(line)
            await stream.drain()

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """Closing its input tells it to leave; what does not leave is killed."""
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(LEAVE_S):
                with contextlib.suppress(RuntimeError):  # somebody still iterates over `messages`, and so reads
                    # Its last words have to be read, or it could not say them and leave.
                    while await process.stdout.read(1 << 20):
                        pass
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def check_plan(plan: LoadPlan) -> None:
    """That a worker will be able to do it.

    Raises:
        UsageError: it will not.
    """
    try:
        schedule_of(plan)
        RequestBytes(plan)
        PodReader(plan.pod_from)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not plan.url.startswith("http://"):
        raise UsageError("only plain http can be sent so far")


def check_stamp(sent_ns: int, stamp_ns: int, received_ns: int) -> None:
    """That a stamp which came within an exchange also reads so.

    Raises:
        WorkerError: it lies more than a millisecond outside.
    """
    if not sent_ns - CLOCK_ERROR_NS <= stamp_ns <= received_ns + CLOCK_ERROR_NS:
        lasted, claimed = received_ns - sent_ns, stamp_ns - sent_ns
        raise WorkerError(f"the load process reads another clock: {claimed} ns into an exchange that lasted {lasted} ns")
