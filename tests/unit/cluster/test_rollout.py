"""kubectl's words, and when a run may start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loadtest.cluster import rollout

Make = Callable[..., dict[str, Any]]
STUCK = [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]


@pytest.mark.parametrize(
    ("changes", "message", "done"),
    [
        ({}, 'deployment "web" successfully rolled out', True),
        ({"meta__generation": 5}, "Waiting for deployment spec update to be observed...", False),
        (
            {"status__updatedReplicas": 1},
            'Waiting for deployment "web" rollout to finish: 1 out of 3 new replicas have been updated...',
            False,
        ),
        (
            {"status__replicas": 5},
            'Waiting for deployment "web" rollout to finish: 2 old replicas are pending termination...',
            False,
        ),
        (
            {"status__availableReplicas": 2},
            'Waiting for deployment "web" rollout to finish: 2 of 3 updated replicas are available...',
            False,
        ),
        ({"spec__replicas": 2}, 'deployment "web" successfully rolled out', True),
        ({"status__terminatingReplicas": 3}, 'deployment "web" successfully rolled out', True),
    ],
)
def test_status_is_said_as_kubectl_says_it(deployment: Make, changes: dict[str, Any], message: str, done: bool) -> None:
    status = rollout.status(deployment(**changes))

    assert (status.message, status.done, status.failed) == (message, done, False)


def test_a_deadline_that_has_passed_is_a_failure(deployment: Make) -> None:
    status = rollout.status(deployment(status__conditions=STUCK, status__updatedReplicas=1))

    assert status.failed
    assert status.message == 'deployment "web" exceeded its progress deadline'


def test_a_deadline_of_a_spec_that_is_no_longer_the_newest_does_not_count(deployment: Make) -> None:
    assert not rollout.status(deployment(status__conditions=STUCK, meta__generation=5)).failed


def test_a_deployment_without_status_is_not_done(deployment: Make) -> None:
    bare = deployment()
    del bare["status"]

    assert not rollout.status(bare).done


def test_at_rest_nothing_speaks_against_a_run(deployment: Make, pod: Make) -> None:
    assert rollout.is_settled(deployment(), [pod("a"), pod("b"), pod("c")]) is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"spec__paused": True}, "is paused"),
        ({"meta__generation": 9}, "to be observed"),
        ({"status__updatedReplicas": 1}, "is under way"),
        ({"status__replicas": 4}, "is under way"),
        ({"status__readyReplicas": 2}, "short of ready pods: 2 of 3"),
        ({"spec__replicas": 0}, "scaled to 0"),
        ({"status__conditions": STUCK}, "got stuck"),
        ({"meta__deletionTimestamp": "2026-01-01T00:00:00Z"}, "is being deleted"),
    ],
)
def test_a_run_does_not_start_while_the_deployment_is_not_settled(deployment: Make, changes: dict[str, Any], says: str) -> None:
    reason = rollout.is_settled(deployment(**changes), [])

    assert reason is not None
    assert says in reason
    assert "deployment/web" in reason


def test_a_run_does_not_start_while_pods_still_terminate(deployment: Make, pod: Make) -> None:
    reason = rollout.is_settled(deployment(), [pod("a"), *(pod(f"old-{n}", deleted=True) for n in range(5))])

    assert reason == "pods of deployment/web still terminate: old-0, old-1, old-2, …"


def test_pods_that_were_evicted_long_ago_do_not_keep_a_run_from_starting(deployment: Make, pod: Make) -> None:
    assert rollout.is_settled(deployment(), [pod("evicted", phase="Failed", deleted=True)]) is None


def a_replicaset(revision: str, *, owner: str = "d-1", hash_: str = "aa") -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"web-{hash_}",
            "uid": f"rs-{hash_}",
            "labels": {"pod-template-hash": hash_},
            "annotations": {"deployment.kubernetes.io/revision": revision},
            "ownerReferences": [{"uid": owner, "controller": True}],
        }
    }


def test_the_new_replicaset_is_the_one_with_the_deployments_revision(deployment: Make) -> None:
    sets = [a_replicaset("6", hash_="old"), a_replicaset("7", hash_="new"), a_replicaset("7", owner="other", hash_="x")]

    assert rollout.template_hash(rollout.new_replicaset(deployment(), sets)) == "new"


def test_there_is_no_new_replicaset_before_the_controller_has_seen_the_spec(deployment: Make) -> None:
    assert rollout.new_replicaset(deployment(meta__generation=5), [a_replicaset("7")]) is None
    assert rollout.revision(deployment(meta__generation=5)) is None


def test_pods_are_old_or_new_by_their_replicaset(pod: Make) -> None:
    pods = [pod("a", hash_="old"), pod("b", hash_="new"), pod("c")]

    old, new = rollout.split_pods(pods, a_replicaset("7", hash_="new"))

    assert [one["metadata"]["name"] for one in old] == ["a", "c"]
    assert [one["metadata"]["name"] for one in new] == ["b"]
    assert rollout.split_pods(pods, None) == (pods, [])


def test_every_kind_of_selector_becomes_a_query(deployment: Make) -> None:
    expressions = [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "zone", "operator": "NotIn", "values": ["c"]},
        {"key": "live", "operator": "Exists"},
        {"key": "old", "operator": "DoesNotExist"},
    ]
    selector = {"matchLabels": {"app": "web", "a": "b"}, "matchExpressions": expressions}

    assert rollout.selector_query(deployment(spec__selector=selector)) == "a=b,app=web,tier in (a,b),zone notin (c),live,!old"


def test_a_rollout_may_take_its_deadline_and_its_grace_and_a_minute(deployment: Make) -> None:
    assert rollout.rollout_timeout_s(deployment()) == 600 + 30 + 60
    template = {"spec": {"terminationGracePeriodSeconds": 5}}
    assert rollout.rollout_timeout_s(deployment(spec__progressDeadlineSeconds=60, spec__template=template)) == 60 + 5 + 60
