from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loadtest.analyze.attribute import Attributed, attribute
from loadtest.analyze.conclude import phases_of
from loadtest.analyze.pods import view
from loadtest.analyze.stops import stops
from loadtest.analyze.tally import tally
from loadtest.model import FailureKind, Gap, HowKnown, Lane, Resource, Seen, Sighting
from tests.unit.analyze.builders import Pod, Traffic, cluster, in_use, new_pods, ns, old_pods, run, seen

REFUSED, SILENCE = FailureKind.CONNECT_REFUSED, FailureKind.CONNECT_TIMEOUT
CLOSED, RESET = FailureKind.CLOSED_BEFORE_RESPONSE, FailureKind.RESET_BEFORE_RESPONSE
TIMEOUT = FailureKind.RESPONSE_TIMEOUT


def quick_pods() -> list[Pod]:
    """a and b without a wait: their ends arrive 0.3 s after their deletions at 6 and 7 s."""
    return old_pods(ended=6.3, gone=6.6, prestop=None)


def attributed(traffic: Traffic, pods: list[Pod] | None = None, *more: Seen, direct: bool = True) -> list[Attributed]:
    made = run(traffic, cluster(pods if pods is not None else quick_pods() + new_pods(), *more))
    phases = phases_of(made)
    seen = view(made.seen, phases.trigger)
    counts = tally(made, phases, {})
    return list(attribute(seen, counts, stops(seen, counts, made.gaps), direct=direct))


def last(traffic: Traffic, pods: list[Pod] | None = None, **options: Any) -> Attributed:
    return attributed(traffic, pods, **options)[-1]


def test_its_own_answer_named_the_pod() -> None:
    traffic = Traffic()
    traffic.add(6.1, kind=FailureKind.HTTP_5XX, status=503, pod="b")
    got = last(traffic)
    assert (got.attribution.how, got.attribution.pods) == (HowKnown.HEADER, ("b",))
    assert not got.no_listener
    assert not got.in_transition


def test_earlier_answers_on_its_connection_named_the_pod() -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(6.02, kind=RESET, lane=Lane.REUSED, on="a", took=0.1)
    got = last(traffic)
    assert (got.attribution.how, got.attribution.pods, got.in_transition) == (HowKnown.CONNECTION, ("a",), True)


def test_only_one_pod_could_have_got_it() -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(6.1, kind=REFUSED, took=0.001)
    got = last(traffic)
    assert (got.attribution.how, got.attribution.pods) == (HowKnown.ONLY_CANDIDATE, ("a",))
    assert got.no_listener


def test_one_of_several_pods_could_have_got_it() -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(7.1, kind=SILENCE, took=5)
    got = last(traffic)
    assert (got.attribution.how, got.attribution.pods) == (HowKnown.CANDIDATES, ("a", "b"))
    assert got.attribution.missing


def test_unknown_says_what_is_missing() -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(3.0, kind=TIMEOUT, took=5)
    got = last(traffic)
    assert (got.attribution.how, got.attribution.pods) == (HowKnown.UNKNOWN, ())
    assert got.attribution.missing
    assert not got.in_transition


@pytest.mark.parametrize("kind", list(FailureKind))
@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("at", [3.0, 5.9, 6.1, 7.2, 9.0, 11.3, 15.0])
def test_a_healthy_pod_is_never_a_candidate(kind: FailureKind, direct: bool, at: float) -> None:
    traffic = Traffic().steady(in_use)
    traffic.add(at, kind=kind, took=0.5)
    for pods in (quick_pods() + new_pods(), old_pods() + new_pods()):
        assert set(last(traffic, pods, direct=direct).attribution.pods) <= {"a", "b"}


@pytest.mark.parametrize("kind", list(FailureKind))
def test_without_a_pod_in_transition_nothing_is_a_candidate(kind: FailureKind) -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(3.0, kind=kind)
    got = last(traffic)
    assert got.attribution.how is HowKnown.UNKNOWN
    assert not got.no_listener
    assert not got.in_transition


@pytest.mark.parametrize(
    "kind", [FailureKind.HTTP_5XX, FailureKind.WRONG_BODY, FailureKind.DNS, TIMEOUT, FailureKind.BAD_RESPONSE]
)
def test_what_a_healthy_pod_does_as_well_is_not_laid_on_the_one_that_ends(kind: FailureKind) -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(6.1, kind=kind, status=500)
    assert last(traffic).attribution.how is HowKnown.UNKNOWN


def test_a_pod_that_only_sleeps_before_sigterm_still_listens() -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(6.5, kind=REFUSED, took=0.001)
    assert last(traffic, old_pods() + new_pods()).attribution.pods == ()
    assert last(
        traffic, old_pods(prestop={"exec": {"command": ["sh", "-c", "stop; sleep 5"]}}) + new_pods()
    ).attribution.pods == ("a",)


def test_a_pod_stops_after_the_last_fresh_connection_that_it_answered() -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(6.05, pod="a")
    traffic.add(6.04, kind=REFUSED, took=0.001)
    assert last(traffic).attribution.pods == ()


def test_what_met_silence_before_a_pods_last_refusal_went_elsewhere() -> None:
    """An address that exists refuses at once: while a still refused, silence came from nobody's address but another's."""
    pods = [
        Pod(name="a", deleted=6.0, ended=6.3, gone=6.6, prestop=None),
        Pod(name="b", deleted=6.4, ended=6.5, gone=6.7, prestop=None),
    ]
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(6.60, kind=SILENCE, took=5)
    traffic.add(6.65, kind=REFUSED, took=0.001)  # a is gone by now: it can only be b
    got = attributed(traffic, pods + new_pods())
    assert [(one.row.kind, one.attribution.pods) for one in got] == [(SILENCE, ("a",)), (REFUSED, ("b",))]


def test_a_slow_refusal_may_come_from_a_packet_filter_and_proves_no_address() -> None:
    pods = [
        Pod(name="a", deleted=6.0, ended=6.3, gone=6.6, prestop=None),
        Pod(name="b", deleted=6.4, ended=6.5, gone=6.7, prestop=None),
    ]
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(6.60, kind=SILENCE, took=5)
    traffic.add(6.65, kind=REFUSED, took=1.0)
    assert attributed(traffic, pods + new_pods())[0].attribution.pods == ("a", "b")


def test_an_echo_is_known_by_its_source_port_and_belongs_to_its_first_failure() -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(6.2, kind=SILENCE, took=5, port=4711)
    traffic.add(14.0, kind=SILENCE, took=5, port=4711)
    first, echo = attributed(traffic)
    assert echo.echo_of == first.row
    assert echo.attribution == first.attribution
    assert (first.in_transition, echo.in_transition, echo.no_listener) == (True, False, False)


def test_an_echo_of_an_echo_belongs_to_the_first_failure_of_all() -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    for at in (6.2, 13.0, 16.0):
        traffic.add(at, kind=SILENCE, took=1, port=4711)
    first, _, echo = attributed(traffic)
    assert echo.echo_of == first.row


def test_a_late_failure_from_a_fresh_port_is_only_consistent_with_an_echo() -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(6.2, kind=SILENCE, took=5, port=4711)
    traffic.add(14.0, kind=SILENCE, took=5, port=4712)
    got = last(traffic)
    assert (got.echo_of, got.stale) == (None, True)


def test_a_port_that_failed_before_anything_ended_is_an_echo_of_before() -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(1.5, kind=SILENCE, took=1, port=4711)
    traffic.add(4.0, kind=SILENCE, took=1, port=4711)
    got = last(traffic)
    assert got.echo_of is not None
    assert got.stale


@pytest.mark.parametrize(
    ("kind", "options", "silent"),
    [
        (CLOSED, {}, True),
        (RESET, {}, True),
        (TIMEOUT, {}, True),
        (CLOSED, {"before": 3}, False),
        (RESET, {"first_byte": True}, False),
        (FailureKind.HTTP_5XX, {"status": 502, "first_byte": True}, True),
        (FailureKind.HTTP_5XX, {"status": 500, "first_byte": True}, False),
    ],
)
def test_behind_a_proxy_nobody_listening_takes_other_shapes(kind: FailureKind, options: dict[str, Any], silent: bool) -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(6.1, kind=kind, **options)
    got = last(traffic, direct=False)
    assert got.no_listener is silent


def test_a_gateways_status_says_nothing_where_no_answer_names_its_pod() -> None:
    traffic = Traffic()
    traffic.add(6.1, kind=FailureKind.HTTP_5XX, status=502, first_byte=True)
    assert not last(traffic, direct=False).no_listener


def test_a_cut_connection_belongs_to_the_pod_that_ended_meanwhile() -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(5.5, kind=CLOSED, took=0.55)
    got = last(traffic)
    assert (got.attribution.how, got.attribution.pods) == (HowKnown.ONLY_CANDIDATE, ("a",))


def test_a_container_that_restarted_is_a_candidate_for_what_failed_then_and_not_later() -> None:
    crash = {"exitCode": 1, "reason": "Error"}
    pod = Pod(name="a")
    more = (
        seen(3, Resource.PODS, pod.object(state={"terminated": crash})),
        seen(4, Resource.PODS, pod.object(restarts=1, last=crash)),
    )
    traffic = Traffic().steady(lambda _: ["b"], 0, 12)
    traffic.add(2.5, kind=REFUSED, took=0.001)
    traffic.add(11.0, kind=REFUSED, took=0.001)
    crashed, later = attributed(traffic, [pod, Pod(name="b")], *more)
    assert crashed.attribution.pods == ("a",)
    assert later.attribution.pods == ()


def test_a_pod_whose_deletion_fell_into_a_gap_may_have_ended_at_any_time_in_it() -> None:
    found = [
        seen(0, Resource.PODS, Pod(name="a").object(), Sighting.LISTED),
        seen(9, Resource.PODS, Pod(name="a").object(), Sighting.VANISHED),
    ]
    traffic = Traffic().steady(lambda _: ["b"], 0, 5)
    traffic.add(6.0, kind=REFUSED, took=0.001)
    made = replace(run(traffic, found), gaps=(Gap(start=ns(5), end=ns(9), resource="pods"),))
    phases = phases_of(made)
    seen_view = view(made.seen, phases.trigger)
    counts = tally(made, phases, {})
    (got,) = attribute(seen_view, counts, stops(seen_view, counts, made.gaps), direct=True)
    assert got.attribution.pods == ("a",)


def test_a_pod_without_a_probe_is_a_candidate_until_its_first_answer() -> None:
    traffic = Traffic().steady(lambda at: ["a", "b"] if at < 8 else ["c"], 0, 9)
    traffic.add(6.5, kind=REFUSED, took=0.001)
    traffic.add(8.5, kind=REFUSED, took=0.001)
    early, late = attributed(traffic, [Pod(name="a"), Pod(name="b"), *new_pods(probe=False)[:1]])
    assert early.attribution.pods == ("c",)
    assert late.attribution.pods == ()


def test_a_pod_that_many_fresh_connections_would_have_met_was_left_by_then() -> None:
    """a was still used at 6.3 s; then thirty connections all went to b and c. Of k endpoints one is not missed so often."""
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(6.3, kind=SILENCE, took=5)
    for number in range(30):
        traffic.add(6.35 + number / 50, pod="bc"[number % 2])
    traffic.add(7.2, kind=SILENCE, took=5)
    got = last(traffic)
    assert (got.attribution.how, got.attribution.pods) == (HowKnown.ONLY_CANDIDATE, ("b",))


def test_a_pod_that_a_few_fresh_connections_missed_may_still_be_used() -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(6.3, kind=SILENCE, took=5)
    for number in range(5):
        traffic.add(6.35 + number / 50, pod="c")
    traffic.add(7.2, kind=SILENCE, took=5)
    assert set(last(traffic).attribution.pods) == {"a", "b"}


def test_with_session_affinity_nothing_is_known_from_where_other_connections_went() -> None:
    traffic = Traffic().steady(in_use, 0, 5)
    traffic.add(6.3, kind=SILENCE, took=5)
    for number in range(30):
        traffic.add(6.35 + number / 50, pod="c")
    traffic.add(7.2, kind=SILENCE, took=5)
    made = run(traffic, cluster(quick_pods() + new_pods()))
    phases = phases_of(made)
    lives = view(made.seen, phases.trigger)
    counts = tally(made, phases, {})
    got = attribute(lives, counts, stops(lives, counts, made.gaps), direct=True, even=False)[-1]
    assert set(got.attribution.pods) == {"a", "b"}
