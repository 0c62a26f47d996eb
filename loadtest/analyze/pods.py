"""From sightings to lives: when each pod was ready, deleted, out of the slice, ended and gone.

Every time here is an *arrival* at our watch: late by the watch's latency (3 to 67 ms on an idle cluster), never early. The
stamps inside the objects have one second of resolution and another machine's clock, so nothing is ordered by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from loadtest.model import Resource, Seen, Sighting, Step

_SLEEP = re.compile(r"(?:^|[\s;&|/])sleep\s+(\d+(?:\.\d+)?)(s|m)?\b")


@dataclass(slots=True, kw_only=True)
class PodLife:
    """One pod as the watch saw it; times in ns since the run's start, None where a moment was not seen.

    Attributes:
        revision: "old" or "new".
        listed: it was there when the run began.
        ready: Ready was first seen true.
        not_ready: its slice entry lost `ready` for the last time; `removed`: it left the slices.
        terminating_ready: it was ready in the slice when its deletion was seen.
        wait_s: seconds that preStop waits, as far as the spec tells; None: it has no preStop, or an unknown one.
        prestop: preStop in words, or "".
    """

    name: str
    uid: str
    template_hash: str
    owner: str = ""
    revision: str = "old"
    address: str = ""
    node: str = ""
    listed: bool = False
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
    terminating_ready: bool = False
    exit_code: int | None = None
    reason: str = ""
    finished_at: str = ""
    restarts: int = 0
    grace_s: int | None = None
    deletion_grace_s: int | None = None
    wait_s: float | None = None
    prestop: str = ""
    has_readiness_probe: bool = False


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


_Conditions = tuple[bool, bool, bool]  # ready, serving, terminating


@dataclass(slots=True)
class _Slices:
    """The endpoints of all slices of the Service, merged by the pod they point at.

    The history is kept apart from the pods: which of two lists arrives first at the begin of a run is chance.
    """

    slices: dict[str, dict[str, _Conditions]] = field(default_factory=dict)
    history: dict[str, list[tuple[int, _Conditions | None]]] = field(default_factory=dict)
    ready_steps: list[Step] = field(default_factory=list)
    serving_steps: list[Step] = field(default_factory=list)

    def apply(self, seen: Seen) -> None:
        """Takes a slice's new state over."""
        before = self.merged()
        if seen.sighting in (Sighting.DELETED, Sighting.VANISHED):
            self.slices.pop(seen.name, None)
        else:
            self.slices[seen.name] = dict(_endpoints(seen.object))
        after = self.merged()
        for uid in before.keys() | after.keys():
            if before.get(uid) != after.get(uid):
                self.history.setdefault(uid, []).append((seen.seen, after.get(uid)))
        at = seen.seen / 1e9
        _step(self.ready_steps, at, sum(1 for ready, _, _ in after.values() if ready))
        serving = sum(1 for ready, serves, terminates in after.values() if ready or (serves and terminates))
        _step(self.serving_steps, at, serving)

    def merged(self) -> dict[str, _Conditions]:
        """Pod uid to its conditions."""
        found: dict[str, _Conditions] = {}
        for endpoints in self.slices.values():
            found.update(endpoints)
        return found

    def tell(self, pod: PodLife) -> None:
        """Fills in what the slices said of one pod."""
        was_ready = False
        for at, state in self.history.get(pod.uid, ()):
            before_deletion = pod.deletion is None or at <= pod.deletion
            if state is not None:
                pod.in_slice = pod.in_slice if pod.in_slice is not None else at
            pod.removed = at if state is None else None
            is_ready = state is not None and state[0]
            if is_ready:
                pod.not_ready = None
            elif was_ready or pod.not_ready is None:
                pod.not_ready = at
            was_ready = is_ready
            if before_deletion:
                pod.terminating_ready = pod.deletion is not None and is_ready


def _endpoints(slice_object: Mapping[str, Any]) -> Iterable[tuple[str, _Conditions]]:
    """(pod uid, (ready, serving, terminating)) of a slice.

    A condition that is null counts as true for ready and serving, as false for terminating (kubernetes/api
    discovery/v1 types.go, EndpointConditions).
    """
    for endpoint in slice_object.get("endpoints") or ():
        uid = (endpoint.get("targetRef") or {}).get("uid", "")
        conditions = endpoint.get("conditions") or {}
        ready = conditions.get("ready") is not False
        serving = ready if conditions.get("serving") is None else bool(conditions["serving"])
        yield uid, (ready, serving, bool(conditions.get("terminating")))


def _step(steps: list[Step], at: float, value: int) -> None:
    if not steps or steps[-1].value != value:
        steps.append(Step(at=at, value=value))


def view(seen: Iterable[Seen], trigger_at: int | None) -> ClusterView:
    """Walks the sightings in order of arrival.

    Args:
        seen: in order of arrival.
        trigger_at: when the trigger was about to be sent; None: it never was.
    """
    pods: dict[str, PodLife] = {}
    slices = _Slices()
    replica_sets: dict[str, tuple[int, str]] = {}
    before_trigger = -1
    deployment: Mapping[str, Any] = {}
    for sighting in seen:
        match sighting.resource:
            case Resource.PODS:
                _apply_pod(pods, sighting)
            case Resource.ENDPOINTSLICES:
                slices.apply(sighting)
            case Resource.REPLICASETS:
                replica_sets[sighting.uid] = (_revision(sighting.object), _template_hash(sighting.object))
                if trigger_at is None or sighting.seen <= trigger_at:
                    before_trigger = max(before_trigger, replica_sets[sighting.uid][0])
            case Resource.DEPLOYMENTS:
                deployment = sighting.object
            case _:
                pass
    newest, new_hash = max(replica_sets.values(), default=(-1, ""))
    rolled = trigger_at is not None and newest > before_trigger >= 0
    for pod in pods.values():
        slices.tell(pod)
        pod.revision = "new" if rolled and pod.template_hash == new_hash else "old"
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
        pod.listed = seen.sighting is Sighting.LISTED
        pod.created = None if pod.listed else seen.seen
        _apply_spec(pod, seen.object.get("spec") or {})
        owners = metadata.get("ownerReferences") or [{}]
        pod.owner = str(owners[0].get("name", ""))
    if seen.sighting is Sighting.VANISHED:
        pod.gone, pod.vanished = seen.seen, True
        pod.deletion = pod.deletion if pod.deletion is not None else seen.seen
        return
    if metadata.get("deletionTimestamp") and pod.deletion is None:
        # Only the first such event tells the grace: the kubelet's last delete rewrites both fields
        # (apiserver pkg/registry/rest/delete.go).
        pod.deletion = seen.seen
        pod.deletion_grace_s = metadata.get("deletionGracePeriodSeconds")
    _apply_status(pod, seen)
    if seen.sighting is Sighting.DELETED:
        pod.gone = seen.seen
        pod.deletion = pod.deletion if pod.deletion is not None else seen.seen


def _apply_spec(pod: PodLife, spec: Mapping[str, Any]) -> None:
    pod.grace_s = spec.get("terminationGracePeriodSeconds")
    container = (spec.get("containers") or [{}])[0]
    pod.has_readiness_probe = bool(container.get("readinessProbe"))
    hook = (container.get("lifecycle") or {}).get("preStop") or {}
    pod.prestop, pod.wait_s = prestop_in_words(hook)


def prestop_in_words(hook: Mapping[str, Any]) -> tuple[str, float | None]:
    """What a preStop hook does, and for how many seconds it waits (None: unknown, or there is none)."""
    if "sleep" in hook:
        seconds = float((hook["sleep"] or {}).get("seconds", 0))
        return f"sleep {seconds:g} s", seconds
    if "exec" in hook:
        command = " ".join(str(word) for word in (hook["exec"] or {}).get("command") or ())
        found = _SLEEP.search(command)
        seconds_found = float(found[1]) * (60 if found[2] == "m" else 1) if found else None
        return f"exec {command[:120]}", seconds_found
    if "httpGet" in hook:
        return f"httpGet {(hook['httpGet'] or {}).get('path', '/')}", None
    return "", None


def _apply_status(pod: PodLife, seen: Seen) -> None:
    status = seen.object.get("status") or {}
    pod.address = str(status.get("podIP") or pod.address)
    pod.node = str((seen.object.get("spec") or {}).get("nodeName") or pod.node)
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())
    if ready and pod.ready is None:
        pod.ready = seen.seen
    containers = status.get("containerStatuses") or ()
    if not containers:
        return
    first = containers[0]
    pod.restarts = max((int(c.get("restartCount") or 0) for c in containers), default=0)
    state = first.get("state") or {}
    if "running" in state and pod.started is None:
        pod.started = seen.seen
    if "terminated" in state:
        if pod.ended is None:
            pod.ended = seen.seen
        _apply_end(pod, state["terminated"] or {})
    elif (first.get("lastState") or {}).get("terminated"):
        _apply_end(pod, first["lastState"]["terminated"])


def _apply_end(pod: PodLife, terminated: Mapping[str, Any]) -> None:
    code = terminated.get("exitCode")
    pod.exit_code = int(code) if code is not None else None
    pod.reason = str(terminated.get("reason") or "")
    pod.finished_at = str(terminated.get("finishedAt") or "")
