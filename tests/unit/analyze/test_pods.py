from __future__ import annotations

from typing import Any

import pytest

from loadtest.analyze.pods import ClusterView, prestop_in_words, view
from loadtest.model import Resource, Seen, Sighting
from tests.unit.analyze.builders import Pod, cluster, deployment, new_pods, ns, old_pods, replica_set, seen, slices


def looked(*pods: Pod, more: tuple[Seen, ...] = (), **options: Any) -> ClusterView:
    return view(cluster(pods, *more, **options), ns(5))


def test_a_deletion_is_the_first_event_that_shows_it_and_tells_its_grace() -> None:
    pod = Pod(name="a", deleted=6, ended=11, gone=11.3, grace=45)
    again = seen(11.2, Resource.PODS, Pod(name="a", grace=0).object(terminating=True))
    life = looked(pod, more=(again,)).pods["a"]
    assert (life.deletion, life.deletion_grace_s) == (ns(6), 45)
    assert (life.ended, life.gone, life.exit_code) == (ns(11), ns(11.3), 0)
    assert not life.blind


def test_slices_that_arrive_before_their_pods_are_not_forgotten() -> None:
    pod = Pod(name="a", deleted=6, ended=11, gone=11.3)
    early = [one for one in cluster([pod]) if one.resource is Resource.ENDPOINTSLICES]
    rest = [one for one in cluster([pod]) if one.resource is not Resource.ENDPOINTSLICES]
    life = view([*early[:1], *sorted([*rest, *early[1:]], key=lambda one: one.seen)], ns(5)).pods["a"]
    assert life.in_slice == 0
    assert life.terminating_ready
    assert (life.not_ready, life.removed) == (ns(6.02), ns(11.2))


def test_a_slice_that_arrives_before_the_deletion_that_caused_it_still_shows_a_pod_in_use() -> None:
    assert looked(Pod(name="a", deleted=6, unready=5.95, ended=11)).pods["a"].terminating_ready
    assert looked(Pod(name="a", deleted=6, unready=5.95, removed=5.97, ended=11)).pods["a"].terminating_ready


def test_a_pod_that_was_long_not_ready_at_its_deletion_was_not_in_use() -> None:
    assert not looked(Pod(name="a", deleted=6, unready=3, ended=11)).pods["a"].terminating_ready


def test_a_pod_that_vanished_has_an_end_that_nobody_saw() -> None:
    obj = Pod(name="a").object()
    found = [seen(0, Resource.PODS, obj, Sighting.LISTED), seen(9, Resource.PODS, obj, Sighting.VANISHED)]
    life = view(found, ns(5)).pods["a"]
    assert life.vanished
    assert life.blind
    assert (life.deletion, life.gone, life.ended) == (ns(9), ns(9), None)


def test_a_deletion_that_a_relist_brought_is_blind() -> None:
    found = [
        seen(0, Resource.PODS, Pod(name="a").object(), Sighting.LISTED),
        seen(9, Resource.PODS, Pod(name="a").object(terminating=True), Sighting.LISTED),
    ]
    assert view(found, ns(5)).pods["a"].blind


def test_null_conditions_mean_ready_and_serving_and_not_terminating() -> None:
    entries = [
        {"targetRef": {"uid": "a"}, "conditions": {"ready": None, "serving": None, "terminating": None}},
        {"targetRef": {"uid": "b"}},
        {"targetRef": {"uid": "c"}, "conditions": {"ready": False}},
        {"targetRef": {"uid": "d"}, "conditions": {"ready": False, "serving": True, "terminating": True}},
    ]
    got = view([seen(1, Resource.ENDPOINTSLICES, {"metadata": {"name": "s"}, "endpoints": entries})], None)
    assert [step.value for step in got.ready_steps] == [2]
    assert [step.value for step in got.serving_steps] == [3]


def test_a_slice_without_endpoints_is_zero_and_a_deleted_slice_takes_its_endpoints_away() -> None:
    empty = {"metadata": {"name": "s"}, "endpoints": None}
    full = {"metadata": {"name": "s"}, "endpoints": [{"targetRef": {"uid": "a"}}]}
    got = view(
        [
            seen(1, Resource.ENDPOINTSLICES, empty),
            seen(2, Resource.ENDPOINTSLICES, full),
            seen(3, Resource.ENDPOINTSLICES, full, Sighting.DELETED),
        ],
        None,
    )
    assert [(step.at, step.value) for step in got.ready_steps] == [(1.0, 0), (2.0, 1), (3.0, 0)]


def test_two_slices_are_added_up() -> None:
    one = {"metadata": {"name": "s1"}, "endpoints": [{"targetRef": {"uid": "a"}}]}
    two = {"metadata": {"name": "s2"}, "endpoints": [{"targetRef": {"uid": "b"}}]}
    got = view([seen(1, Resource.ENDPOINTSLICES, one), seen(2, Resource.ENDPOINTSLICES, two)], None)
    assert [step.value for step in got.ready_steps] == [1, 2]


def test_an_exit_of_long_before_the_run_is_not_this_runs_end() -> None:
    old_crash = {"exitCode": 137, "reason": "OOMKilled"}
    found = [
        seen(0, Resource.PODS, Pod(name="a").object(restarts=3, last=old_crash), Sighting.LISTED),
        seen(6, Resource.PODS, Pod(name="a").object(restarts=3, last=old_crash, terminating=True)),
        seen(7, Resource.PODS, Pod(name="a").object(restarts=3, last=old_crash, terminating=True), Sighting.DELETED),
    ]
    life = view(found, ns(5)).pods["a"]
    assert (life.exit_code, life.reason, life.restarts) == (None, "", 3)
    assert life.downs == []


def test_a_restart_is_a_time_in_which_the_container_was_down() -> None:
    crash = {"exitCode": 1, "reason": "Error"}
    found = [
        seen(0, Resource.PODS, Pod(name="a").object(), Sighting.LISTED),
        seen(3, Resource.PODS, Pod(name="a").object(state={"terminated": crash})),
        seen(4, Resource.PODS, Pod(name="a").object(restarts=1, last=crash)),
    ]
    life = view(found, ns(5)).pods["a"]
    assert life.downs == [(ns(3), ns(4))]
    assert (life.ended, life.exit_code, life.deletion) == (None, 1, None)


def test_a_restart_whose_end_was_not_seen_shows_by_its_count() -> None:
    crash = {"exitCode": 137, "reason": "OOMKilled"}
    found = [
        seen(0, Resource.PODS, Pod(name="a").object(), Sighting.LISTED),
        seen(4, Resource.PODS, Pod(name="a").object(restarts=1, last=crash)),
    ]
    life = view(found, ns(5)).pods["a"]
    assert life.downs == [(ns(4), ns(4))]
    assert life.reason == "OOMKilled"


def test_a_container_that_waits_to_be_started_again_is_down() -> None:
    crash = {"exitCode": 1, "reason": "Error"}
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    found = [
        seen(0, Resource.PODS, Pod(name="a").object(), Sighting.LISTED),
        seen(3, Resource.PODS, Pod(name="a").object(state=waiting, restarts=1, last=crash)),
    ]
    life = view(found, ns(5)).pods["a"]
    assert life.ended == ns(3)


def test_the_container_that_is_looked_at_is_the_specs_first_not_the_first_in_the_alphabet() -> None:
    obj = Pod(name="a").object()
    obj["spec"]["containers"].append({"name": "aaa-proxy"})
    obj["status"]["containerStatuses"].insert(
        0, {"name": "aaa-proxy", "restartCount": 0, "state": {"terminated": {"exitCode": 3}}}
    )
    life = view([seen(0, Resource.PODS, obj, Sighting.LISTED)], None).pods["a"]
    assert life.container == "app"
    assert life.exit_code is None


def test_new_pods_are_those_of_the_revision_that_came_after_the_trigger() -> None:
    got = looked(*old_pods(), *new_pods())
    assert got.rolled
    assert {name: pod.revision for name, pod in got.by_name.items()} == {"a": "old", "b": "old", "c": "new", "d": "new"}
    assert [pod.name for pod in got.old] == ["a", "b"]


def test_without_a_new_revision_nothing_was_rolled() -> None:
    got = looked(*old_pods(), rolled=False)
    assert not got.rolled
    assert {pod.revision for pod in got.pods.values()} == {"old"}


def test_a_rollback_does_not_make_new_pods_of_those_that_were_there_before() -> None:
    """The first template gets the highest revision again; its pods from before the trigger stay old."""
    back = seen(9, Resource.REPLICASETS, replica_set("old", 3))
    got = looked(*old_pods(), *new_pods(), Pod(name="e", born=9.2, ready_from=10), more=(back,))
    assert {name: pod.revision for name, pod in got.by_name.items()} == {
        "a": "old",
        "b": "old",
        "c": "old",
        "d": "old",
        "e": "new",
    }


def test_the_replica_sets_of_another_deployment_under_the_same_labels_do_not_count() -> None:
    canary = seen(0, Resource.REPLICASETS, replica_set("canary", 57, owner="web-canary"), Sighting.LISTED)
    assert looked(*old_pods(), *new_pods(), more=(canary,)).rolled


def test_an_evicted_pod_says_so() -> None:
    assert looked(Pod(name="a", deleted=6, ended=8, conditions=("DisruptionTarget",))).pods["a"].disrupted


def test_a_failed_hook_is_known_by_its_event() -> None:
    event = seen(6.1, Resource.EVENTS, {"reason": "FailedPreStopHook", "involvedObject": {"uid": "a"}}, Sighting.ADDED)
    life = looked(Pod(name="a", deleted=6, ended=11.1), Pod(name="b", deleted=6, ended=11.1), more=(event,)).by_name
    assert (life["a"].prestop_failed, life["b"].prestop_failed) == (True, False)
    assert (life["a"].waited, life["b"].waited) == (False, True)


def test_replicas_and_container_come_from_the_deployment() -> None:
    got = view([seen(0, Resource.DEPLOYMENTS, deployment(3), Sighting.LISTED)], None)
    assert (got.replicas, got.container) == (3, "app")


def test_nothing_seen_is_a_view_of_nothing() -> None:
    got = view((), None)
    assert (got.pods, got.ready_steps, got.rolled, got.replicas) == ({}, (), False, None)


@pytest.mark.parametrize(
    ("hook", "words", "wait", "only_sleeps"),
    [
        ({}, "", None, False),
        ({"sleep": {"seconds": 5}}, "sleep 5 s", 5.0, True),
        ({"exec": {"command": ["sleep", "15"]}}, "exec sleep 15", 15.0, True),
        ({"exec": {"command": ["/bin/sh", "-c", "sleep 1.5"]}}, "exec /bin/sh -c sleep 1.5", 1.5, True),
        ({"exec": {"command": ["sh", "-c", "touch /drain && sleep 2m"]}}, "exec sh -c touch /drain && sleep 2m", 120.0, False),
        ({"exec": {"command": ["sh", "-c", "sleep 1; sleep 9"]}}, "exec sh -c sleep 1; sleep 9", None, False),
        ({"exec": {"command": ["/app/stop"]}}, "exec /app/stop", None, False),
        ({"exec": {"command": ["nosleep", "5"]}}, "exec nosleep 5", None, False),
        ({"httpGet": {"path": "/stop"}}, "httpGet /stop", None, False),
    ],
)
def test_what_a_hook_waits_is_read_from_it(hook: dict[str, Any], words: str, wait: float | None, only_sleeps: bool) -> None:
    assert prestop_in_words(hook) == (words, wait)
    assert looked(Pod(name="a", prestop=hook)).pods["a"].sleeps is only_sleeps


def test_the_builders_slices_are_in_order() -> None:
    moments = [one.seen for one in slices(old_pods() + new_pods())]
    assert moments == sorted(moments)
