from __future__ import annotations

from loadtest.analyze.attribute import attribute
from loadtest.analyze.conclude import phases_of
from loadtest.analyze.facts import Outage, PodFacts, lag_ns, outages, pod_facts
from loadtest.analyze.pods import view
from loadtest.analyze.stops import stops
from loadtest.analyze.tally import tally
from loadtest.model import FailureKind, Lane, Resource, Seen
from tests.unit.analyze.builders import END, Pod, Traffic, cluster, in_use, new_pods, ns, old_pods, run, seen

REFUSED, CLOSED = FailureKind.CONNECT_REFUSED, FailureKind.CLOSED_BEFORE_RESPONSE


def looked(traffic: Traffic, pods: list[Pod], *more: Seen) -> tuple[tuple[Outage, ...], dict[str, PodFacts], int]:
    made = run(traffic, cluster(pods, *more))
    phases = phases_of(made)
    seen_view = view(made.seen, phases.trigger)
    counts = tally(made, phases, {})
    all_stops = stops(seen_view, counts)
    found = attribute(seen_view, counts, all_stops, direct=True)
    facts = pod_facts(seen_view, counts, all_stops, found)
    return outages(seen_view, counts, all_stops, phases.end), facts, lag_ns(found, facts)


def one_pod(**changes: object) -> list[Pod]:
    """A single old pod, gone at 6.3 s, and a new one that is ready at 8 s."""
    old = Pod(name="a", deleted=6.0, ended=6.3, gone=6.6, prestop=None)
    return [old, Pod(name="c", hash="new", born=6.1, ready_from=8.0)]


def alone(at: float) -> list[str]:
    return ["a"] if at < 6 else ["c"] if at >= 9 else []


def test_an_outage_lasts_from_the_last_listener_to_another_pods_first_answer() -> None:
    (outage,), _, _ = looked(Traffic().steady(alone), one_pod())
    assert outage.after.name == "a"
    assert (outage.earliest, outage.latest, outage.end) == (ns(5.901), ns(6.3), ns(9.005))


def test_no_outage_while_another_ready_pod_listens_that_no_proxy_knows_yet() -> None:
    traffic = Traffic().steady(lambda at: ["a"] if at < 6 else ["c"] if at >= 9 else [])
    pods = [Pod(name="a", deleted=6.0, ended=6.3, gone=6.6), Pod(name="c", hash="new", born=5.1, ready_from=5.9)]
    assert looked(traffic, pods)[0] == ()


def test_a_ready_pod_without_a_probe_listens_only_once_it_has_answered() -> None:
    pods = [Pod(name="a", deleted=6.0, ended=6.3, gone=6.6), Pod(name="c", hash="new", born=5.1, ready_from=5.9, probe=False)]
    assert len(looked(Traffic().steady(alone), pods)[0]) == 1


def test_an_outage_that_nobody_ends_lasts_to_the_runs_end() -> None:
    (outage,), _, _ = looked(Traffic().steady(lambda at: ["a"] if at < 6 else []), one_pod())
    assert outage.end == ns(END)


def test_a_pod_of_another_workload_behind_the_same_service_goes_on_answering() -> None:
    traffic = Traffic().steady(lambda at: ["a", "stranger"] if at < 6 else ["stranger"] if at < 9 else ["c"])
    assert looked(traffic, one_pod())[0] == ()


def test_of_two_last_pods_the_outage_may_begin_with_the_earlier_one() -> None:
    pods = [Pod(name="a", deleted=6.0, ended=6.3, gone=6.6), Pod(name="b", deleted=6.0, ended=6.4, gone=6.7)]
    found, _, _ = looked(Traffic().steady(lambda at: ["a", "b"] if at < 6 else []), pods)
    assert [(one.after.name, one.latest) for one in found] == [("b", ns(6.4))]


def test_a_restarted_container_listens_again() -> None:
    crash = {"exitCode": 1, "reason": "Error"}
    pods = [Pod(name="b"), Pod(name="a", deleted=8.0, ended=8.2, gone=8.4)]
    more = (
        seen(3, Resource.PODS, pods[0].object(state={"terminated": crash})),
        seen(4, Resource.PODS, pods[0].object(restarts=1, last=crash)),
    )
    found, facts, _ = looked(Traffic().steady(lambda at: ["b", "a"] if at < 8 else ["b"]), pods, *more)
    assert found == ()
    assert facts["b"].abnormal
    assert not facts["a"].abnormal


def test_a_pod_that_went_on_for_long_and_one_that_did_not() -> None:
    facts = looked(Traffic(), [Pod(name="a", deleted=6, ended=6.2), Pod(name="b", deleted=6, ended=11.1)])[1]
    assert (facts["a"].quick, facts["b"].quick) == (True, False)


def test_a_listener_closed_at_sigterm_is_quick_however_long_the_process_lasts() -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(6.1, kind=REFUSED, took=0.001)
    facts = looked(traffic, [Pod(name="a", deleted=6, ended=14, prestop=None), Pod(name="b")])[1]
    assert facts["a"].quick
    assert facts["a"].first_refused == ns(6.1)


def test_abnormal_ends_are_kills_and_unasked_exits_but_not_signals() -> None:
    def abnormal(**changes: object) -> bool:
        pod = Pod(name="a", **{"deleted": 6.0, "ended": 14.0, **changes})  # type: ignore[arg-type] # changes are a Pod's
        return looked(Traffic(), [pod])[1]["a"].abnormal

    assert abnormal(exit_code=137, reason="Error")
    assert abnormal(exit_code=137, reason="OOMKilled")
    assert abnormal(exit_code=0, deleted=None)
    assert abnormal(exit_code=1, reason="Error")
    assert not abnormal(exit_code=0)
    assert not abnormal(exit_code=143)
    assert not abnormal(exit_code=2)
    assert not abnormal(exit_code=1, reason="Error", ended=6.2)


def test_cuts_before_sigterm_can_have_come_are_not_of_the_pods_end() -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(8.0, kind=CLOSED, lane=Lane.REUSED, on="a", took=0.2)
    traffic.add(10.5, kind=CLOSED, lane=Lane.REUSED, on="a", took=0.5)
    facts = looked(traffic, old_pods())[1]["a"]
    assert [one.row.due for one in facts.cut] == [ns(10.5)]
    assert facts.moved


def test_fresh_traffic_moved_before_the_stop_unless_an_attempt_found_nobody() -> None:
    traffic = Traffic().steady(in_use)
    assert looked(traffic, old_pods() + new_pods())[1]["a"].moved
    traffic.add(11.2, kind=REFUSED, took=0.001)
    pods = old_pods(unready=10.0) + new_pods()
    assert not looked(traffic, pods)[1]["a"].moved


def test_late_is_a_fresh_connection_over_three_seconds_after_the_slice_changed() -> None:
    for at, late in ((8.9, False), (9.2, True)):
        traffic = Traffic().steady(in_use)
        traffic.add(at, pod="a")
        assert looked(traffic, old_pods() + new_pods())[1]["a"].late is late


def test_the_lag_is_the_longest_time_after_a_deletion_with_fresh_traffic() -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(6.8, pod="a")
    assert looked(traffic, old_pods() + new_pods())[2] == ns(0.801)  # its connect took 1 ms
    traffic.add(7.9, kind=REFUSED, took=0.001)
    assert looked(traffic, old_pods(ended=6.9, gone=7.0, prestop=None) + new_pods())[2] == ns(0.9)
