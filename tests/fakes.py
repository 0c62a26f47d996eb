"""Stand-ins that unit tests share."""

from __future__ import annotations

import asyncio


class FakeClock:
    """A clock that stands still until it is told to move; sleeping moves it."""

    def __init__(self, now_ns: int = 1_000_000_000_000, wall_ns: int = 1_700_000_000_000_000_000) -> None:
        self.now_ns = now_ns
        self.start_wall_ns = wall_ns - now_ns

    def monotonic_ns(self) -> int:
        """See `Clock`."""
        return self.now_ns

    def wall_ns(self) -> int:
        """See `Clock`. Moves along with the other."""
        return self.start_wall_ns + self.now_ns

    async def sleep(self, seconds: float) -> None:
        """See `Clock`. Lets other tasks run once, and takes no time."""
        self.now_ns += round(seconds * 1e9)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self.now_ns += round(seconds * 1e9)
