"""Real timers on real loops: never early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from loadtest.load.pace import Alarm, LoopAlarm, TimerfdAlarm, alarm_for
from tests.sandbox.load.runs import CLOCK

LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


def ring_times(
    make: Callable[[asyncio.AbstractEventLoop, Callable[[], None]], Alarm], loop_name: str, waits_ns: list[int]
) -> list[int]:
    """How late it rings after each of these waits, in ns."""
    late: list[int] = []

    async def work() -> None:
        rung = asyncio.Event()
        alarm = make(asyncio.get_running_loop(), rung.set)
        for wait_ns in waits_ns:
            at_ns = CLOCK.monotonic_ns() + wait_ns
            alarm.set(at_ns)
            await rung.wait()
            late.append(CLOCK.monotonic_ns() - at_ns)
            rung.clear()
        alarm.set(CLOCK.monotonic_ns() + 1_000_000)
        alarm.close()
        await asyncio.sleep(0.005)
        assert not rung.is_set()

    with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
        runner.run(work())
    return late


@pytest.mark.parametrize("kind", [TimerfdAlarm, LoopAlarm])
@pytest.mark.parametrize("loop_name", LOOPS)
def test_an_alarm_is_never_early(kind: Callable[..., Alarm], loop_name: str) -> None:
    waits = [at * 137_000 for at in range(1, 40)] + [0, -1_000_000]

    late = ring_times(lambda loop, ring: kind(loop, CLOCK, ring), loop_name, waits)

    assert min(late) >= 0
    assert sorted(late)[len(late) // 2] < 5_000_000


def test_linux_gets_the_precise_alarm() -> None:
    async def work() -> None:
        alarm = alarm_for(asyncio.get_running_loop(), CLOCK, lambda: None)
        assert isinstance(alarm, TimerfdAlarm)
        alarm.close()
        alarm.close()

    asyncio.run(work())
