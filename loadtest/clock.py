"""The one place that reads time.

A run has one clock. Everything in it is counted in nanoseconds of the machine's monotonic clock, which the conductor and
its local load process share; wall time is only ever read beside it, to be able to say when a run took place and whether
the machine slept or its clock was set (`design.md`, decision 2).
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Two readings and a way to wait. Implemented by `SystemClock`, and by `FakeClock` in the tests."""

    def monotonic_ns(self) -> int:
        """Nanoseconds of a clock that never steps; its zero means nothing."""
        ...

    def wall_ns(self) -> int:
        """Nanoseconds since 1970 in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Returns after at least `seconds`."""
        ...


class SystemClock:
    """The machine's clocks."""

    # Bound directly: the load process reads this several times for each request.
    monotonic_ns = staticmethod(time.monotonic_ns)
    wall_ns = staticmethod(time.time_ns)

    async def sleep(self, seconds: float) -> None:
        """Returns after at least `seconds`."""
        await asyncio.sleep(seconds)
