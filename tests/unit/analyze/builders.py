"""Small runs, made by hand: pods' lives as sightings, requests as packed columns. Times are seconds since the run's start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loadtest.columns import ABSENT, CLOSED_BY, CONNECTION_COLUMNS, REQUEST_COLUMNS, Block, empty
from loadtest.model import (
    FAILURE_KINDS,
    Failure,
    FailureKind,
    Lane,
    LoadEnd,
    Mark,
    Resource,
    RunInfo,
    Seen,
    Sighting,
    StoredRun,
    Target,
)

HEALTHY_WAIT = {"exec": {"command": ["sleep", "5"]}}
TRIGGER, END = 5.0, 17.0


def ns(at: float) -> int:
    return round(at * 1e9)


def seen(at: float, resource: Resource, obj: Mapping[str, Any], sighting: Sighting = Sighting.MODIFIED) -> Seen:
    return Seen(seen=ns(at), resource=resource, sighting=sighting, object=obj)


@dataclass(kw_only=True)
class Pod:
    """A pod's life as a script. `deleted`, `ended`, `gone`: when the watch brings it; None: never.

    `ready_from`: in the slice as ready; None: from the begin. `unready`: when its entry loses `ready` (default: 20 ms after
    its deletion). `removed`: it leaves the slice (default: 200 ms after its end).
    """

    name: str
    hash: str = "old"
    born: float = 0.0
    ready_from: float | None = None
    deleted: float | None = None
    unready: float | None = None
    ended: float | None = None
    removed: float | None = None
    gone: float | None = None
    exit_code: int = 0
    reason: str = "Completed"
    prestop: Mapping[str, Any] | None = field(default_factory=lambda: HEALTHY_WAIT)
    probe: bool = True
    grace: int = 30
    conditions: tuple[str, ...] = ()

    def object(
        self,
        *,
        terminating: bool = False,
        state: Mapping[str, Any] | None = None,
        ready: bool = True,
        restarts: int = 0,
        last: Any = None,
    ) -> dict[str, Any]:
        container: dict[str, Any] = {"name": "app", "image": "x"}
        if self.prestop:
            container["lifecycle"] = {"preStop": self.prestop}
        if self.probe:
            container["readinessProbe"] = {"httpGet": {"path": "/"}}
        metadata: dict[str, Any] = {"name": self.name, "uid": self.name, "labels": {"pod-template-hash": self.hash}}
        if terminating:
            metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": self.grace}
        status = {
            "podIP": f"10.0.0.{sum(map(ord, self.name)) % 200}",
            "conditions": [
                {"type": "Ready", "status": str(ready)},
                *({"type": one, "status": "True"} for one in self.conditions),
            ],
            "containerStatuses": [
                {
                    "name": "app",
                    "restartCount": restarts,
                    "state": state or {"running": {}},
                    "lastState": {"terminated": last} if last else {},
                }
            ],
        }
        return {
            "metadata": metadata,
            "spec": {"containers": [container], "terminationGracePeriodSeconds": self.grace, "nodeName": "n"},
            "status": status,
        }

    def end(self) -> dict[str, Any]:
        return {"exitCode": self.exit_code, "reason": self.reason, "finishedAt": "2026-01-01T00:00:00Z"}

    def sightings(self) -> list[Seen]:
        first = Sighting.LISTED if self.born <= 0 else Sighting.ADDED
        found = [seen(self.born, Resource.PODS, self.object(ready=self.born <= 0), first)]
        if self.born > 0 and self.ready_from is not None:
            found.append(seen(self.ready_from, Resource.PODS, self.object()))
        if self.deleted is not None:
            found.append(seen(self.deleted, Resource.PODS, self.object(terminating=True)))
        if self.ended is not None:
            obj = self.object(terminating=self.deleted is not None, state={"terminated": self.end()}, ready=False)
            found.append(seen(self.ended, Resource.PODS, obj))
        if self.gone is not None:
            obj = self.object(terminating=True, state={"terminated": self.end()} if self.ended else None, ready=False)
            found.append(seen(self.gone, Resource.PODS, obj, Sighting.DELETED))
        return found

    def steps(self) -> list[tuple[float, Mapping[str, Any] | None]]:
        """When its slice entry changes, and into what."""
        entry = {"targetRef": {"uid": self.name}, "addresses": ["10.0.0.1"]}
        born = self.born if self.ready_from is None else self.ready_from
        found: list[tuple[float, Mapping[str, Any] | None]] = [
            (born, {**entry, "conditions": {"ready": True, "serving": True, "terminating": False}})
        ]
        unready = self.unready if self.unready is not None else (self.deleted + 0.02 if self.deleted is not None else None)
        if unready is not None:
            serving = {"ready": False, "serving": True, "terminating": self.deleted is not None}
            found.append((unready, {**entry, "conditions": serving}))
        removed = self.removed if self.removed is not None else (self.ended + 0.2 if self.ended is not None else None)
        if removed is not None:
            found.append((removed, None))
        return found


def slices(pods: Sequence[Pod]) -> list[Seen]:
    moments = sorted((at, number, pod.name, entry) for number, pod in enumerate(pods) for at, entry in pod.steps())
    now: dict[str, Mapping[str, Any]] = {}
    found = []
    for at, _, name, entry in sorted(moments, key=lambda moment: moment[:3]):
        if entry is None:
            now.pop(name, None)
        else:
            now[name] = entry
        obj = {"metadata": {"name": "web-1", "uid": "slice"}, "endpoints": list(now.values())}
        found.append(seen(at, Resource.ENDPOINTSLICES, obj, Sighting.LISTED if at <= 0 else Sighting.MODIFIED))
    return found


def replica_set(hash_: str, revision: int, owner: str = "web") -> dict[str, Any]:
    metadata = {
        "name": f"{owner}-{hash_}",
        "uid": f"rs-{owner}-{hash_}",
        "labels": {"pod-template-hash": hash_},
        "annotations": {"deployment.kubernetes.io/revision": str(revision)},
        "ownerReferences": [{"kind": "Deployment", "name": owner}],
    }
    return {"metadata": metadata}


def deployment(replicas: int = 2) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "app"}]}}
    return {"metadata": {"name": "web", "uid": "d"}, "spec": {"replicas": replicas, "template": template}}


def cluster(pods: Sequence[Pod], *more: Seen, rolled: bool = True, replicas: int = 2) -> tuple[Seen, ...]:
    """The sightings of a rollout from the template `old` to `new`, in order of arrival."""
    found = [
        seen(0, Resource.DEPLOYMENTS, deployment(replicas), Sighting.LISTED),
        seen(0, Resource.REPLICASETS, replica_set("old", 1), Sighting.LISTED),
        *more,
        *slices(pods),
        *(one for pod in pods for one in pod.sightings()),
    ]
    if rolled:
        found.append(seen(TRIGGER + 0.03, Resource.REPLICASETS, replica_set("new", 2), Sighting.ADDED))
    return tuple(sorted(found, key=lambda one: one.seen))


def old_pods(**changes: Any) -> list[Pod]:
    """a and b: deleted at 6 and 7 s, waiting 5 s."""
    return [
        Pod(name="a", **{"deleted": 6.0, "ended": 11.1, "gone": 11.4, **changes}),
        Pod(
            name="b",
            **{
                "deleted": 7.0,
                "ended": 12.1,
                "gone": 12.4,
                **{k: v + 1 for k, v in changes.items() if _is_time(k, v)},
                **_rest(changes),
            },
        ),
    ]


def _is_time(name: str, value: Any) -> bool:
    return name in {"deleted", "ended", "gone", "unready", "removed"} and value is not None


def _rest(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if not _is_time(name, value)}


def new_pods(**changes: Any) -> list[Pod]:
    return [
        Pod(name="c", hash="new", born=5.1, ready_from=5.98, **changes),
        Pod(name="d", hash="new", born=6.1, ready_from=6.98, **changes),
    ]


@dataclass
class Traffic:
    """Requests of one worker, in any order; sorted by when they were due."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    failures: list[tuple[dict[str, Any], Failure]] = field(default_factory=list)
    kept: list[tuple[str, float, float | None]] = field(default_factory=list)  # pod, opened, closed
    closed_by: str = "us"

    def add(
        self,
        at: float,
        *,
        pod: str = "",
        kind: FailureKind | None = None,
        lane: Lane = Lane.NEW,
        took: float = 0.005,
        before: int | None = None,
        connected: bool | None = None,
        connect: float | None = None,
        port: int = 0,
        status: int = 200,
        first_byte: bool | None = None,
        on: str = "",
        late: float = 0.0,
    ) -> dict[str, Any]:
        """A request due at `at`. `pod`: its answer names it; `on`: earlier answers on its connection did."""
        before = (0 if lane is Lane.NEW else 1) if before is None else before
        setup = kind in {FailureKind.CONNECT_REFUSED, FailureKind.CONNECT_TIMEOUT, FailureKind.UNREACHABLE, FailureKind.DNS}
        connected = not setup if connected is None else connected
        answered = (kind is None or bool(pod)) if first_byte is None else first_byte
        if connect is None:
            connect = (took if setup else 0.001) if before == 0 else None
        started = at + late
        row = {
            "due": ns(at),
            "started": ns(started),
            "written": ns(started + min(connect or 0.0, took)) if connected else ABSENT,
            "first_byte": ns(started + took) if answered else ABSENT,
            "ended": ns(started + took),
            "connect": ABSENT if connect is None else ns(connect),
            "size": 2,
            "connection": 0,
            "answers_before": before,
            "port": port,
            "status": status if answered else 0,
            "pod": pod,
            "lane": int(lane),
            "kind": 0 if kind is None else 1 + FAILURE_KINDS.index(kind),
        }
        self.rows.append(row)
        if kind is not None:
            self.failures.append((row, Failure(worker=0, seq=-1, kind=kind, answers_before=before, connection_pod=on)))
        return row

    def steady(self, pods: Callable[[float], Sequence[str]], begin: float = 0.0, end: float = END, qps: int = 20) -> Traffic:
        """Both lanes, answered in turn by the pods that `pods` gives for a moment. Nobody there: nothing is sent."""
        for number in range(round((end - begin) * qps)):
            at = begin + number / qps
            names = pods(at)
            if names:
                self.add(at, pod=names[number // 2 % len(names)], lane=Lane(number % 2))
        return self

    def blocks(self, worker: int = 0) -> tuple[Block, Block, dict[tuple[int, int], str], tuple[Failure, ...]]:
        columns, names = empty(REQUEST_COLUMNS), {"": 0}
        self.rows.sort(key=lambda row: row["due"])
        for seq, row in enumerate(self.rows):
            row["seq"] = seq
            for name, value in row.items():
                columns[name].append(names.setdefault(value, len(names)) if name == "pod" else value)
        connections = empty(CONNECTION_COLUMNS)
        for number, (pod, opened, closed) in enumerate(self.kept, 1):
            end, by = (ABSENT, "open") if closed is None else (ns(closed), self.closed_by)
            index = names.setdefault(pod, len(names))
            values = (number, ns(opened), end, 5, 0, index, 1, CLOSED_BY.index(by))
            for (name, _), value in zip(CONNECTION_COLUMNS, values, strict=True):
                connections[name].append(value)
        failures = tuple(replace(failure, seq=row["seq"]) for row, failure in self.failures)
        pod_names = {(worker, number): name for name, number in names.items() if name}
        return Block(worker=worker, columns=columns), Block(worker=worker, columns=connections), pod_names, failures


def info(**changes: Any) -> RunInfo:
    values: dict[str, Any] = {
        "run_id": "r",
        "tool_version": "0",
        "started_wall_ns": 1_796_074_660_000_000_000,
        "name": "made",
        "scenario": {"qps": 20, "lanes": ["new", "reused"], "timeout_s": 5.0, "method": "GET"},
        "target": target(),
        "trigger": "restart",
        "trigger_detail": "",
        "cluster": {"server_version": "v1.36.3"},
    }
    return RunInfo(**{**values, **changes})


def target(**changes: Any) -> Target:
    values: dict[str, Any] = {
        "namespace": "default",
        "deployment": "web",
        "service": "web",
        "selector": "app=web",
        "url": "http://10.0.0.9:30000/",
        "path_from": "node-port",
    }
    return Target(**{**values, **changes})


def marks(*without: str, **at: float) -> tuple[Mark, ...]:
    found = {
        "warmup": 0.0,
        "baseline": 1.0,
        "rollout": TRIGGER,
        "trigger": TRIGGER,
        "trigger-sent": TRIGGER + 0.01,
        "completed": 7.5,
        "old-pods-gone": 12.4,
        "settle": 12.4,
        "stop": END,
        "end": END + 0.1,
        **{name.replace("_", "-"): value for name, value in at.items()},
    }
    return tuple(Mark(name=name, at=ns(value)) for name, value in found.items() if name not in without)


def run(traffic: Traffic, sightings: Sequence[Seen], **changes: Any) -> StoredRun:
    requests, connections, pod_names, failures = traffic.blocks()
    count = len(requests)
    values: dict[str, Any] = {
        "info": info(),
        "closed": True,
        "requests": (requests,),
        "connections": (connections,),
        "pod_names": pod_names,
        "failures": failures,
        "drops": (),
        "open": (),
        "ends": (LoadEnd(worker=0, last_due=count - 1, sent=count, dropped=0, open=0),),
        "seen": tuple(sightings),
        "logs": (),
        "gaps": (),
        "marks": marks(),
        "clock": (),
        "notes": (),
    }
    return StoredRun(**{**values, **changes})


def in_use(at: float) -> list[str]:
    """Who gets fresh traffic in the healthy rollout: an old pod for half a second more after its deletion."""
    spans = (("a", 0.0, 6.5), ("b", 0.0, 7.5), ("c", 6.0, 99.0), ("d", 7.0, 99.0))
    return [name for name, begin, end in spans if begin <= at < end]


def quick_use(at: float) -> list[str]:
    """The same of pods that stop at once."""
    spans = (("a", 0.0, 6.0), ("b", 0.0, 7.0), ("c", 6.0, 99.0), ("d", 7.0, 99.0))
    return [name for name, begin, end in spans if begin <= at < end]


def healthy_traffic() -> Traffic:
    traffic = Traffic().steady(in_use)
    traffic.kept = [("a", 0.1, 11.0), ("b", 0.1, 12.0), ("c", 11.0, None)]
    return traffic


def healthy_run(**changes: Any) -> StoredRun:
    return run(healthy_traffic(), cluster(old_pods() + new_pods()), **changes)
