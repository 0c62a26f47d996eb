from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from loadtest.analyze.conclude import conclude
from loadtest.model import FailureKind, Gap, Lane, Outcome, Resource, RunResult, Seen, Sighting
from tests.unit.analyze.builders import Pod, Traffic, cluster, in_use, new_pods, ns, old_pods, quick_use, replica_set, run, seen
from tests.unit.analyze.recorded import recorded_run

REFUSED, SILENCE = FailureKind.CONNECT_REFUSED, FailureKind.CONNECT_TIMEOUT
CLOSED, RESET, TIMEOUT = FailureKind.CLOSED_BEFORE_RESPONSE, FailureKind.RESET_BEFORE_RESPONSE, FailureKind.RESPONSE_TIMEOUT
KEPT = Lane.REUSED


def quick_pods(**changes: Any) -> list[Pod]:
    return old_pods(**{"ended": 6.3, "gone": 6.6, "prestop": None, **changes})


def result_of(traffic: Traffic, pods: list[Pod] | None = None, *more: Seen, **changes: Any) -> RunResult:
    return conclude(run(traffic, cluster(pods if pods is not None else old_pods() + new_pods(), *more), **changes))


def causes(result: RunResult) -> list[str]:
    return [one.cause for one in result.failed_requests]


def codes(result: RunResult) -> dict[str, int]:
    return {finding.code: finding.requests for finding in result.findings}


# ---------------------------------------------------------------- recordings of a real cluster


def test_the_recorded_rollout_without_a_wait_exits_at_once() -> None:
    result = conclude(recorded_run("d0-nosleep"))
    assert result.outcome is Outcome.FAIL
    assert result.summary.failed == 55
    sets = Counter(request.attribution.pods for request in result.failed_requests if not request.echo)
    wj7pv, lns5h = "d0-nosleep-8ffdf5d9-wj7pv", "d0-nosleep-8ffdf5d9-lns5h"
    assert {tuple(sorted(pods)): count for pods, count in sets.items()} == {(wj7pv,): 26, (lns5h,): 1, (lns5h, wj7pv): 21, (): 1}
    assert codes(result) == {"exits-at-once": 54, "stale-conntrack": 1}
    assert {finding.code: finding.echoes for finding in result.findings} == {"exits-at-once": 6, "stale-conntrack": 0}


def test_the_recorded_recreate_has_too_few_ready_and_nothing_else() -> None:
    result = conclude(recorded_run("d3-recreate", lanes=("new",)))
    assert (result.outcome, codes(result)) == (Outcome.FAIL, {"too-few-ready": 77})


def test_the_recorded_healthy_rollout_passes_without_a_finding() -> None:
    result = conclude(recorded_run("d0-healthy", lanes=("new",)))
    assert (result.outcome, result.findings, result.summary.failed) == (Outcome.PASS, (), 0)


# ---------------------------------------------------------------- group 1


def test_failures_before_the_trigger_are_not_the_rollouts() -> None:
    traffic = Traffic().steady(in_use)
    traffic.add(2.02, kind=REFUSED)
    assert causes(result_of(traffic)) == ["not-the-rollout"]


def test_a_shape_the_baseline_had_without_excess_is_not_the_rollouts() -> None:
    traffic = Traffic().steady(in_use)
    traffic.add(2.02, kind=FailureKind.HTTP_5XX, status=500, pod="a")
    traffic.add(8.02, kind=FailureKind.HTTP_5XX, status=500, pod="c")
    result = result_of(traffic)
    assert causes(result) == ["not-the-rollout"] * 2
    assert result.outcome is not Outcome.FAIL


def test_a_shape_the_baseline_had_with_excess_counts() -> None:
    traffic = Traffic().steady(in_use)
    traffic.add(2.02, kind=FailureKind.HTTP_5XX, status=500, pod="a")
    for number in range(60):
        traffic.add(8.02 + number / 50, kind=FailureKind.HTTP_5XX, status=500, pod="c")
    result = result_of(traffic)
    assert result.outcome is Outcome.FAIL
    assert codes(result) == {"unknown": 60, "not-the-rollout": 1}


def test_a_shape_the_baseline_did_not_have_counts_even_if_nothing_was_in_transition() -> None:
    traffic = Traffic().steady(in_use)
    traffic.add(2.02, kind=FailureKind.HTTP_5XX, status=500, pod="a")
    traffic.add(15.02, kind=FailureKind.HTTP_5XX, status=503, pod="c")
    result = result_of(traffic)
    assert result.outcome is Outcome.FAIL
    assert codes(result) == {"unknown": 1, "not-the-rollout": 1}


def test_a_cut_on_a_pods_own_connection_counts_though_the_baseline_had_the_same_shape() -> None:
    traffic = Traffic().steady(in_use)
    traffic.add(2.02, kind=CLOSED, lane=KEPT, on="a")
    traffic.add(10.92, kind=CLOSED, lane=KEPT, on="a", took=0.15)
    result = result_of(traffic)
    assert result.outcome is Outcome.FAIL
    assert codes(result)["drops-connections"] == 1


def test_a_cut_long_before_sigterm_is_no_more_the_rollouts_than_the_same_before() -> None:
    traffic = Traffic().steady(in_use)
    traffic.add(2.02, kind=CLOSED, lane=KEPT, on="a")
    traffic.add(8.02, kind=CLOSED, lane=KEPT, on="a")
    assert causes(result_of(traffic)) == ["not-the-rollout"] * 2


def test_an_echo_is_counted_in_the_finding_of_its_first_failure() -> None:
    traffic = Traffic().steady(quick_use)
    traffic.add(6.22, kind=SILENCE, took=5, port=4711)
    traffic.add(14.02, kind=SILENCE, took=2, port=4711)
    result = result_of(traffic, quick_pods() + new_pods())
    assert codes(result) == {"exits-at-once": 2}
    assert result.findings[0].echoes == 1


def test_an_echo_of_a_failure_before_the_trigger_is_stale_and_breaks_no_rule() -> None:
    traffic = Traffic().steady(in_use)
    traffic.add(0.52, kind=SILENCE, took=0.3, port=4711)
    traffic.add(15.02, kind=SILENCE, took=1, port=4711)
    result = result_of(traffic)
    assert causes(result) == ["not-the-rollout", "stale-conntrack"]
    assert result.outcome is not Outcome.FAIL


def test_a_late_failure_of_which_only_the_time_says_echo_still_counts() -> None:
    traffic = Traffic().steady(in_use)
    traffic.add(15.5, kind=SILENCE, took=1, port=4712)
    result = result_of(traffic)
    assert causes(result) == ["stale-conntrack"]
    assert result.outcome is Outcome.FAIL


# ---------------------------------------------------------------- group 2


def single(**changes: Any) -> list[Pod]:
    old = Pod(name="a", **{"deleted": 6.0, "ended": 6.3, "gone": 6.6, "prestop": None, **changes})
    return [old, Pod(name="c", hash="new", born=6.1, ready_from=8.0)]


def dark_traffic() -> Traffic:
    traffic = Traffic().steady(lambda at: ["a"] if at < 6 else ["c"] if at >= 8.2 else [])
    for number in range(20):
        traffic.add(6.41 + number / 20, kind=REFUSED, took=0.001)
    return traffic


def test_nobody_listens_between_the_old_pod_and_the_new_one() -> None:
    result = result_of(dark_traffic(), single())
    assert codes(result) == {"too-few-ready": 20, "exits-at-once": 0}


def test_a_new_pod_without_a_readiness_probe_is_why_nobody_listens() -> None:
    pods = [Pod(name="a", deleted=6.0, ended=6.3, gone=6.6), Pod(name="c", hash="new", born=5.5, ready_from=5.9, probe=False)]
    assert set(causes(result_of(dark_traffic(), pods))) == {"no-readiness-probe"}


def test_an_evicted_pod_is_no_fault_of_the_rollouts_strategy() -> None:
    assert set(causes(result_of(dark_traffic(), single(conditions=("DisruptionTarget",))))) == {"unknown"}


def test_an_old_pod_that_ran_out_of_memory_is_not_called_too_few_ready() -> None:
    result = result_of(dark_traffic(), single(exit_code=137, reason="OOMKilled"))
    assert codes(result) == {"unknown": 20}


def test_new_pods_that_crash_are_not_called_too_few_ready() -> None:
    crash = {"exitCode": 1, "reason": "Error"}
    pods = single()
    more = (
        seen(6.8, Resource.PODS, pods[1].object(state={"terminated": crash}, ready=False)),
        seen(7.5, Resource.PODS, pods[1].object(restarts=1, last=crash, ready=False)),
    )
    assert set(causes(result_of(dark_traffic(), pods, *more))) == {"unknown"}


def test_no_ready_endpoint_that_cost_nothing_is_a_costless_finding() -> None:
    pods = [Pod(name="a", deleted=6.0, ended=11.1, gone=11.4), Pod(name="c", hash="new", born=6.1, ready_from=8.0)]
    traffic = Traffic().steady(lambda at: ["a"] if at < 8.1 else ["c"])
    assert codes(result_of(traffic, pods)) == {"too-few-ready": 0}


# ---------------------------------------------------------------- group 3 (no code of its own yet: never a wrong one)


def test_a_kill_at_the_end_of_the_grace_is_not_called_a_graceful_end() -> None:
    traffic = Traffic().steady(in_use)
    for number in range(5):
        traffic.add(15.2 + number / 100, kind=CLOSED, lane=KEPT, on="a", took=0.8)
    pods = [Pod(name="a", deleted=6, ended=16.1, gone=16.4, exit_code=137, reason="Error", grace=10), *old_pods()[1:]]
    result = result_of(traffic, pods + new_pods())
    assert set(causes(result)) == {"unknown"}
    assert result.outcome is Outcome.FAIL


def test_a_crash_in_the_rollout_is_unknown_and_a_fail() -> None:
    crash = {"exitCode": 137, "reason": "OOMKilled"}
    pods = old_pods() + new_pods()
    more = (
        seen(14.0, Resource.PODS, pods[2].object(state={"terminated": crash})),
        seen(15.0, Resource.PODS, pods[2].object(restarts=1, last=crash)),
    )
    traffic = Traffic().steady(in_use)
    traffic.add(13.5, kind=RESET, lane=KEPT, on="c")
    traffic.add(13.6, kind=REFUSED, took=0.001)
    result = result_of(traffic, pods, *more)
    assert causes(result) == ["unknown", "unknown"]
    assert [one.attribution.pods for one in result.failed_requests] == [("c",), ("c",)]
    assert result.outcome is Outcome.FAIL


# ---------------------------------------------------------------- group 4


def test_refused_silent_and_cut_without_a_wait_exits_at_once() -> None:
    traffic = Traffic().steady(quick_use)
    traffic.add(5.8, kind=CLOSED, lane=KEPT, on="a", took=0.25)
    traffic.add(6.06, kind=REFUSED, took=0.001)
    traffic.add(6.5, kind=SILENCE, took=5)
    result = result_of(traffic, quick_pods(exit_code=143) + new_pods())
    assert codes(result) == {"exits-at-once": 3}
    assert "exits" in result.findings[0].title


def test_a_listener_closed_at_sigterm_stops_listening_at_once_though_the_process_lasts() -> None:
    traffic = Traffic().steady(in_use)
    traffic.add(6.46, kind=REFUSED, took=0.001)
    result = result_of(traffic, old_pods(prestop=None, ended=14.0, gone=14.3) + new_pods())
    assert codes(result) == {"exits-at-once": 1}
    assert "stops listening" in result.findings[0].title


def test_an_app_that_drains_for_long_without_a_hook_is_not_called_at_once() -> None:
    traffic = Traffic().steady(in_use)
    traffic.add(8.5, kind=SILENCE, took=5)
    result = result_of(traffic, old_pods(prestop=None, ended=14.0, gone=14.3) + new_pods())
    assert causes(result) == ["unknown"]


def test_a_wait_that_ended_before_fresh_traffic_had_moved_is_too_short() -> None:
    wait = {"sleep": {"seconds": 1}}
    traffic = Traffic().steady(in_use)
    traffic.add(7.26, kind=REFUSED, took=0.001)
    pods = [Pod(name="a", deleted=6, ended=7.2, gone=7.5, prestop=wait), Pod(name="b", deleted=9, ended=14.1, gone=14.4)]
    assert codes(result_of(traffic, pods + new_pods())) == {"wait-too-short": 1}


def test_a_hook_that_did_not_wait_is_not_called_too_short() -> None:
    traffic = Traffic().steady(in_use)
    traffic.add(6.26, kind=REFUSED, took=0.001)
    assert causes(result_of(traffic, old_pods(ended=6.2, gone=6.5) + new_pods())) == ["unknown"]


def test_a_hook_that_failed_by_its_event_is_not_called_too_short() -> None:
    event = seen(6.05, Resource.EVENTS, {"reason": "FailedPreStopHook", "involvedObject": {"uid": "a"}}, Sighting.ADDED)
    traffic = Traffic().steady(in_use)
    traffic.add(6.26, kind=REFUSED, took=0.001)
    assert causes(result_of(traffic, old_pods(unready=8) + new_pods(), event)) == ["unknown"]


def test_fresh_traffic_three_seconds_after_the_slice_changed_means_late_endpoints() -> None:
    traffic = Traffic().steady(in_use)
    traffic.add(10.0, pod="a")
    traffic.add(10.92, kind=CLOSED, took=0.15, lane=KEPT, on="a")
    traffic.add(11.15, kind=REFUSED, took=0.001)
    assert codes(result_of(traffic)) == {"late-endpoints": 2}


def test_fresh_traffic_to_a_pod_while_no_other_was_ready_is_not_late() -> None:
    """Proxies then send to terminating pods on purpose (KEP-1669)."""
    pods = [Pod(name="a", deleted=6.0, ended=11.1, gone=11.4), Pod(name="c", hash="new", born=6.1, ready_from=14)]
    traffic = Traffic().steady(lambda at: ["a"] if at < 11 else ["c"] if at > 14 else [])
    traffic.add(11.2, kind=REFUSED, took=0.001)
    assert causes(result_of(traffic, pods)) == ["too-few-ready"]


def test_a_deletion_in_a_gap_never_gets_a_cause() -> None:
    old = Pod(name="a", prestop=None)
    found = [*cluster([Pod(name="b"), *new_pods()]), seen(0, Resource.PODS, old.object(), Sighting.LISTED)]
    found += [seen(9, Resource.PODS, old.object(), Sighting.VANISHED)]
    traffic = Traffic().steady(lambda at: ["a", "b"] if at < 6 else ["b", "c"])
    traffic.add(6.5, kind=REFUSED, took=0.001)
    made = run(traffic, sorted(found, key=lambda one: one.seen), gaps=(Gap(start=ns(5.5), end=ns(9), resource="pods"),))
    result = conclude(made)
    assert causes(result) == ["unknown"]
    assert result.failed_requests[0].attribution.pods == ("a",)
    assert result.outcome is Outcome.FAIL


# ---------------------------------------------------------------- group 5


def cut_run(took: float, exit_code: int, **more: Any) -> RunResult:
    traffic = Traffic().steady(in_use)
    traffic.kept = [("a", 0.1, 11.0), ("b", 0.1, 12.0)]
    traffic.add(11.05 - took, kind=CLOSED, lane=KEPT, on="a", took=took, **more)
    return result_of(traffic, old_pods(exit_code=exit_code) + new_pods())


def test_unfinished_requests_of_an_app_that_handled_sigterm_are_dropped_connections() -> None:
    assert causes(cut_run(0.4, 0)) == ["drops-connections"]


def test_unfinished_requests_of_an_app_that_the_signal_ended_are_kept_connections_cut() -> None:
    assert causes(cut_run(0.4, 143)) == ["kept-connections-cut"]
    assert causes(cut_run(0.4, 2)) == ["kept-connections-cut"]


def test_a_request_written_just_before_the_close_lost_the_idle_close_race() -> None:
    assert causes(cut_run(0.03, 0)) == ["idle-close-race"]


def test_a_cut_in_an_answer_is_no_race() -> None:
    assert causes(cut_run(0.03, 0, first_byte=True)) == ["drops-connections"]


def test_a_cut_long_before_sigterm_is_unknown() -> None:
    traffic = Traffic().steady(in_use)
    traffic.add(8.3, kind=CLOSED, lane=KEPT, on="a", took=0.4)
    assert causes(result_of(traffic)) == ["unknown"]


def test_kept_connections_in_use_at_a_signals_end_are_a_costless_finding() -> None:
    traffic = Traffic().steady(in_use)
    traffic.kept = [("a", 0.1, 11.05), ("b", 0.1, 12.05)]
    assert codes(result_of(traffic, old_pods(exit_code=143) + new_pods())) == {"kept-connections-cut": 0}


# ---------------------------------------------------------------- group 6


def test_refused_by_a_new_pod_that_counts_as_ready_before_it_listens() -> None:
    pods = old_pods() + new_pods(probe=False)
    traffic = Traffic().steady(lambda at: ["a", "b"] if at < 9 else ["c", "d"])
    for number in range(10):
        traffic.add(7.5 + number / 20, kind=REFUSED, took=0.001)
    assert codes(result_of(traffic, pods)) == {"no-readiness-probe": 10}


def test_an_answer_of_the_terminating_pod_itself_is_unknown() -> None:
    traffic = Traffic().steady(in_use)
    traffic.add(8.5, kind=FailureKind.HTTP_5XX, status=503, pod="a", lane=KEPT)
    result = result_of(traffic)
    assert causes(result) == ["unknown"]
    assert result.findings[0].pods[0].name == "a"


def test_time_outs_of_a_busy_pod_beside_one_that_ends_are_not_laid_on_it() -> None:
    traffic = Traffic().steady(quick_use)
    for number in range(5):
        traffic.add(5.5 + number / 10, kind=TIMEOUT, took=5)
    result = result_of(traffic, quick_pods() + new_pods())
    assert set(causes(result)) == {"unknown"}
    assert {one.attribution.pods for one in result.failed_requests} == {()}


def test_failures_after_a_rollback_in_the_run_are_laid_on_no_wrong_pod() -> None:
    back = seen(9, Resource.REPLICASETS, replica_set("old", 3))
    pods = [*old_pods(), *new_pods(deleted=9.5, ended=14.6), Pod(name="e", born=9.1, ready_from=9.4)]
    traffic = Traffic().steady(lambda at: ["a", "b"] if at < 7 else ["c", "d"] if at < 9.8 else ["e"])
    traffic.kept = [("a", 0.1, 11.0), ("b", 0.1, 12.0)]
    result = result_of(traffic, pods, back)
    assert {pod.name: pod.revision for pod in result.pods} == {"a": "old", "b": "old", "c": "old", "d": "old", "e": "new"}


def test_a_stranger_that_answers_is_named_but_no_cause_is_made_of_it() -> None:
    traffic = Traffic().steady(in_use)
    traffic.add(6.1, kind=RESET, lane=KEPT, on="stranger")
    result = result_of(traffic)
    assert causes(result) == ["unknown"]
    assert result.failed_requests[0].attribution.pods == ("stranger",)


def test_every_failed_request_is_counted_once_under_one_code() -> None:
    for name in ("d0-nosleep", "d3-recreate"):
        lanes = ("new", "reused") if name == "d0-nosleep" else ("new",)
        result = conclude(replace(recorded_run(name, lanes=lanes)))
        assert sum(finding.requests for finding in result.findings) == result.summary.failed == len(result.failed_requests)
