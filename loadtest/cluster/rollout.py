"""A Deployment's rollout as kubectl would put it, and which pods belong to which side of it (pure).

Input: Deployments, ReplicaSets and pods as JSON objects, trimmed or not. Nothing here compares pod templates: those of
trimmed objects lack env values, so two different ones may look alike. The revision annotation says the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

REVISION = "deployment.kubernetes.io/revision"
TEMPLATE_HASH = "pod-template-hash"

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What `kubectl rollout status` would print. `failed`: it would end with an error; nothing will get better by waiting."""

    message: str
    done: bool = False
    failed: bool = False


def status(deployment: Object) -> Status:
    """The rollout of a Deployment in kubectl's words.

    Source: kubectl `pkg/polymorphichelpers/rollout_status.go`, `DeploymentStatusViewer.Status`. "Done" comes while old pods
    still terminate, because pods with a deletionTimestamp are not counted in `status.replicas` (kubectl#1628).
    """
    name = _name(deployment)
    spec, now = _dict(deployment, "spec"), _dict(deployment, "status")
    if not observed(deployment):
        return Status(message="Waiting for deployment spec update to be observed...")
    if _condition(deployment, "Progressing").get("reason") == "ProgressDeadlineExceeded":
        return Status(message=f'deployment "{name}" exceeded its progress deadline', failed=True)
    wanted, updated = _int(spec, "replicas", 1), _int(now, "updatedReplicas")
    total, available = _int(now, "replicas"), _int(now, "availableReplicas")
    waiting = f'Waiting for deployment "{name}" rollout to finish'
    if updated < wanted:
        return Status(message=f"{waiting}: {updated} out of {wanted} new replicas have been updated...")
    if total > updated:
        return Status(message=f"{waiting}: {total - updated} old replicas are pending termination...")
    if available < updated:
        return Status(message=f"{waiting}: {available} of {updated} updated replicas are available...")
    return Status(message=f'deployment "{name}" successfully rolled out', done=True)


def observed(deployment: Object) -> bool:
    """Whether the Deployment controller has seen the newest spec: only then does the status speak of it."""
    generation = _int(_dict(deployment, "metadata"), "generation")
    return generation <= _int(_dict(deployment, "status"), "observedGeneration")


def is_settled(deployment: Object, pods: Iterable[Object]) -> str | None:
    """Why a run may not start on this Deployment, as a sentence; None: it may.

    Args:
        deployment: the Deployment.
        pods: all pods that its selector matches, those of older revisions included.
    """
    name = _name(deployment)
    if _dict(deployment, "metadata").get("deletionTimestamp"):
        return f"deployment/{name} is being deleted"
    if _dict(deployment, "spec").get("paused"):
        return f"deployment/{name} is paused: it would not roll (kubectl rollout resume deployment/{name})"
    wanted = _int(_dict(deployment, "spec"), "replicas", 1)
    if wanted == 0:
        return f"deployment/{name} is scaled to 0"
    now = status(deployment)
    if now.failed:
        return f"the last rollout of deployment/{name} got stuck: {now.message}"
    if not now.done:
        return f"a rollout of deployment/{name} is under way: {now.message}"
    ready = _int(_dict(deployment, "status"), "readyReplicas")
    if ready < wanted:
        return f"deployment/{name} is short of ready pods: {ready} of {wanted}"
    leaving = [_name(pod) for pod in pods if is_terminating(pod)]
    if leaving:
        shown = ", ".join(sorted(leaving)[:3]) + (", …" if len(leaving) > 3 else "")
        return f"pods of deployment/{name} still terminate: {shown}"
    return None


def is_terminating(pod: Object) -> bool:
    """Whether a pod was deleted and still runs, or may. Pods that ended before (evicted ones stay as objects) do not count."""
    return bool(_dict(pod, "metadata").get("deletionTimestamp")) and not has_ended(pod)


def has_ended(pod: Object) -> bool:
    """Whether a pod is in a terminal phase. Source: "Pod Lifecycle", pod phase."""
    return _dict(pod, "status").get("phase") in {"Succeeded", "Failed"}


def revision(deployment: Object) -> int | None:
    """The number that `kubectl rollout undo --to-revision` takes; None while it has none, or an unseen newer spec."""
    if not observed(deployment):
        return None
    text = str(_dict(_dict(deployment, "metadata"), "annotations").get(REVISION, ""))
    return int(text) if text.isdecimal() else None


def new_replicaset(deployment: Object, replicasets: Iterable[Object]) -> Object | None:
    """The ReplicaSet that the newest template belongs to; None until the controller has seen that template.

    Source: `pkg/controller/deployment/sync.go`, getNewReplicaSet: it writes the new ReplicaSet's revision to both before
    the status of that sync carries the new observedGeneration.
    """
    number = revision(deployment)
    if number is None:
        return None
    uid = _dict(deployment, "metadata").get("uid")
    mine = [
        candidate
        for candidate in replicasets
        if owner_uid(candidate) == uid
        and str(_dict(_dict(candidate, "metadata"), "annotations").get(REVISION, "")) == str(number)
    ]
    return max(mine, key=lambda found: str(_dict(found, "metadata").get("creationTimestamp", "")), default=None)


def template_hash(obj: Object | None) -> str:
    """The `pod-template-hash` label of a ReplicaSet or pod; "" where it has none."""
    return str(_dict(_dict(obj or {}, "metadata"), "labels").get(TEMPLATE_HASH, ""))


def split_pods(pods: Iterable[Object], new: Object | None) -> tuple[list[Object], list[Object]]:
    """(old, new) pods by the new ReplicaSet; without one all are old. Pods with neither owner nor hash are old too."""
    old: list[Object] = []
    fresh: list[Object] = []
    uid, wanted = (_dict(new, "metadata").get("uid") if new else None), template_hash(new)
    for pod in pods:
        owner = owner_uid(pod)
        mine = owner == uid if owner and uid else bool(wanted) and template_hash(pod) == wanted
        (fresh if mine else old).append(pod)
    return old, fresh


def owner_uid(obj: Object) -> str | None:
    """The uid of an object's controller, or None."""
    for owner in _dict(obj, "metadata").get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner.get("uid"))
    return None


def selector_query(deployment: Object) -> str:
    """A Deployment's `spec.selector` as the API's `labelSelector` parameter.

    Source: "Labels and Selectors": `key=value`, `key in (a,b)`, `key notin (a,b)`, `key`, `!key`, joined by commas.
    """
    selector = _dict(_dict(deployment, "spec"), "selector")
    parts = [f"{key}={value}" for key, value in sorted(_dict(selector, "matchLabels").items())]
    for need in selector.get("matchExpressions") or ():
        key, values = need.get("key"), ",".join(need.get("values") or ())
        match need.get("operator"):
            case "In":
                parts.append(f"{key} in ({values})")
            case "NotIn":
                parts.append(f"{key} notin ({values})")
            case "Exists":
                parts.append(f"{key}")
            case "DoesNotExist":
                parts.append(f"!{key}")
            case _:
                pass  # the API server accepts no other
    return ",".join(parts)


def rollout_timeout_s(deployment: Object) -> int:
    """How long a rollout may take before it counts as stuck: progressDeadlineSeconds + grace + 60 s (`contract.md`).

    The defaults are the API's own, 600 s and 30 s; kubectl never sets them, the API server does.
    """
    spec = _dict(deployment, "spec")
    grace = _int(_dict(_dict(spec, "template"), "spec"), "terminationGracePeriodSeconds", 30)
    return _int(spec, "progressDeadlineSeconds", 600) + grace + 60


def _condition(obj: Object, kind: str) -> Object:
    for condition in _dict(obj, "status").get("conditions") or ():
        if condition.get("type") == kind:
            return condition  # type: ignore[no-any-return]  # JSON
    return {}


def _name(obj: Object) -> str:
    return str(_dict(obj, "metadata").get("name", ""))


def _dict(obj: Object, key: str) -> Object:
    value = obj.get(key)
    return value if isinstance(value, Mapping) else {}


def _int(obj: Object, key: str, default: int = 0) -> int:
    value = obj.get(key)
    return value if isinstance(value, int) else default
