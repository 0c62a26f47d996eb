"""From sightings to lives: when each pod was ready, deleted, out of the slice, ended and gone.

Every time here is an *arrival* at our watch: late by the watch's latency (3 to 67 ms on an idle cluster), never early. The
stamps inside the objects have one second of resolution and another machine's clock, so nothing is ordered by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from loadtest.analyze.slices import Slices
from loadtest.model import Resource, Seen, Sighting, Step

_SLEEP = re.compile(r"(?:^|[\s;&|/])sleep\s+(\d+(?:\.\d+)?)(s|m)?\b")
_ONLY_SLEEP = re.compile(r"exec (?:(?:/bin/)?(?:sh|ash|bash|dash) -c )?(?:(?:/usr)?/bin/)?sleep \d+(?:\.\d+)?[sm]?")


@dataclass(slots=True, kw_only=True)
class PodLife:
    """One pod as the watch saw it; times in ns since the run's start, None where a moment was not seen.

    Attributes:
        revision: "old" or "new".
        listed: it was there when the run began.
        ready: Ready was first seen true.
        not_ready: its slice entry lost `ready` for the last time; `removed`: it left the slices.
        terminating_ready: it was ready in the slice when its deletion was seen.
        ended: its container's last end; a container that came back is in `downs`.
        downs: ends nobody asked for, each with the moment at which it ran again.
        blind: nobody saw the begin of its deletion (a gap, or a forced one): when it ended is not known.
        disrupted: its deletion was an eviction, a drain or a preemption (condition DisruptionTarget).
        wait_s: seconds that preStop waits, as far as the spec tells; None: it has no preStop, or an unknown one.
        sleeps: preStop does nothing but wait, so that the app goes on as before.
        prestop: preStop in words, or ""; `prestop_failed`: an Event said so.
        container: the name of the one that is looked at; `exit_code` and `reason` are of its last end in this run.
    """

    name: str
    uid: str
    template_hash: str
    owner: str = ""
    revision: str = "old"
    address: str = ""
    node: str = ""
    listed: bool = False
    first_seen: int = 0
    created: int | None = None
    started: int | None = None
    ready: int | None = None
    deletion: int | None = None
    in_slice: int | None = None
    not_ready: int | None = None
    removed: int | None = None
    ended: int | None = None
    gone: int | None = None
    vanished: bool = False
    blind: bool = False
    disrupted: bool = False
    downs: list[tuple[int, int]] = field(default_factory=list)
    terminating_ready: bool = False
    exit_code: int | None = None
    reason: str = ""
    finished_at: str = ""
    restarts: int = 0
    restarts_before: int | None = None
    grace_s: int | None = None
    deletion_grace_s: int | None = None
    wait_s: float | None = None
    sleeps: bool = False
    prestop: str = ""
    prestop_failed: bool = False
    has_readiness_probe: bool = False
    container: str = ""

    @property
    def waited(self) -> bool:
        """It stayed for as long as its preStop says, as far as can be seen (stamps and arrivals have a second in them)."""
        if self.wait_s is None or self.deletion is None or self.ended is None or self.prestop_failed:
            return False
        return self.ended - self.deletion >= (self.wait_s - 1.0) * 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What the watch told about the target.

    Attributes:
        pods: by uid, in the order in which they were first seen.
        ready_steps: number of endpoints that the slices call ready, from each moment (seconds) on.
        serving_steps: the same for endpoints that are ready, or serving and terminating.
        rolled: a ReplicaSet of a higher revision than before the trigger came to be.
        replicas: `spec.replicas` of the Deployment; None: never seen.
        container: name of the first container of the template.
    """

    pods: Mapping[str, PodLife]
    ready_steps: tuple[Step, ...]
    serving_steps: tuple[Step, ...]
    rolled: bool
    replicas: int | None
    container: str
    deployment: Mapping[str, Any]

    @property
    def old(self) -> tuple[PodLife, ...]:
        """Pods of an earlier revision, by deletion."""
        found = [pod for pod in self.pods.values() if pod.revision == "old"]
        return tuple(sorted(found, key=lambda pod: (pod.deletion is None, pod.deletion or 0, pod.name)))

    @property
    def by_name(self) -> dict[str, PodLife]:
        """Pods by name; a name seen twice keeps the later pod."""
        return {pod.name: pod for pod in self.pods.values()}


_ReplicaSet = tuple[int, str, str]  # revision, template hash, owner


def view(seen: Iterable[Seen], trigger_at: int | None) -> ClusterView:
    """Walks the sightings in order of arrival.

    Args:
        seen: in order of arrival.
        trigger_at: when the trigger was about to be sent; None: it never was.
    """
    pods: dict[str, PodLife] = {}
    slices = Slices()
    replica_sets: dict[str, _ReplicaSet] = {}
    before: dict[str, _ReplicaSet] = {}
    deployment: Mapping[str, Any] = {}
    failed_hooks: set[str] = set()
    for sighting in seen:
        match sighting.resource:
            case Resource.PODS:
                _apply_pod(pods, sighting)
            case Resource.ENDPOINTSLICES:
                slices.apply(sighting)
            case Resource.REPLICASETS:
                replica_sets[sighting.uid] = (
                    _revision(sighting.object),
                    _template_hash(sighting.object),
                    _owner(sighting.object),
                )
                if trigger_at is None or sighting.seen <= trigger_at:
                    before[sighting.uid] = replica_sets[sighting.uid]
            case Resource.DEPLOYMENTS:
                deployment = sighting.object
            case Resource.EVENTS:
                if sighting.object.get("reason") == "FailedPreStopHook":
                    failed_hooks.add(str((sighting.object.get("involvedObject") or {}).get("uid", "")))
            case _:
                pass
    name = str((deployment.get("metadata") or {}).get("name", ""))
    newest, new_hash = _newest(replica_sets, name)
    rolled = trigger_at is not None and newest > _newest(before, name)[0] >= 0
    for pod in pods.values():
        listing = slices.tell(pod.uid, pod.deletion)
        pod.in_slice, pod.not_ready, pod.removed = listing.first, listing.not_ready, listing.removed
        # Where no slice was watched (no Service was named), the pod's own readiness stands for it.
        pod.terminating_ready = listing.terminating_ready or (
            not slices.ready_steps and pod.deletion is not None and pod.ready is not None
        )
        pod.prestop_failed = pod.uid in failed_hooks
        # A rollback gives an old template a new revision: its pods of before the trigger stay old.
        is_new = rolled and pod.template_hash == new_hash and trigger_at is not None and pod.first_seen > trigger_at
        pod.revision = "new" if is_new else "old"
    spec = deployment.get("spec") or {}
    containers = (((spec.get("template") or {}).get("spec")) or {}).get("containers") or [{}]
    return ClusterView(
        pods=pods,
        ready_steps=tuple(slices.ready_steps),
        serving_steps=tuple(slices.serving_steps),
        rolled=rolled,
        replicas=spec.get("replicas"),
        container=str(containers[0].get("name", "app")),
        deployment=deployment,
    )


def _newest(replica_sets: Mapping[str, _ReplicaSet], deployment: str) -> tuple[int, str]:
    """Highest revision and its hash. A selector may match another Deployment's ReplicaSets (a canary's): they do not count."""
    own = ((revision, found) for revision, found, owner in replica_sets.values() if not deployment or owner in {"", deployment})
    return max(own, default=(-1, ""))


def _owner(thing: Mapping[str, Any]) -> str:
    owners = (thing.get("metadata") or {}).get("ownerReferences") or [{}]
    return str(owners[0].get("name", ""))


def _revision(replica_set: Mapping[str, Any]) -> int:
    """`deployment.kubernetes.io/revision`, or -1."""
    text = ((replica_set.get("metadata") or {}).get("annotations") or {}).get("deployment.kubernetes.io/revision", "")
    return int(text) if str(text).isdigit() else -1


def _template_hash(thing: Mapping[str, Any]) -> str:
    return str(((thing.get("metadata") or {}).get("labels") or {}).get("pod-template-hash", ""))


def _apply_pod(pods: dict[str, PodLife], seen: Seen) -> None:
    metadata = seen.object.get("metadata") or {}
    pod = pods.get(seen.uid)
    if pod is None:
        pod = pods[seen.uid] = PodLife(name=seen.name, uid=seen.uid, template_hash=_template_hash(seen.object))
        pod.first_seen = seen.seen
        pod.listed = seen.sighting is Sighting.LISTED
        pod.created = None if pod.listed else seen.seen
        _apply_spec(pod, seen.object)
        pod.owner = _owner(seen.object)
    leaves = seen.sighting in (Sighting.VANISHED, Sighting.DELETED)
    if pod.deletion is None and (leaves or metadata.get("deletionTimestamp")):
        # Only the first such event tells the grace: the kubelet's last delete rewrites both fields
        # (apiserver pkg/registry/rest/delete.go).
        pod.deletion = seen.seen
        pod.deletion_grace_s = metadata.get("deletionGracePeriodSeconds")
        pod.blind = leaves or seen.sighting is Sighting.LISTED
        if pod.ended is None:
            pod.exit_code, pod.reason, pod.finished_at = None, "", ""  # an earlier end's
    if seen.sighting is not Sighting.VANISHED:
        _apply_status(pod, seen)
    if leaves:
        pod.gone, pod.vanished = seen.seen, seen.sighting is Sighting.VANISHED


def _apply_spec(pod: PodLife, obj: Mapping[str, Any]) -> None:
    spec = obj.get("spec") or {}
    pod.grace_s = spec.get("terminationGracePeriodSeconds")
    containers = spec.get("containers") or [{}]
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    named = annotations.get("kubectl.kubernetes.io/default-container")
    container = next((one for one in containers if one.get("name") == named), containers[0])
    pod.container = str(container.get("name", ""))
    pod.has_readiness_probe = bool(container.get("readinessProbe"))
    hook = (container.get("lifecycle") or {}).get("preStop") or {}
    pod.prestop, pod.wait_s = prestop_in_words(hook)
    pod.sleeps = "sleep" in hook or bool(_ONLY_SLEEP.fullmatch(pod.prestop))


def prestop_in_words(hook: Mapping[str, Any]) -> tuple[str, float | None]:
    """What a preStop hook does, and for how many seconds it waits (None: unknown, or there is none)."""
    if "sleep" in hook:
        seconds = float((hook["sleep"] or {}).get("seconds", 0))
        return f"sleep {seconds:g} s", seconds
    if "exec" in hook:
        command = " ".join(str(word) for word in (hook["exec"] or {}).get("command") or ())
        found = _SLEEP.findall(command)
        # Of several sleeps it is not known which are slept.
        seconds_found = float(found[0][0]) * (60 if found[0][1] == "m" else 1) if len(found) == 1 else None
        return f"exec {command[:120]}", seconds_found
    if "httpGet" in hook:
        return f"httpGet {(hook['httpGet'] or {}).get('path', '/')}", None
    return "", None


def _apply_status(pod: PodLife, seen: Seen) -> None:
    status = seen.object.get("status") or {}
    pod.address = str(status.get("podIP") or pod.address)
    pod.node = str((seen.object.get("spec") or {}).get("nodeName") or pod.node)
    true = {c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"}
    pod.disrupted = pod.disrupted or "DisruptionTarget" in true
    if "Ready" in true and pod.ready is None:
        pod.ready = seen.seen
    containers = status.get("containerStatuses") or ()
    if not containers:
        return
    # The kubelet lists statuses by name, the spec in its own order.
    own = next((one for one in containers if one.get("name") == pod.container), containers[0])
    pod.restarts = max((int(c.get("restartCount") or 0) for c in containers), default=0)
    _apply_container(pod, own, seen.seen)


def _apply_container(pod: PodLife, own: Mapping[str, Any], at: int) -> None:
    """A container's state. A restart shows as its end seen, as a higher count, or as both."""
    state = own.get("state") or {}
    count = int(own.get("restartCount") or 0)
    again = pod.restarts_before is not None and count > pod.restarts_before
    pod.restarts_before = count
    if "running" in state and pod.started is None:
        pod.started = at
    if "terminated" in state:
        pod.ended = pod.ended if pod.ended is not None else at
        _apply_end(pod, state["terminated"] or {})
        return
    if pod.deletion is not None:
        return
    if again:
        _apply_end(pod, (own.get("lastState") or {}).get("terminated") or {})
        pod.ended = pod.ended if pod.ended is not None else at
    if "running" in state and pod.ended is not None:
        pod.downs.append((pod.ended, at))
        pod.ended = None


def _apply_end(pod: PodLife, terminated: Mapping[str, Any]) -> None:
    code = terminated.get("exitCode")
    pod.exit_code = int(code) if code is not None else None
    pod.reason = str(terminated.get("reason") or "")
    pod.finished_at = str(terminated.get("finishedAt") or "")
