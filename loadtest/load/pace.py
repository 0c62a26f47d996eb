"""Rings when a moment has come: never early, about 0.1 ms late.

asyncio's own timers are not used where they can be avoided: uvloop rounds them to whole milliseconds and can fire up to 1 ms
early (uvloop#359, #233), asyncio rounds up to a millisecond. On Linux a timerfd on CLOCK_MONOTONIC, armed to the absolute
moment, is precise with both loops. Elsewhere the loop's timer is used and the clock is looked at again when it fires.

Decides: only when to ring. What is due then is the engine's matter; a ring that comes late stays late, and is recorded as
such by whoever is rung.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
from collections.abc import Callable
from typing import Protocol

from loadtest.clock import Clock

CLOCK_MONOTONIC = 1
TFD_TIMER_ABSTIME = 1
TFD_NONBLOCK = os.O_NONBLOCK
TFD_CLOEXEC = getattr(os, "O_CLOEXEC", 0)


class Alarm(Protocol):
    """Calls back once for each setting, at or after the moment. Implemented by `TimerfdAlarm` and `LoopAlarm`."""

    def set(self, at_ns: int | None) -> None:
        """Ring at this monotonic time instead of any set before; a moment in the past rings soon; None: do not ring."""
        ...

    def close(self) -> None:
        """Never ring again."""
        ...


def alarm_for(loop: asyncio.AbstractEventLoop, clock: Clock, ring: Callable[[], None]) -> Alarm:
    """The most precise alarm that this system has."""
    try:
        return TimerfdAlarm(loop, clock, ring)
    except (OSError, AttributeError):  # no such call here
        return LoopAlarm(loop, clock, ring)


class TimerfdAlarm:
    """A timerfd that the loop reads. Linux only.

    Raises:
        OSError, AttributeError: the system has no timerfd.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._clock = clock
        self._ring = ring
        self._at_ns: int | None = None
        self._settime = _settime_function()
        self._fd = _create()
        loop.add_reader(self._fd, self._readable)

    def set(self, at_ns: int | None) -> None:
        """See `Alarm`."""
        if at_ns == self._at_ns:
            return
        self._at_ns = at_ns
        # Zero disarms, so a moment at or before zero becomes the first nanosecond: it rings at once.
        self._settime(self._fd, 0 if at_ns is None else max(at_ns, 1))

    def close(self) -> None:
        """See `Alarm`."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _readable(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # set anew between the wake-up and this call
            return
        at_ns = self._at_ns
        if at_ns is None:
            return
        self._at_ns = None
        if self._clock.monotonic_ns() < at_ns:  # not seen in practice; the promise does not depend on that
            self.set(at_ns)
            return
        self._ring()


class LoopAlarm:
    """The loop's own timer, with a second look at the clock: late by up to a millisecond or so, never early."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._clock = clock
        self._ring = ring
        self._at_ns: int | None = None
        self._handle: asyncio.Handle | None = None

    def set(self, at_ns: int | None) -> None:
        """See `Alarm`."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._at_ns = at_ns
        if at_ns is None:
            return
        wait_ns = at_ns - self._clock.monotonic_ns()
        if wait_ns <= 0:
            self._handle = self._loop.call_soon(self._look)
        else:
            self._handle = self._loop.call_later(wait_ns / 1e9, self._look)

    def close(self) -> None:
        """See `Alarm`."""
        self.set(None)

    def _look(self) -> None:
        at_ns = self._at_ns
        self._handle = None
        if at_ns is None:
            return
        if self._clock.monotonic_ns() < at_ns:
            self.set(at_ns)
            return
        self._at_ns = None
        self._ring()


if sys.platform == "linux" and sys.version_info >= (3, 13):

    def _create() -> int:
        return os.timerfd_create(CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC)

    def _settime_function() -> Callable[[int, int], None]:
        def settime(fd: int, at_ns: int) -> None:
            os.timerfd_settime_ns(fd, flags=os.TFD_TIMER_ABSTIME, initial=at_ns)

        return settime

else:

    def _create() -> int:
        fd: int = ctypes.CDLL(None, use_errno=True).timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        if fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return fd

    def _settime_function() -> Callable[[int, int], None]:
        call = ctypes.CDLL(None, use_errno=True).timerfd_settime
        spec = struct.Struct("@qqqq")  # struct itimerspec with 64-bit time_t: interval s, ns; value s, ns

        def settime(fd: int, at_ns: int) -> None:
            seconds, rest = divmod(at_ns, 1_000_000_000)
            if call(fd, TFD_TIMER_ABSTIME, spec.pack(0, 0, seconds, rest), None) < 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))

        return settime
