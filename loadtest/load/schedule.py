"""When each tick of a constant rate is due, which worker takes it and on which lane: arithmetic, no clock.

Decides: due times, stripes, lanes, the end of the schedule. Refuses: waiting (`pace`), and any change of the rate because
something was late: tick k is due at `start + k / qps`, whatever happened to the ticks before it. Input: the `LoadPlan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from loadtest.model import Lane, LoadPlan

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Tick:
    """One place in the schedule. `due_ns`: monotonic time."""

    seq: int
    due_ns: int
    lane: Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The whole run's ticks, of which every worker can compute its own share alone.

    Attributes:
        start_ns: monotonic time of tick 0.
        interval_ns: between two ticks, as an exact fraction: no drift, however long the run.
        total: number of ticks, or 0: endless.
        lanes: which take turns.
        workers: how many share the ticks.
    """

    start_ns: int
    interval_ns: Fraction
    total: int
    lanes: tuple[Lane, ...]
    workers: int

    def tick(self, seq: int) -> Tick:
        """The tick with this number; of the whole schedule, not of a worker."""
        return Tick(seq, self.due_ns(seq), self.lane(seq))

    def due_ns(self, seq: int) -> int:
        """`start + seq / qps`, rounded down to a nanosecond."""
        interval = self.interval_ns
        return self.start_ns + seq * interval.numerator // interval.denominator

    def lane(self, seq: int) -> Lane:
        """Lanes take turns *within each worker*: with two lanes and two workers, plain `seq % 2` would give each only one."""
        return self.lanes[(seq // self.workers + seq % self.workers) % len(self.lanes)]


def schedule_of(plan: LoadPlan) -> Schedule:
    """The plan's schedule.

    Raises:
        ValueError: a rate that is not above zero, no lanes, or a worker outside the workers.
    """
    if not plan.qps > 0:
        raise ValueError(f"qps must be above 0, not {plan.qps:g}")
    if not plan.lanes:
        raise ValueError("at least one lane is needed")
    if not 0 <= plan.worker < plan.workers:
        raise ValueError(f"worker {plan.worker} of {plan.workers}")
    # By its decimal digits: 0.1 means a tenth, not the nearest binary fraction to it.
    interval = SECOND_NS / Fraction(repr(plan.qps))
    return Schedule(start_ns=plan.start_ns, interval_ns=interval, total=plan.total, lanes=plan.lanes, workers=plan.workers)


class Cursor:
    """One worker's walk through its stripe of the schedule: every tick once, in order, never early."""

    def __init__(self, schedule: Schedule, worker: int) -> None:
        self._schedule = schedule
        self._step = schedule.workers
        self._stop_ns: int | None = None
        self._next = schedule.tick(worker)
        self.last_due = -1
        """Highest sequence number taken so far."""

    def due(self, now_ns: int) -> Tick | None:
        """The next tick if it is due by now, else None; the same one until it is taken."""
        tick = self._next
        return None if tick.due_ns > now_ns or self.over else tick

    def take(self) -> None:
        """The next tick has become a request or was dropped."""
        self.last_due = self._next.seq
        self._next = self._schedule.tick(self._next.seq + self._step)

    @property
    def over(self) -> bool:
        """Nothing more will ever be due."""
        tick = self._next
        total = self._schedule.total
        return (total > 0 and tick.seq >= total) or (self._stop_ns is not None and tick.due_ns >= self._stop_ns)

    @property
    def next_due_ns(self) -> int | None:
        """When the next tick is due; None: never."""
        return None if self.over else self._next.due_ns

    def stop(self, at_ns: int) -> None:
        """Ticks due at or after this moment will not be. A second call can only bring the end nearer."""
        self._stop_ns = at_ns if self._stop_ns is None else min(at_ns, self._stop_ns)
