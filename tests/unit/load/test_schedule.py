from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.load.schedule import Cursor, Schedule, schedule_of
from loadtest.model import Lane, LoadPlan

BOTH = (Lane.NEW, Lane.REUSED)


def plan(**facts: object) -> LoadPlan:
    given_facts = {"run_id": "r", "epoch_ns": 0, "url": "http://127.0.0.1/", "qps": 50.0, "start_ns": 1000} | facts
    return LoadPlan(**given_facts)  # type: ignore[arg-type]  # facts of many types


def schedule(**facts: object) -> Schedule:
    return schedule_of(plan(**facts))


def walk(cursor: Cursor, now_ns: int) -> list[int]:
    seen = []
    while (tick := cursor.due(now_ns)) is not None:
        cursor.take()
        seen.append(tick.seq)
    return seen


@pytest.mark.parametrize(
    ("qps", "seq", "due_ns"),
    [
        (1, 0, 1000),
        (1, 3, 1000 + 3_000_000_000),
        (3, 1, 1000 + 333_333_333),
        (3, 3, 1000 + 1_000_000_000),
        (3, 3_000_000_000, 1000 + 1_000_000_000_000_000_000),  # no drift after thirty years
        (0.1, 1, 1000 + 10_000_000_000),  # a tenth, not the binary fraction next to it
        (0.1, 10**9, 1000 + 10**19),
        (1e-05, 1, 1000 + 10**14),
    ],
)
def test_a_tick_is_due_at_its_number_over_the_rate(qps: float, seq: int, due_ns: int) -> None:
    assert schedule(qps=qps).due_ns(seq) == due_ns


@given(qps=st.floats(min_value=0.01, max_value=1e6), seq=st.integers(0, 10**9))
def test_due_times_never_drift_from_the_exact_ones(qps: float, seq: int) -> None:
    exact = 1000 + seq * (10**9 / Fraction(repr(qps)))

    assert 0 <= exact - schedule(qps=qps).due_ns(seq) < 1


@given(qps=st.floats(min_value=0.01, max_value=1e5), seq=st.integers(0, 10**9))
def test_due_times_never_go_back(qps: float, seq: int) -> None:
    ticks = schedule(qps=qps)

    assert ticks.due_ns(seq) <= ticks.due_ns(seq + 1)


@given(workers=st.integers(1, 7), total=st.integers(1, 200))
def test_the_workers_share_all_ticks_and_each_only_once(workers: int, total: int) -> None:
    shares = [walk(Cursor(schedule(total=total, workers=workers), worker), 10**18) for worker in range(workers)]

    assert sorted(seq for share in shares for seq in share) == list(range(total))
    assert all(seq % workers == worker for worker, share in enumerate(shares) for seq in share)


@given(workers=st.integers(1, 8))
def test_lanes_take_turns_within_each_worker(workers: int) -> None:
    ticks = schedule(workers=workers)

    for worker in range(workers):
        lanes = [ticks.lane(worker + turn * workers) for turn in range(6)]
        assert lanes in ([*BOTH] * 3, [*reversed(BOTH)] * 3)


def test_one_worker_begins_with_the_first_lane() -> None:
    assert [schedule().lane(seq) for seq in range(4)] == [Lane.NEW, Lane.REUSED, Lane.NEW, Lane.REUSED]


def test_one_lane_takes_every_tick() -> None:
    assert {schedule(lanes=(Lane.REUSED,)).lane(seq) for seq in range(9)} == {Lane.REUSED}


@given(worker=st.integers(0, 2), now_ns=st.integers(0, 10**12))
def test_nothing_is_handed_out_before_it_is_due(worker: int, now_ns: int) -> None:
    ticks = schedule(qps=3.7, workers=3)
    cursor = Cursor(ticks, worker)

    seen = walk(cursor, now_ns)

    assert all(ticks.due_ns(seq) <= now_ns for seq in seen)
    assert cursor.next_due_ns is not None
    assert cursor.next_due_ns > now_ns
    assert cursor.last_due == (seen[-1] if seen else -1)


def test_a_tick_stays_due_until_it_is_taken() -> None:
    cursor = Cursor(schedule(), 0)

    assert cursor.due(1000) == cursor.due(1000)
    cursor.take()
    assert cursor.due(1000) is None


def test_a_schedule_with_a_total_ends() -> None:
    cursor = Cursor(schedule(total=3), 0)

    assert walk(cursor, 10**18) == [0, 1, 2]
    assert cursor.over
    assert cursor.next_due_ns is None


def test_an_endless_schedule_has_no_end() -> None:
    cursor = Cursor(schedule(qps=1000), 0)

    assert len(walk(cursor, 1000 + 10 * 10**9)) == 10_001
    assert not cursor.over


def test_what_is_due_before_the_stop_is_still_sent() -> None:
    cursor = Cursor(schedule(qps=10), 0)
    cursor.stop(1000 + 250_000_000)

    assert not cursor.over
    assert walk(cursor, 10**18) == [0, 1, 2]
    assert cursor.over


def test_what_is_due_at_the_moment_of_the_stop_is_not_sent() -> None:
    cursor = Cursor(schedule(qps=10), 0)
    cursor.stop(1000 + 200_000_000)

    assert walk(cursor, 10**18) == [0, 1]


def test_a_later_stop_does_not_undo_an_earlier_one() -> None:
    cursor = Cursor(schedule(qps=10), 0)
    cursor.stop(1000)
    cursor.stop(10**15)

    assert cursor.over


@pytest.mark.parametrize("facts", [{"qps": 0}, {"qps": -1}, {"qps": float("nan")}, {"lanes": ()}, {"worker": 2, "workers": 2}])
def test_a_plan_without_a_schedule_is_refused(facts: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        schedule(**facts)
