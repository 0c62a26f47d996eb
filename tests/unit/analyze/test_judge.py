from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loadtest.analyze.conclude import conclude
from loadtest.analyze.exposure import Exposure
from loadtest.columns import Block
from loadtest.model import (
    ClockSample,
    Drop,
    DropReason,
    FailureKind,
    Gap,
    Lane,
    LoadEnd,
    Mark,
    OpenRequest,
    Outcome,
    Resource,
    RunResult,
    StoredRun,
)
from tests.unit.analyze.builders import (
    END,
    Pod,
    Traffic,
    cluster,
    healthy_run,
    healthy_traffic,
    in_use,
    info,
    marks,
    new_pods,
    ns,
    old_pods,
    quick_use,
    run,
    target,
)

REFUSED = FailureKind.CONNECT_REFUSED
FAIL, DOUBT, PASS = Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS


def failing_traffic() -> Traffic:
    traffic = healthy_traffic()
    traffic.add(8.02, kind=FailureKind.HTTP_5XX, status=500, pod="c")
    return traffic


def rollout(traffic: Traffic | None = None, pods: list[Pod] | None = None, **changes: Any) -> StoredRun:
    return run(traffic or healthy_traffic(), cluster(pods if pods is not None else old_pods() + new_pods()), **changes)


def said(made: StoredRun) -> tuple[Outcome, str]:
    result: RunResult = conclude(made)
    return result.outcome, result.reason


def assert_doubt(made: StoredRun, words: str) -> None:
    outcome, reason = said(made)
    assert outcome is DOUBT, reason
    assert words in reason


def test_a_healthy_rollout_under_load_passes() -> None:
    outcome, reason = said(healthy_run())
    assert outcome is PASS
    assert "2 pods were replaced under load" in reason


# ---------------------------------------------------------------- 1. fail


def test_one_failure_in_the_rollout_is_a_fail() -> None:
    result = conclude(rollout(failing_traffic()))
    assert result.outcome is FAIL
    assert [(check.name, check.passed, check.actual) for check in result.checks] == [("failed == 0", False, "failed = 1")]


def test_a_rollout_that_got_stuck_is_a_fail() -> None:
    stuck = Mark(name="stuck", at=ns(12), detail="deadline exceeded")
    result = conclude(rollout(marks=(*marks("completed", "old-pods-gone", "settle"), stuck)))
    assert result.outcome is FAIL
    assert "deadline exceeded" in result.reason


@pytest.mark.parametrize(
    "trouble",
    [
        {"gaps": (Gap(start=ns(5), end=ns(9), resource="pods"),)},
        {"closed": False},
        {"marks": (*marks(), Mark(name="interrupted", at=ns(13)))},
        {"clock": (ClockSample(at=ns(5), wall_ns=ns(5)), ClockSample(at=ns(15), wall_ns=ns(100)))},
        {"ends": ()},
        {"drops": (Drop(worker=0, seq=999, due=ns(13), reason=DropReason.LOCAL),)},
    ],
    ids=["gap", "no closing record", "interrupted", "slept", "worker lost", "local"],
)
def test_nothing_makes_a_fail_milder(trouble: dict[str, Any]) -> None:
    assert said(rollout(failing_traffic(), **trouble))[0] is FAIL
    assert said(rollout(**trouble))[0] is DOUBT


def test_a_rule_that_is_not_known_is_never_judged_as_another() -> None:
    known_and_not = info(rules=("failed == 0", "p99 < 200ms"))
    result = conclude(rollout(info=known_and_not))
    assert result.outcome is DOUBT
    assert "'p99 < 200ms'" in result.reason
    assert [check.name for check in result.checks] == ["failed == 0"]
    assert said(rollout(failing_traffic(), info=known_and_not))[0] is FAIL


def test_without_rules_failures_break_none() -> None:
    assert said(rollout(failing_traffic(), info=info(rules=())))[0] is PASS


# ---------------------------------------------------------------- 2. inconclusive, in this order


def test_a_pod_that_stopped_at_once_and_cost_nothing_was_luck() -> None:
    pods = old_pods(ended=6.3, gone=6.6, prestop=None) + new_pods()
    traffic = Traffic().steady(quick_use)
    traffic.kept = [("a", 0.1, 6.1), ("b", 0.1, 7.1)]
    assert_doubt(rollout(traffic, pods), "luck: pod a stopped listening 0.30 s after its deletion")


def test_luck_can_be_accepted() -> None:
    pods = old_pods(ended=7.5, gone=7.8, prestop=None) + new_pods()
    assert said(rollout(pods=pods))[1].startswith("luck")
    assert said(rollout(pods=pods, info=info(accept_luck=True)))[0] is PASS


def test_luck_is_seen_also_where_only_the_objects_going_shows_the_end() -> None:
    pods = old_pods(ended=None, gone=6.6, prestop=None) + new_pods()
    assert_doubt(rollout(pods=pods), "luck: pod a stopped listening 0.60 s")


def test_a_new_pod_that_was_scaled_away_can_be_luck_too() -> None:
    """An autoscaler took it: its pods stop as quickly as the old ones would."""
    pods = [*old_pods(), *new_pods(), Pod(name="e", hash="new", born=6.2, ready_from=6.9, deleted=13.0, ended=13.2, gone=13.5)]
    assert_doubt(rollout(pods=pods), "luck: pod e")


def test_a_pod_that_ended_before_the_trigger_is_neither_luck_nor_exposure() -> None:
    early = Pod(name="z", deleted=2.0, ended=2.2, gone=2.5, prestop=None)
    assert said(rollout(pods=[early, *old_pods(), *new_pods()]))[0] is PASS
    scaled_down = Traffic().steady(lambda at: ["z", "a"] if at < 2.5 else ["a"] if at < 5.9 else ["c"])
    scaled_down.kept = [("z", 0.1, 2.1), ("a", 0.1, 11)]
    outcome, reason = said(rollout(scaled_down, [early, *old_pods()[:1], *new_pods()]))
    assert outcome is DOUBT
    assert "0 of 1 terminations" in reason


def test_a_late_generator_is_unsound() -> None:
    traffic = healthy_traffic()
    for row in traffic.rows[::20]:
        for name in ("started", "written", "first_byte", "ended"):
            row[name] += ns(0.2)
    assert_doubt(rollout(traffic), "the load generator was late")


@pytest.mark.parametrize(("at", "outcome"), [(6.5, DOUBT), (12.5, DOUBT), (3.0, PASS)])
def test_a_generator_that_stood_still_while_a_pod_ended_is_unsound(at: float, outcome: Outcome) -> None:
    traffic = healthy_traffic()
    traffic.add(at, pod="c" if at > 6 else "a", late=0.6)
    assert said(rollout(traffic))[0] is outcome


@pytest.mark.parametrize(
    ("kind", "outcome"), [("response-timeout", DOUBT), ("connect-timeout", DOUBT), ("connect-refused", FAIL)]
)
def test_a_stall_of_our_own_loop_voids_the_time_outs_over_it_and_nothing_else(kind: str, outcome: Outcome) -> None:
    traffic = healthy_traffic()
    traffic.add(14.9, pod="c", late=0.7)
    traffic.add(15.0, kind=FailureKind(kind), took=1)
    assert said(rollout(traffic))[0] is outcome
    traffic.add(16.2, kind=FailureKind(kind), took=0.5)
    assert said(rollout(traffic))[0] is FAIL


def test_without_a_service_the_pods_own_readiness_says_whether_they_were_in_use() -> None:
    sightings = [one for one in cluster(old_pods() + new_pods()) if one.resource is not Resource.ENDPOINTSLICES]
    assert said(run(healthy_traffic(), sightings))[0] is PASS


def with_drops(reason: DropReason, count: int) -> StoredRun:
    made = healthy_run()
    (block,) = made.requests
    sent = len(block)
    drops = tuple(Drop(worker=0, seq=sent + number, due=ns(16), reason=reason) for number in range(count))
    return replace(made, drops=drops, ends=(LoadEnd(worker=0, last_due=sent + count - 1, sent=sent, dropped=count, open=0),))


def test_ticks_dropped_for_our_own_reasons_are_unsound_and_the_targets_are_not() -> None:
    assert_doubt(with_drops(DropReason.LATE_LOOP, 2), "2 requests were not sent for reasons of our own")
    assert said(with_drops(DropReason.ALL_BUSY, 2))[0] is PASS


@pytest.mark.parametrize("resource", ["pods", "endpointslices", "deployments"])
def test_a_watch_that_was_blind_in_the_rollout(resource: str) -> None:
    made = rollout(gaps=(Gap(start=ns(5.5), end=ns(5.7), resource=resource),))
    assert_doubt(made, f"the watch on {resource} was blind for 0.2 s")


@pytest.mark.parametrize(("start", "end", "resource"), [(2, 3, "pods"), (14, 15, "pods"), (6, 7, "events")])
def test_a_watch_that_was_blind_when_it_did_not_matter(start: float, end: float, resource: str) -> None:
    assert said(rollout(gaps=(Gap(start=ns(start), end=ns(end), resource=resource),)))[0] is PASS


def test_a_gap_exactly_over_the_deletions_is_never_a_pass() -> None:
    pods = [pod for pod in cluster(old_pods() + new_pods()) if not (ns(5.9) < pod.seen < ns(12.3) and pod.name in {"a", "b"})]
    made = run(healthy_traffic(), pods, gaps=(Gap(start=ns(5.9), end=ns(12.3), resource="pods"),))
    assert said(made)[0] is DOUBT


def test_a_machine_that_slept() -> None:
    clock = tuple(ClockSample(at=ns(at), wall_ns=ns(at + (30 if at > 6 else 0))) for at in (0, 5, 15))
    assert_doubt(rollout(clock=clock), "slept")
    steady = tuple(ClockSample(at=ns(at), wall_ns=ns(100 + at)) for at in (0, 5, 15))
    assert said(rollout(clock=steady))[0] is PASS


def test_a_trigger_that_rolled_nothing() -> None:
    made = run(healthy_traffic(), cluster(old_pods(), rolled=False))
    assert_doubt(made, "nothing was rolled")


def test_no_rollout_was_seen_to_start() -> None:
    without = marks("rollout", "trigger", "trigger-sent", "completed", "old-pods-gone", "settle")
    assert_doubt(run(healthy_traffic(), cluster(old_pods(), rolled=False), marks=without), "no rollout was seen to start")


def test_the_rollouts_end_was_not_seen() -> None:
    assert_doubt(rollout(marks=marks("old-pods-gone")), "the rollout's end was not seen")


def test_a_load_that_ended_with_the_rollout_did_not_see_what_follows() -> None:
    assert_doubt(rollout(marks=marks("settle")), "the load ended with the rollout")


# ---------------------------------------------------------------- exposure


def test_too_little_exposure_of_the_fresh_lane() -> None:
    moved_at_once = Traffic().steady(quick_use)
    moved_at_once.kept = [("a", 0.1, 11), ("b", 0.1, 12)]
    assert_doubt(rollout(moved_at_once), "fresh connections were opened to a terminating pod in 0 of 2 terminations, 1 demanded")


def test_too_little_exposure_of_the_kept_lane() -> None:
    traffic = healthy_traffic()
    traffic.kept = [("a", 0.1, 5.5), ("c", 11.0, None)]
    assert_doubt(rollout(traffic), "kept connections were open to a pod in 0 of 2 terminations, 1 demanded")


def lane_info(*lanes: str, **changes: Any) -> Any:
    made = info(**changes)
    return replace(made, scenario={**made.scenario, "lanes": list(lanes)})


def test_a_lane_that_was_not_asked_for_needs_no_exposure() -> None:
    fresh_only = healthy_traffic()
    fresh_only.kept = []
    assert said(rollout(fresh_only, info=lane_info("new")))[0] is PASS
    kept_only = Traffic().steady(quick_use)
    kept_only.kept = [("a", 0.1, 11), ("b", 0.1, 12)]
    assert said(rollout(kept_only, info=lane_info("reused")))[0] is PASS


def test_more_exposure_can_be_demanded() -> None:
    assert said(rollout(info=info(min_exposure=2)))[0] is PASS
    assert_doubt(rollout(info=info(min_exposure=3)), "3 demanded")


def test_with_session_affinity_every_old_pod_must_have_been_exposed() -> None:
    sticky = info(target=target(session_affinity=True))
    assert said(rollout(info=sticky))[0] is PASS
    traffic = healthy_traffic()
    traffic.kept = [("a", 0.1, 11.0)]
    assert said(rollout(traffic))[0] is PASS
    assert_doubt(rollout(traffic, info=sticky), "kept connections were open to a pod in 1 of 2 terminations")


def nameless(traffic: Traffic) -> Traffic:
    for row in traffic.rows:
        row["pod"] = ""
    traffic.kept = [("", opened, closed) for _, opened, closed in traffic.kept]
    return traffic


def test_without_names_in_answers_exposure_is_computed() -> None:
    traffic = nameless(healthy_traffic())
    traffic.kept = [("", 0.1, None)] * 8
    for number in range(8):
        traffic.add(6.005 + number / 250)
    outcome, reason = said(rollout(traffic))
    assert outcome is PASS
    assert "(computed)" in reason


def test_a_few_connections_are_too_little_to_compute_an_exposure_from() -> None:
    traffic = nameless(healthy_traffic())
    traffic.kept = [("", 0.1, None)] * 8
    assert_doubt(rollout(traffic), "(computed)")


@pytest.mark.parametrize(
    ("chances", "wanted", "enough"),
    [((0.96,), 1, True), ((0.9,), 1, False), ((0.8, 0.8), 1, True), ((0.98, 0.98), 2, True), ((0.97, 0.97), 2, False)],
)
def test_computed_exposure_must_be_95_percent_sure(chances: tuple[float, ...], wanted: int, *, enough: bool) -> None:
    exposure = Exposure(lane="new", terminations=len(chances), exposed=0, computed=True, chances=chances)
    assert exposure.enough(wanted, everyone=False) is enough


def test_a_lane_that_never_came_to_be() -> None:
    traffic = healthy_traffic()
    for row in traffic.rows:
        row["answers_before"] = 0
    assert_doubt(rollout(traffic), "no connection could be kept")
    assert said(rollout(traffic, info=lane_info("new")))[0] is PASS


def test_pods_that_were_not_ready_when_they_were_deleted_were_not_in_use() -> None:
    assert_doubt(rollout(pods=old_pods(unready=3) + new_pods()), "no pod that was in use was seen to end")


def test_a_failed_attempt_at_a_terminating_pod_is_exposure_and_a_request_it_got() -> None:
    traffic = Traffic().steady(quick_use)
    traffic.kept = [("a", 0.1, 6.1), ("b", 0.1, 7.1)]
    traffic.add(5.99, kind=REFUSED, took=0.001)  # the deletion is known a few ms late
    traffic.add(6.21, kind=REFUSED, took=0.001)
    traffic.add(5.6, kind=FailureKind.CLOSED_BEFORE_RESPONSE, took=0.45)  # opened before, cut by its end
    traffic.add(5.97, kind=FailureKind.CLOSED_BEFORE_RESPONSE, took=0.08, lane=Lane.REUSED, on="a")
    a, b, *_ = conclude(rollout(traffic, old_pods(ended=6.3, gone=6.6, prestop=None) + new_pods())).pods
    assert (a.exposure.new, b.exposure.new) == (2, 0)
    assert a.last_request.new == pytest.approx(0.21)
    assert a.last_request.reused == pytest.approx(-0.03)


@pytest.mark.parametrize(("closed_by", "exposed"), [("peer-fin", 1), ("peer-reset", 1), ("us", 0)])
def test_a_kept_connection_that_the_pod_closed_just_before_its_deletion_arrived_was_open_to_it(
    closed_by: str, exposed: int
) -> None:
    """SIGTERM may come before our watch tells of the deletion: seen on the real cluster, half a millisecond apart."""
    traffic = Traffic(kept=[("a", 0.1, 5.9995)], closed_by=closed_by).steady(in_use, 0, 20)
    a, *_ = conclude(rollout(traffic, old_pods() + new_pods())).pods
    assert a.exposure.reused == exposed


def test_an_echo_is_no_exposure() -> None:
    traffic = Traffic().steady(quick_use)
    for at in (6.21, 14.01):
        traffic.add(at, kind=FailureKind.CONNECT_TIMEOUT, took=1, port=4711)
    a, *_ = conclude(rollout(traffic, old_pods(ended=6.3, gone=6.6, prestop=None) + new_pods())).pods
    assert a.exposure.new == 1
    assert a.last_request.new == pytest.approx(0.21)


# ---------------------------------------------------------------- the path, our own trouble, broken runs


@pytest.mark.parametrize(
    ("path_from", "outcome"), [("flag", DOUBT), ("load-balancer", DOUBT), ("node-port", PASS), ("cluster-ip", DOUBT)]
)
def test_a_path_that_no_answer_proves(path_from: str, outcome: Outcome) -> None:
    traffic = nameless(healthy_traffic())
    traffic.kept = [("", 0.1, None)] * 8
    for number in range(8):
        traffic.add(6.005 + number / 250)
    made = rollout(traffic, info=info(target=target(path_from=path_from)))
    assert said(made)[0] is outcome
    assert said(replace(made, info=info(target=target(path_from=path_from), assume_path=True)))[0] is PASS


def test_a_cluster_ip_proves_the_path_from_inside_the_cluster() -> None:
    """Outside it may be anybody's address."""
    traffic = nameless(healthy_traffic())
    traffic.kept = [("", 0.1, None)] * 8
    for number in range(8):
        traffic.add(6.005 + number / 250)
    inside = info(target=target(path_from="cluster-ip"), cluster={"server_version": "v1.36.3", "context": "in-cluster"})
    assert said(rollout(traffic, info=inside))[0] is PASS


def test_a_service_that_answers_nothing_well_is_never_a_pass() -> None:
    traffic = Traffic()
    for number in range(400):
        traffic.add(number / 20, kind=FailureKind.HTTP_4XX, status=404, pod="a" if number < 120 else "c")
    outcome, reason = said(rollout(traffic, old_pods() + new_pods()))
    assert outcome is DOUBT
    assert "baseline failed" in reason


def test_an_answer_that_names_a_pod_proves_the_path() -> None:
    assert said(rollout(info=info(target=target(path_from="flag"))))[0] is PASS


def test_answers_of_pods_that_are_not_the_targets_prove_no_path() -> None:
    traffic = Traffic().steady(lambda _: ["stranger"])
    traffic.kept = [("stranger", 0.1, None)]
    assert said(rollout(traffic, info=info(target=target(path_from="flag"))))[0] is DOUBT


def test_requests_that_could_not_be_sent_from_here() -> None:
    traffic = Traffic().steady(in_use, qps=100)
    traffic.kept = healthy_traffic().kept
    made = rollout(traffic)
    (block,) = made.requests
    sent = len(block)
    made = replace(
        made,
        drops=(Drop(worker=0, seq=sent, due=ns(16), reason=DropReason.LOCAL),),
        ends=(LoadEnd(worker=0, last_due=sent, sent=sent, dropped=1, open=0),),
    )
    assert_doubt(made, "1 requests could not be sent for want of ports")


def test_an_interrupted_run() -> None:
    assert_doubt(rollout(marks=(*marks(), Mark(name="interrupted", at=ns(13)))), "interrupted")


def test_a_run_without_its_closing_record_is_never_a_pass() -> None:
    assert_doubt(rollout(closed=False), "no closing record")
    assert_doubt(rollout(marks=marks("end")), "no closing record")


def test_a_worker_that_left_no_account_is_never_a_pass() -> None:
    """It died in the settle phase: everything it had handed over is there, and nothing tells what is missing."""
    assert_doubt(rollout(ends=()), "a load worker ended without its account")
    made = healthy_run()
    (block,) = made.requests
    two = (block, Block(worker=1, columns={name: column[:0] for name, column in block.columns.items()}))
    assert_doubt(replace(made, requests=two), "a load worker ended without its account")


def test_requests_without_a_record_are_lost() -> None:
    made = healthy_run()
    (end,) = made.ends
    assert_doubt(replace(made, ends=(replace(end, last_due=end.last_due + 7),)), "7 requests were lost")


def test_requests_without_an_end_are_never_a_pass() -> None:
    made = healthy_run()
    (end,) = made.ends
    still = OpenRequest(worker=0, seq=end.last_due + 1, due=ns(16), started=ns(16), lane=Lane.NEW)
    made = replace(made, open=(still,), ends=(replace(end, last_due=end.last_due + 1, open=1, cut=True),))
    assert_doubt(made, "1 requests had no end")


def test_records_that_contradict_themselves_are_never_a_pass() -> None:
    made = healthy_run()
    assert_doubt(replace(made, drops=(Drop(worker=0, seq=0, due=0, reason=DropReason.ALL_BUSY),)), "contradict")
    traffic = healthy_traffic()
    traffic.rows[10]["written"] = traffic.rows[10]["ended"] + 1
    assert_doubt(rollout(traffic), "out of order")


@pytest.mark.parametrize(
    "made",
    [
        run(Traffic(), ()),
        run(Traffic(), (), marks=(), closed=False, ends=()),
        run(Traffic(), cluster(old_pods() + new_pods())),
        run(
            Traffic().steady(in_use, 0, 3),
            cluster([]),
            marks=marks("rollout", "trigger", "completed", "settle")[:2],
            closed=False,
        ),
    ],
    ids=["nothing sent or seen", "killed at once", "nothing sent", "killed in the baseline"],
)
def test_empty_and_broken_runs_have_a_result_and_no_pass(made: StoredRun) -> None:
    assert said(made)[0] is DOUBT


def test_at_one_request_a_second_exposure_decides() -> None:
    traffic = Traffic().steady(quick_use, qps=1)
    traffic.kept = [("a", 0.1, 11), ("b", 0.1, 12)]
    assert_doubt(rollout(traffic), "too little exposure")
    assert traffic.rows[-1]["due"] < ns(END)
