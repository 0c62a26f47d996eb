"""The open loop against a sender that answers when the test says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from loadtest.columns import ABSENT, CLOSED_BY, ConnectionBlock, RequestBlock, rows
from loadtest.load.engine import BATCH, Engine
from loadtest.load.podname import PodNames
from loadtest.load.recorder import Recorded, Recorder
from loadtest.load.sender import Attempt, Owner
from loadtest.model import Drop, DropReason, FailureKind, Lane, LoadPlan, OpenRequest
from tests.fakes import FakeClock

START = 1_000_000_000_000
PLAN = LoadPlan(
    run_id="r",
    epoch_ns=START,
    url="http://h/",
    qps=10.0,
    start_ns=START,
    connections=2,
    max_connections=6,
    timeout_ns=2_000_000_000,
)


class FakeConnection:
    def __init__(self, number: int, lane: Lane, owner: Owner, clock: FakeClock) -> None:
        self.number, self.lane, self._owner, self._clock = number, lane, owner, clock
        self.opened = self.closed = ABSENT
        self.closed_by = self.answers = self.pod = 0
        self.port = 1000 + number
        self.attempt: Attempt | None = None

    @property
    def usable(self) -> bool:
        return self.opened != ABSENT and self.closed == ABSENT and self.attempt is None

    def open(self) -> None:
        pass

    def send(self, attempt: Attempt) -> None:
        attempt.connection, attempt.answers_before = self.number, self.answers
        self.attempt = attempt

    def expire(self) -> None:
        self.fail(FailureKind.RESPONSE_TIMEOUT)

    def close(self) -> None:
        self.closed, self.closed_by = self._clock.now_ns, CLOSED_BY.index("us")

    # what the test lets happen

    def open_succeeds(self) -> None:
        self.opened = self._clock.now_ns
        self._owner.opened(self)

    def is_lost(self) -> None:
        self.closed, self.closed_by = self._clock.now_ns, CLOSED_BY.index("peer-fin")
        self._owner.lost(self)

    def answer(self) -> None:
        attempt, self.attempt = self.attempt, None
        assert attempt is not None
        if self.opened == ABSENT:
            self.opened = self._clock.now_ns
        attempt.written = attempt.first_byte = attempt.ended = self._clock.now_ns
        attempt.status = 200
        self.answers += 1
        self._owner.finished(self, attempt)

    def fail(self, kind: FailureKind | None) -> None:
        attempt, self.attempt = self.attempt, None
        self.closed, self.closed_by = self._clock.now_ns, CLOSED_BY.index("error")
        if attempt is None:
            self._owner.lost(self)
            return
        attempt.ended, attempt.kind, attempt.local = self._clock.now_ns, kind, kind is None
        self._owner.finished(self, attempt)


@dataclass
class Load:
    """An engine and everything around it."""

    plan: LoadPlan = PLAN
    clock: FakeClock = field(default_factory=lambda: FakeClock(START))
    connections: list[FakeConnection] = field(default_factory=list)
    seen: list[Recorded] = field(default_factory=list)
    ended: int = 0

    def __post_init__(self) -> None:
        self.recorder = Recorder(0, self.plan.epoch_ns, PodNames(), self.seen.extend)
        self.engine = Engine(self.plan, self.clock, self, self.recorder, self._end)

    def _end(self) -> None:
        self.ended += 1

    def connection(self, number: int, lane: Lane, owner: Owner) -> FakeConnection:
        self.connections.append(FakeConnection(number, lane, owner, self.clock))
        return self.connections[-1]

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def warm(self) -> None:
        self.engine.warm_up()
        for connection in self.connections:
            connection.open_succeeds()

    def step(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        self.engine.turn()
        self.engine.expire()

    def busy(self) -> list[FakeConnection]:
        return [connection for connection in self.connections if connection.attempt is not None]

    def requests(self, *names: str) -> list[tuple[int, ...]]:
        self.recorder.flush()
        return sorted(row for block in self.seen if isinstance(block, RequestBlock) for row in rows(block, *names))

    def connection_rows(self, *names: str) -> list[tuple[int, ...]]:
        self.recorder.flush()
        return [row for block in self.seen if isinstance(block, ConnectionBlock) for row in rows(block, *names)]

    def drops(self) -> list[tuple[int, DropReason]]:
        self.recorder.flush()
        return [(value.seq, value.reason) for value in self.seen if isinstance(value, Drop)]

    def accounted(self) -> list[int]:
        """Law 1: what every sequence number became."""
        opens = [value.seq for value in self.seen if isinstance(value, OpenRequest)]
        return sorted([seq for (seq,) in self.requests("seq")] + [seq for seq, _ in self.drops()] + opens)


@pytest.fixture
def load() -> Iterator[Load]:
    made = Load()
    yield made
    if made.engine.over:
        made.recorder.flush()
        assert made.accounted() == list(range(made.engine.account(0.0).last_due + 1))
        assert made.ended == 1


def test_the_kept_connections_are_opened_before_the_first_tick(load: Load) -> None:
    load.warm()

    assert [connection.lane for connection in load.connections] == [Lane.REUSED] * 2
    assert load.engine.progress().kept == 2


def test_without_the_reused_lane_nothing_is_kept() -> None:
    load = Load(replace(PLAN, lanes=(Lane.NEW,)))
    load.warm()

    assert load.connections == []


def test_ticks_take_turns_between_fresh_and_kept_connections(load: Load) -> None:
    load.warm()
    for _ in range(6):
        load.step()
        for connection in load.busy():
            connection.answer()
        load.clock.advance(0.1)

    assert load.requests("seq", "lane", "connection", "answers_before") == [
        (0, Lane.NEW, 3, 0),
        (1, Lane.REUSED, 1, 0),
        (2, Lane.NEW, 4, 0),
        (3, Lane.REUSED, 2, 0),
        (4, Lane.NEW, 5, 0),
        (5, Lane.REUSED, 1, 1),
    ]


def test_nothing_is_sent_before_it_is_due(load: Load) -> None:
    load.warm()
    load.step()
    load.step(0.099_999_999)
    assert len(load.busy()) == 1
    assert load.engine.next_ns() == START + 100_000_000

    load.step(0.000_000_001)
    assert len(load.busy()) == 2


def test_a_late_tick_is_sent_at_once_with_its_own_due_time(load: Load) -> None:
    load.warm()
    load.step(0.35)
    for connection in load.busy():
        connection.answer()

    assert load.requests("due", "started") == [(at * 100_000_000, 350_000_000) for at in range(4)]
    assert load.engine.progress().worst_lateness_ns == 350_000_000
    assert load.engine.progress().worst_lateness_ns == 0


def test_a_tick_that_is_later_than_the_timeout_is_dropped(load: Load) -> None:
    load.warm()
    load.step(2.05)

    assert load.drops() == [(0, DropReason.LATE_LOOP)]
    assert len(load.busy()) == 6


def test_an_unanswered_request_delays_no_other(load: Load) -> None:
    load.warm()
    for _ in range(4):
        load.step()
        load.clock.advance(0.1)

    assert len(load.busy()) == 4


def test_when_all_connections_wait_on_the_target_ticks_are_dropped(load: Load) -> None:
    load.warm()
    for _ in range(9):
        load.step()
        load.step()
        load.clock.advance(0.1)

    assert load.drops() == [(6, DropReason.ALL_BUSY), (7, DropReason.ALL_BUSY), (8, DropReason.ALL_BUSY)]
    assert len(load.busy()) == 6


def test_before_a_tick_is_dropped_what_has_arrived_is_read(load: Load) -> None:
    load.warm()
    load.step(0.55)
    assert len(load.busy()) == 6

    load.step(0.05)
    assert load.drops() == []
    load.busy()[0].answer()
    load.step()
    assert load.drops() == []
    assert len(load.busy()) == 6


def test_a_stall_of_our_own_is_worked_off_in_batches() -> None:
    load = Load(replace(PLAN, qps=1000.0, max_connections=1000))
    load.step(0.5)
    assert len(load.busy()) == BATCH
    next_ns = load.engine.next_ns()
    assert next_ns is not None
    assert next_ns <= load.clock.now_ns

    load.step()
    assert len(load.busy()) == 2 * BATCH


def test_a_request_that_takes_too_long_is_ended(load: Load) -> None:
    load.warm()
    load.engine.stop(START + 1)
    load.step()
    assert load.engine.next_ns() == START + 2_000_000_000

    load.step(1.999_999_999)
    assert len(load.busy()) == 1
    load.step(0.000_000_001)
    assert load.engine.over
    assert load.requests("ended", "kind") == [(2_000_000_000, 1 + list(FailureKind).index(FailureKind.RESPONSE_TIMEOUT))]


def test_trouble_of_our_own_is_a_dropped_tick_and_no_failed_request(load: Load) -> None:
    load.step()
    load.busy()[0].fail(None)

    assert load.drops() == [(0, DropReason.LOCAL)]
    assert load.requests("seq") == []


def test_a_failed_request_is_never_repeated(load: Load) -> None:
    load.warm()
    load.step(0.1)
    for connection in load.busy():
        connection.fail(FailureKind.CLOSED_BEFORE_RESPONSE)

    assert load.busy() == []
    assert load.requests("seq") == [(0,), (1,)]


def test_a_connection_that_closed_while_idle_is_no_failure(load: Load) -> None:
    load.warm()
    load.connections[0].is_lost()

    assert load.engine.progress().failed == 0
    assert load.connection_rows("connection", "closed_by") == [(1, CLOSED_BY.index("peer-fin"))]


def test_one_that_cannot_be_opened_in_the_warm_up_is_no_failed_request_but_its_port_is_known(load: Load) -> None:
    load.engine.warm_up()
    load.clock.advance(0.5)
    load.connections[0].fail(FailureKind.CONNECT_REFUSED)

    assert load.engine.progress().failed == 0
    assert load.connection_rows("connection", "opened", "closed", "port") == [(1, 500_000_000, 500_000_000, 1001)]


def test_one_that_takes_too_long_to_open_in_the_warm_up_is_given_up() -> None:
    load = Load(replace(PLAN, start_ns=START + 10_000_000_000))
    load.engine.warm_up()
    assert load.engine.next_ns() == START + 2_000_000_000
    load.step(2.0)

    assert load.engine.progress().kept == 0


def test_a_kept_connection_serves_no_more_requests_than_it_may() -> None:
    load = Load(replace(PLAN, lanes=(Lane.REUSED,), connections=1, reuse=(2, 2)))
    load.warm()
    for _ in range(5):
        load.step()
        load.busy()[0].answer()
        load.clock.advance(0.1)

    assert load.requests("connection") == [(1,), (1,), (2,), (2,), (3,)]
    assert load.connection_rows("connection", "answers", "closed_by") == [(1, 2, 1), (2, 2, 1)]


def test_the_limit_of_reuse_is_drawn_anew_for_each_connection() -> None:
    load = Load(replace(PLAN, lanes=(Lane.REUSED,), connections=1, reuse=(1, 10), seed=3))
    load.warm()
    for _ in range(200):
        load.step()
        load.busy()[0].answer()
        load.clock.advance(0.1)

    served = {answers for (answers,) in load.connection_rows("answers")}
    assert len(served) > 3
    assert served <= set(range(1, 11))


def test_after_the_stop_what_is_open_may_finish(load: Load) -> None:
    load.warm()
    load.step(0.1)
    load.engine.stop(load.clock.now_ns + 1)
    load.step(0.5)
    assert load.ended == 0

    for connection in load.busy():
        connection.answer()
    assert load.ended == 1
    assert load.requests("seq") == [(0,), (1,)]


def test_a_total_ends_the_load() -> None:
    load = Load(replace(PLAN, total=1))
    load.step()
    load.busy()[0].answer()

    assert load.engine.over
    assert load.engine.next_ns() is None


def test_a_load_whose_last_tick_was_dropped_ends_as_well() -> None:
    load = Load(replace(PLAN, total=1))
    load.step(3.0)

    assert load.engine.over
    assert load.drops() == [(0, DropReason.LATE_LOOP)]


def test_what_is_open_when_the_load_is_cut_is_recorded_as_open(load: Load) -> None:
    load.warm()
    load.step(0.1)
    load.busy()[0].answer()
    load.engine.cut()
    load.engine.cut()
    load.step(5.0)

    account = load.engine.account(1.5)
    assert (account.last_due, account.sent, account.open, account.cut, account.cpu_s) == (1, 1, 1, True, 1.5)


def test_connections_that_are_open_at_the_end_are_recorded_as_open(load: Load) -> None:
    load.warm()
    load.engine.cut()

    assert load.connection_rows("connection", "closed", "closed_by") == [(1, ABSENT, 0), (2, ABSENT, 0)]
    assert all(connection.closed != ABSENT for connection in load.connections)


def test_the_progress_adds_up(load: Load) -> None:
    load.warm()
    load.step(0.3)
    first, second, *_ = load.busy()
    first.answer()
    second.fail(FailureKind.TRUNCATED)

    progress = load.engine.progress()
    assert (progress.sent, progress.ok, progress.failed, progress.dropped) == (4, 1, 1, 0)
    assert (progress.at, progress.last_failure) == (300_000_000, "truncated")
