"""Which connection takes a request: bookkeeping over connections, without touching one.

Decides: the longest-idle kept connection goes first, so that all stay in use; when all are busy more are opened, up to a limit
over both lanes; beyond it the tick is dropped. The limit is about connections that *wait on the target*: idle ones never
stand in the way, the longest-idle makes room. Refuses: opening anything by itself. When kept connections were lost (a rollout
does that), ticks of the reused lane fill the pool up again, but at most every second one, so that those still kept stay in use
even where new ones cannot be had.
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, TypeVar

from loadtest.model import Lane

C = TypeVar("C")


class Choice(Enum):
    """What a tick gets."""

    USE = "an idle connection"
    OPEN = "a new connection"
    ALL_BUSY = "nothing"


class Pool(Generic[C]):
    """The connections of a worker.

    Args:
        wanted: kept connections to have.
        most: limit over both lanes.
    """

    def __init__(self, wanted: int, most: int) -> None:
        self._wanted = wanted
        self._most = max(most, 1)
        self._idle: dict[C, None] = {}  # in the order they fell idle
        self._kept: set[C] = set()  # of the reused lane: idle, busy or connecting
        self._all: dict[C, None] = {}  # oldest first, so that a run can be told again
        self._filled = False

    def take(self, lane: Lane) -> tuple[Choice, C | None]:
        """What a request of this lane gets. USE: this one, now busy. OPEN: close the one named, if any, and `add` a new one."""
        if lane is Lane.REUSED and self._idle:
            if len(self._kept) < self._wanted and not self._filled and len(self._all) < self._most:
                self._filled = True
                return Choice.OPEN, None
            self._filled = False
            return Choice.USE, self._pop_idle()
        if len(self._all) < self._most:
            return Choice.OPEN, None
        if self._idle:
            victim = self._pop_idle()
            self.remove(victim)
            return Choice.OPEN, victim
        return Choice.ALL_BUSY, None

    @property
    def has_room(self) -> bool:
        """Whether `take` would give anything but ALL_BUSY."""
        return bool(self._idle) or len(self._all) < self._most

    def add(self, connection: C, lane: Lane) -> None:
        """A new connection, busy from its begin."""
        self._all[connection] = None
        if lane is Lane.REUSED:
            self._kept.add(connection)

    def give_back(self, connection: C) -> None:
        """It is idle now."""
        self._idle[connection] = None

    def remove(self, connection: C) -> None:
        """It is closed."""
        self._idle.pop(connection, None)
        self._kept.discard(connection)
        self._all.pop(connection, None)

    @property
    def kept(self) -> int:
        """Kept connections, those being opened included."""
        return len(self._kept)

    @property
    def idle(self) -> int:
        """Kept connections that wait for work."""
        return len(self._idle)

    def all(self) -> tuple[C, ...]:
        """Every connection, oldest first."""
        return tuple(self._all)

    def _pop_idle(self) -> C:
        connection = next(iter(self._idle))
        del self._idle[connection]
        return connection
