"""The fallback alarm, against a loop whose timers fire early, as uvloop's do. The timerfd needs a real system: tests/sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from loadtest.load.pace import LoopAlarm
from tests.fakes import FakeClock

NOW = 10_000_000_000


class EarlyHandle:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class EarlyLoop:
    """Its timers fire a millisecond early, but never before a twentieth of one."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._handles: list[tuple[float, EarlyHandle]] = []

    def call_later(self, delay: float, call: Callable[[], None]) -> EarlyHandle:
        handle = EarlyHandle(call)
        self._handles.append((max(delay - 0.001, 0.000_05), handle))
        return handle

    def call_soon(self, call: Callable[[], None]) -> EarlyHandle:
        handle = EarlyHandle(call)
        self._handles.append((0.0, handle))
        return handle

    def run(self) -> None:
        while self._handles:
            delay, handle = self._handles.pop(0)
            if handle.call is not None:
                self._clock.advance(delay)
                handle.call()


def alarm() -> tuple[LoopAlarm, EarlyLoop, list[int]]:
    clock = FakeClock(NOW)
    loop = EarlyLoop(clock)
    rings: list[int] = []
    return LoopAlarm(cast("asyncio.AbstractEventLoop", loop), clock, lambda: rings.append(clock.now_ns)), loop, rings


def test_it_never_rings_early_however_early_the_timer_is() -> None:
    bell, loop, rings = alarm()
    bell.set(NOW + 5_000_000)
    loop.run()

    assert len(rings) == 1
    assert NOW + 5_000_000 <= rings[0] <= NOW + 5_100_000


def test_a_moment_in_the_past_rings_at_once() -> None:
    bell, loop, rings = alarm()
    bell.set(NOW - 1)
    loop.run()

    assert rings == [NOW]


def test_the_last_setting_counts() -> None:
    bell, loop, rings = alarm()
    bell.set(NOW + 1_000_000_000)
    bell.set(NOW + 2_000_000)
    loop.run()

    assert len(rings) == 1
    assert rings[0] < NOW + 3_000_000


def test_it_can_be_silenced() -> None:
    bell, loop, rings = alarm()
    bell.set(NOW + 1_000_000)
    bell.set(None)
    loop.run()
    bell.set(NOW + 1_000_000)
    bell.close()
    loop.run()

    assert rings == []
