from __future__ import annotations

from dataclasses import replace

import pytest

from loadtest.analyze.accounts import unaccounted
from loadtest.analyze.conclude import phases_of
from loadtest.analyze.tally import MOST_BINS, Phases, Tally, bin_width, tally
from loadtest.columns import ABSENT
from loadtest.model import Drop, DropReason, FailureKind, Lane, LoadEnd, OpenRequest, Phase, StoredRun
from tests.unit.analyze.builders import Traffic, healthy_run, ns, run

REFUSED = FailureKind.CONNECT_REFUSED


def counted(traffic: Traffic) -> Tally:
    made = run(traffic, ())
    return tally(made, phases_of(made), {"a": ns(6)})


def test_the_baseline_holds_only_what_ended_before_the_trigger() -> None:
    traffic = Traffic()
    traffic.add(4.0, pod="a")
    traffic.add(4.9, pod="a", took=0.2)
    traffic.add(4.95, kind=REFUSED, took=0.05)
    got = counted(traffic)
    assert got.windows_sent == {(Phase.BASELINE, Lane.NEW): 1, (Phase.ROLLOUT, Lane.NEW): 2}
    assert got.failed[0].phase is Phase.ROLLOUT


def test_a_request_belongs_to_the_phase_in_which_it_was_due() -> None:
    traffic = Traffic()
    for at in (0.5, 2.0, 12.3, 12.4, 16.0):
        traffic.add(at, pod="a", took=0.3)
    got = counted(traffic)
    assert {phase: sum(n for (found, _), n in got.windows_sent.items() if found is phase) for phase in Phase} == {
        Phase.WARMUP: 1,
        Phase.BASELINE: 1,
        Phase.ROLLOUT: 1,
        Phase.SETTLE: 2,
    }


def test_without_a_trigger_the_baseline_lasts_to_the_end() -> None:
    phases = Phases(begins=((Phase.WARMUP, 0), (Phase.BASELINE, 10)), end=50)
    assert phases.trigger is None
    assert phases.of(30, 60) is Phase.BASELINE
    assert phases.span(Phase.BASELINE) == (10, 50)
    assert phases.span(Phase.SETTLE) is None


def test_a_run_without_any_mark_is_warm_up() -> None:
    assert Phases(begins=(), end=0).of(5, 6) is Phase.WARMUP


@pytest.mark.parametrize(("name", "at"), [("started", 1.9), ("written", 2.2), ("first_byte", 1.99), ("ended", 2.0)])
def test_times_out_of_order_are_a_violation_of_law_2(name: str, at: float) -> None:
    traffic = Traffic()
    traffic.add(2.0, pod="a", took=0.1, late=0.001)[name] = ns(at)
    assert counted(traffic).violations == {"order": 1}


def test_moments_that_never_came_are_in_order() -> None:
    traffic = Traffic()
    traffic.add(2.0, kind=REFUSED)
    assert traffic.rows[0]["written"] == ABSENT
    assert not counted(traffic).violations


def test_what_failed_counts_by_kind_lane_and_code() -> None:
    traffic = Traffic()
    traffic.add(2.0, pod="a")
    traffic.add(2.1, kind=REFUSED)
    traffic.add(2.2, kind=FailureKind.HTTP_5XX, pod="a", status=503, lane=Lane.REUSED)
    traffic.add(2.3, kind=FailureKind.TRUNCATED, status=200, first_byte=True)
    got = counted(traffic)
    assert (got.sent, got.ok, len(got.failed)) == (4, 1, 3)
    assert got.statuses == {200: 1, -1: 2, 503: 1}
    assert got.lanes_failed == {Lane.NEW: 2, Lane.REUSED: 1}


def test_only_what_a_repeating_client_could_have_hidden_counts_as_masked() -> None:
    reset = FailureKind.RESET_BEFORE_RESPONSE
    traffic = Traffic()
    traffic.add(2.0, kind=reset, lane=Lane.REUSED)
    traffic.add(2.1, kind=reset)
    traffic.add(2.2, kind=FailureKind.RESET_MID_RESPONSE, lane=Lane.REUSED, first_byte=True)
    assert counted(traffic).masked_by_retry == 1


def test_a_connect_of_over_0_9_seconds_was_saved_by_the_kernels_second_syn() -> None:
    traffic = Traffic()
    traffic.add(2.0, pod="a", took=1.1, connect=1.03)
    traffic.add(2.1, pod="a", took=0.9, connect=0.89)
    traffic.add(2.2, kind=FailureKind.CONNECT_TIMEOUT, took=5.0)
    assert counted(traffic).saved_by_tcp == 1


def test_what_a_pod_answered_is_kept_by_lane() -> None:
    traffic = Traffic()
    traffic.add(5.9, pod="a")
    traffic.add(6.1, pod="a", took=0.1)
    traffic.add(8.0, pod="a", lane=Lane.REUSED)
    got = counted(traffic).pods["a"]
    assert (got.served, got.first, got.first_answer, got.last_new, got.last_reused) == (
        3,
        ns(5.901),
        ns(5.905),
        ns(6.101),
        ns(8.0),
    )
    assert (got.last_connect, got.new_after_deletion) == (ns(6.101), 1)
    assert got.spans == [[ns(5.905), ns(6.2)], [ns(8.005), ns(8.005)]]


def test_bins_are_fine_for_short_runs_and_bounded_for_long_ones() -> None:
    assert bin_width(ns(60)) == ns(0.02)
    for length in (1, 119, 121, 3600, 86400):
        assert ns(length) / bin_width(ns(length)) < MOST_BINS
        assert bin_width(ns(length)) % ns(0.02) == 0


def test_every_tick_that_was_due_is_accounted_for() -> None:
    made = healthy_run()
    assert unaccounted(made, made.requests) == (len(next(iter(made.requests))), 0, ())


def short(*ats: float) -> StoredRun:
    traffic = Traffic()
    for at in ats:
        traffic.add(at, pod="a")
    return run(traffic, ())


def test_dropped_and_open_ticks_are_records_too() -> None:
    made = replace(
        short(1, 2),
        drops=(Drop(worker=0, seq=2, due=ns(3), reason=DropReason.ALL_BUSY),),
        open=(OpenRequest(worker=0, seq=3, due=ns(4), started=ns(4), lane=Lane.NEW),),
        ends=(LoadEnd(worker=0, last_due=3, sent=2, dropped=1, open=1),),
    )
    assert unaccounted(made, made.requests) == (4, 0, ())


def test_ticks_without_a_record_are_lost() -> None:
    made = replace(short(1, 2), ends=(LoadEnd(worker=0, last_due=9, sent=2, dropped=0, open=0),))
    assert unaccounted(made, made.requests) == (10, 8, ())


def test_two_records_of_one_tick_contradict_the_law() -> None:
    made = replace(short(1, 2), drops=(Drop(worker=0, seq=1, due=ns(2), reason=DropReason.LOCAL),))
    due, lost, wrong = unaccounted(made, made.requests)
    assert (due, lost) == (2, 0)
    assert wrong == ("1 sequence numbers have more than one record",)


def test_an_empty_run_has_nothing_due() -> None:
    assert unaccounted(short(), short().requests) == (0, 0, ())


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_share_one_schedule(workers: int) -> None:
    made = short(*range(1, 7))
    (block,) = made.requests
    parts = []
    for worker in range(workers):
        columns = {name: column[worker::workers] for name, column in block.columns.items()}
        parts.append(replace(block, worker=worker, columns=columns))
    assert unaccounted(replace(made, requests=tuple(parts)), parts) == (6, 0, ())
