"""Reads recordings of a real cluster as stored runs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loadtest.columns import ABSENT, REQUEST_COLUMNS, Block, empty
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

FOLDER = Path(__file__).parents[2] / "recordings"
_RESOURCES = {
    "pod": Resource.PODS,
    "slice": Resource.ENDPOINTSLICES,
    "event": Resource.EVENTS,
    "deploy": Resource.DEPLOYMENTS,
    "rs": Resource.REPLICASETS,
}
_KINDS = {
    "refused": FailureKind.CONNECT_REFUSED,
    "timeout_connect": FailureKind.CONNECT_TIMEOUT,
    "errno113_connect": FailureKind.UNREACHABLE,
}


def _lines(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt") as file:
        for line in file:
            yield json.loads(line)


def info(name: str, **changes: Any) -> RunInfo:
    """What a conductor would have stored about such a run."""
    values: dict[str, Any] = {
        "run_id": f"recorded-{name}",
        "tool_version": "0",
        "started_wall_ns": 1_796_074_660_000_000_000,
        "name": name,
        "scenario": {"qps": 100, "connections": 8, "lanes": ["new", "reused"], "timeout_s": 5.0, "method": "GET"},
        "target": Target(
            namespace="default",
            deployment=name,
            service=name,
            selector=f"app={name}",
            url="http://172.31.250.2:31213/",
            path_from="node-port",
        ),
        "trigger": "restart",
        "trigger_detail": "",
        "cluster": {"server_version": "v1.36.3", "sandbox": False},
    }
    return RunInfo(**{**values, **changes})


def recorded_run(name: str, *, lanes: tuple[str, ...] = ("new", "reused")) -> StoredRun:
    """The recording as a stored run, times from its first watch event."""
    events = list(_lines(name))
    zero = events[0]["at"]

    def ns(at: float) -> int:
        return int((at - zero) * 1e9)

    seen = []
    for event in events:
        resource = _RESOURCES.get(event["kind"])
        if resource is None:
            continue
        sighting = Sighting.LISTED if event["type"] == "LIST" else Sighting(event["type"])
        seen.append(Seen(seen=ns(event["at"]), resource=resource, sighting=sighting, object=event["obj"]))
    deployments = [one for one in seen if one.resource is Resource.DEPLOYMENTS]
    trigger = next(one.seen for one in deployments if one.sighting is Sighting.MODIFIED) - 20_000_000
    columns = empty(REQUEST_COLUMNS)
    failures: list[Failure] = []
    names: dict[str, int] = {}
    for lane, part in ((Lane.NEW, "new"), (Lane.REUSED, "keep")):
        if ("new", "reused")[lane] not in lanes:
            continue
        for request in _lines(f"{name}.hit-{part}"):
            _append(columns, failures, names, request, lane, ns)
    gone = max(one.seen for one in seen if one.resource is Resource.PODS and one.sighting is Sighting.DELETED)
    end = max(columns["ended"])
    count = len(columns["seq"])
    return StoredRun(
        info=info(name, scenario={**info(name).scenario, "lanes": list(lanes)}),
        closed=True,
        requests=(Block(worker=0, columns=columns),),
        connections=(),
        pod_names={(0, number): pod for pod, number in names.items()},
        failures=tuple(failures),
        drops=(),
        open=(),
        ends=(LoadEnd(worker=0, last_due=count - 1, sent=count, dropped=0, open=0),),
        seen=tuple(sorted(seen, key=lambda one: one.seen)),
        logs=(),
        gaps=(),
        marks=(
            Mark(name="warmup", at=0),
            Mark(name="baseline", at=1),
            Mark(name="rollout", at=trigger),
            Mark(name="trigger-sent", at=trigger + 5_000_000),
            Mark(name="completed", at=gone - 1, detail="successfully rolled out"),
            Mark(name="old-pods-gone", at=gone),
            Mark(name="settle", at=gone),
            Mark(name="stop", at=end),
            Mark(name="end", at=end),
        ),
        clock=(),
        notes=(),
    )


def _append(columns: Any, failures: list[Failure], names: dict[str, int], request: dict[str, Any], lane: Lane, ns: Any) -> None:
    ok = request.get("code") is not None and request.get("err") is None
    seq = len(columns["seq"])
    started = max(ns(request["t"]), ns(request["s"]))
    connected = ns(request["c"]) if request.get("c") else None
    kind = None if ok else _KINDS[request["err"]]
    pod = names.setdefault(request["pod"], len(names) + 1) if ok and request.get("pod") else 0
    row = {
        "seq": seq,
        # That client let a request wait for one of its few kept connections: lateness of another kind than our own loop's.
        "due": started,
        "started": started,
        "written": (connected if connected is not None else started) if ok else ABSENT,
        "first_byte": max(ns(request["f"]), connected or started) if ok else ABSENT,
        "ended": ns(request["e"]),
        "connect": (connected - started if connected is not None else ns(request["e"]) - started) if request["new"] else ABSENT,
        "size": request["len"],
        "connection": request.get("cid") or 0,
        "answers_before": 0 if request["new"] else 1,
        "port": request.get("lp") or 0,
        "status": request.get("code") or 0,
        "pod": pod,
        "lane": int(lane),
        "kind": 0 if kind is None else 1 + FAILURE_KINDS.index(kind),
    }
    for name, value in row.items():
        columns[name].append(value)
    if kind is not None:
        failures.append(Failure(worker=0, seq=seq, kind=kind))
