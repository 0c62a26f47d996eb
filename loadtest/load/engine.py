"""The open loop: every tick becomes a request on time, whatever happened to the requests before it.

Decides: which tick is dropped and why, when a request has taken too long, when the load is over. Everything here is
synchronous and acts only through the sender's connections; whoever drives it (`worker`) calls `turn` and `expire` and asks
when to come back, so tests drive it with a fake clock. Refuses: waiting for answers before sending, catching up in any other
way than sending late ticks at once, repeating.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from loadtest.clock import Clock
from loadtest.columns import ABSENT
from loadtest.load.pool import Choice, Pool
from loadtest.load.recorder import Recorder
from loadtest.load.schedule import Cursor, Tick, schedule_of
from loadtest.load.sender import Attempt, Connection, Sender
from loadtest.model import DropReason, Lane, LoadEnd, LoadPlan, Progress

BATCH = 64
"""Ticks sent in one turn: after a stall answers are read in between, or their times would be ours."""


class Engine:
    """One worker's load. It is the owner of the sender's connections.

    Args:
        on_over: called once, when nothing is due or open any more.
    """

    def __init__(self, plan: LoadPlan, clock: Clock, sender: Sender, recorder: Recorder, on_over: Callable[[], None]) -> None:
        self._plan = plan
        self._now = clock.monotonic_ns
        self._sender = sender
        self._recorder = recorder
        self._on_over = on_over
        self._random = random.Random(plan.seed)
        self._cursor = Cursor(schedule_of(plan), plan.worker)
        self._pool: Pool[Connection] = Pool(plan.connections if Lane.REUSED in plan.lanes else 0, plan.max_connections)
        self._under_way: dict[Attempt, Connection] = {}  # oldest first: the timeout is the same for all
        self._opening: dict[Connection, int] = {}  # in the warm-up, with the moment it began
        self._answers_left: dict[Connection, int] = {}  # of kept connections, where reuse has a limit
        self._connections = 0
        self._worst_lateness_ns = 0
        self._looked_again = False
        self._cut = False
        self.over = False

    # ------------------------------------------------------------ what drives it

    def warm_up(self) -> None:
        """Opens the kept connections. One that cannot be opened is no failed request."""
        wanted = 0 if self.over or Lane.REUSED not in self._plan.lanes else self._plan.connections
        for _ in range(wanted):
            connection = self._new_connection(Lane.REUSED)
            self._opening[connection] = self._now()
            connection.open()

    def turn(self) -> None:
        """Sends what is due by now, up to a batch."""
        if self.over:
            return
        may_drop, self._looked_again = self._looked_again, False
        for _ in range(BATCH):
            now = self._now()
            tick = self._cursor.due(now)
            if tick is None:
                break
            if not self._pool.has_room and not may_drop:
                # After a stall of our own the answers may lie in the sockets: read them before blaming the target.
                self._looked_again = True
                break
            self._cursor.take()
            if self._send(tick, now):
                may_drop = False

    def expire(self) -> None:
        """Ends what has taken too long. To be called a step of the loop after `turn`, so that what has arrived is read first."""
        limit = self._now() - self._plan.timeout_ns
        while self._under_way:
            attempt, connection = next(iter(self._under_way.items()))
            if attempt.started > limit:
                break
            connection.expire()
            assert attempt not in self._under_way
        while self._opening:
            connection, since = next(iter(self._opening.items()))
            if since > limit:
                break
            connection.expire()
            assert connection not in self._opening
        self._see_whether_over()

    def next_ns(self) -> int | None:
        """When to come back; None: only when a connection reports."""
        if self.over:
            return None
        moments = [self._cursor.next_due_ns]
        if self._under_way:
            moments.append(next(iter(self._under_way)).started + self._plan.timeout_ns)
        if self._opening:
            moments.append(next(iter(self._opening.values())) + self._plan.timeout_ns)
        return min((moment for moment in moments if moment is not None), default=None)

    def stop(self, at_ns: int) -> None:
        """Nothing that is due at or after this moment is sent; what is open may finish."""
        self._cursor.stop(at_ns)
        self._see_whether_over()

    def cut(self) -> None:
        """Ends at once: requests under way are recorded as open."""
        if self.over:
            return
        self._cut = True
        self._cursor.stop(self._now())
        for attempt in self._under_way:
            self._recorder.cut(attempt)
        self._under_way.clear()
        self._end()

    def progress(self) -> Progress:
        """Counts so far; the worst lateness is since the last call."""
        recorder = self._recorder
        worst, self._worst_lateness_ns = self._worst_lateness_ns, 0
        return Progress(
            worker=self._plan.worker,
            at=self._now() - self._plan.epoch_ns,
            sent=recorder.ok + recorder.failed + len(self._under_way),
            ok=recorder.ok,
            failed=recorder.failed,
            dropped=recorder.dropped,
            kept=self._pool.kept,
            worst_lateness_ns=worst,
            last_failure=recorder.last_failure,
        )

    def account(self, cpu_s: float) -> LoadEnd:
        """The worker's own sum, when the load is over."""
        recorder = self._recorder
        return LoadEnd(
            worker=self._plan.worker,
            last_due=self._cursor.last_due,
            sent=recorder.ok + recorder.failed,
            dropped=recorder.dropped,
            open=recorder.open,
            cut=self._cut,
            cpu_s=cpu_s,
        )

    # ------------------------------------------------------------ what connections report

    def opened(self, connection: Connection) -> None:
        """See `sender.Owner`."""
        self._opening.pop(connection, None)
        self._pool.give_back(connection)

    def finished(self, connection: Connection, attempt: Attempt) -> None:
        """See `sender.Owner`."""
        del self._under_way[attempt]
        if attempt.local:
            self._recorder.drop(Tick(attempt.seq, attempt.due, attempt.lane), DropReason.LOCAL)
        else:
            self._recorder.request(attempt)
        if connection.usable and connection.lane is Lane.REUSED and not self._worn(connection):
            self._pool.give_back(connection)
        else:
            if connection.usable:
                connection.close()
            self._retire(connection)
        self._see_whether_over()

    def lost(self, connection: Connection) -> None:
        """See `sender.Owner`."""
        if self._opening.pop(connection, None) is not None and connection.opened == ABSENT:
            self._recorder.connection(connection)  # no request will tell of this attempt, nor of its port
        self._retire(connection)

    # ------------------------------------------------------------ decisions

    def _send(self, tick: Tick, now: int) -> bool:
        """Whether it became a request."""
        lateness = now - tick.due_ns
        if lateness > self._worst_lateness_ns:
            self._worst_lateness_ns = lateness
        if lateness > self._plan.timeout_ns:
            self._recorder.drop(tick, DropReason.LATE_LOOP)
            return False
        choice, connection = self._pool.take(tick.lane)
        if choice is Choice.ALL_BUSY:
            self._recorder.drop(tick, DropReason.ALL_BUSY)
            return False
        if choice is Choice.OPEN:
            if connection is not None:
                connection.close()
                self._retire(connection)
            connection = self._new_connection(tick.lane)
        assert connection is not None
        attempt = Attempt(tick.seq, tick.due_ns, tick.lane, now)
        self._under_way[attempt] = connection
        connection.send(attempt)
        return True

    def _new_connection(self, lane: Lane) -> Connection:
        self._connections += 1
        connection = self._sender.connection(self._connections, lane, self)
        self._pool.add(connection, lane)
        least, most = self._plan.reuse
        if lane is Lane.REUSED and most > 0:
            # Drawn for each, so that they do not all end together.
            self._answers_left[connection] = self._random.randint(max(least, 1), most)
        return connection

    def _worn(self, connection: Connection) -> bool:
        """Whether it has served as many requests as it may."""
        left = self._answers_left.get(connection)
        return left is not None and connection.answers >= left

    def _retire(self, connection: Connection) -> None:
        self._pool.remove(connection)
        self._answers_left.pop(connection, None)
        if connection.opened != ABSENT:
            self._recorder.connection(connection)

    def _see_whether_over(self) -> None:
        if not self.over and self._cursor.over and not self._under_way:
            self._end()

    def _end(self) -> None:
        self.over = True
        for connection in self._pool.all():
            if connection.opened != ABSENT:
                self._recorder.connection(connection)  # as it is now: still open
            connection.close()
            self._pool.remove(connection)
        self._opening.clear()
        self._on_over()
