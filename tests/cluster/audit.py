"""Reads the API server's audit log: the cluster's own times of what happened, in microseconds."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """A pod's deletion or eviction was asked for. Times are Unix seconds with microseconds."""

    namespace: str
    pod: str
    received: float
    """D: when the API server got the request."""
    answered: float
    code: int
    user: str
    verb: str
    """`delete`, `deletecollection` (then `pod` is empty) or `evict`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SliceEndpoint:
    """One endpoint in a slice write."""

    pod: str
    address: str
    ready: bool
    serving: bool
    terminating: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SliceWrite:
    """An EndpointSlice was written. Times are Unix seconds with microseconds."""

    namespace: str
    name: str
    received: float
    written: float
    """When the API server had answered: the slice was stored by then."""
    verb: str
    endpoints: tuple[SliceEndpoint, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AuditLog:
    """All of it, each list in the order of the log."""

    deletions: tuple[Deletion, ...]
    slice_writes: tuple[SliceWrite, ...]

    def deletion_of(self, pod: str) -> Deletion | None:
        """The first deletion or eviction of that pod that was granted."""
        return next((d for d in self.deletions if d.pod == pod and d.code < 300), None)

    def lost_ready(self, pod: str) -> SliceWrite | None:
        """E1: the first slice write, after the pod's deletion, in which it terminates and is not ready."""
        deletion = self.deletion_of(pod)
        for write in self.slice_writes:
            after = deletion is not None and write.received >= deletion.received
            if after and any(e.pod == pod and e.terminating and not e.ready for e in write.endpoints):
                return write
        return None

    def left_slice(self, pod: str) -> SliceWrite | None:
        """E2: the first slice write, after the pod's deletion, in which it is missing from the slice it was in."""
        deletion = self.deletion_of(pod)
        holding: set[str] = set()
        for write in self.slice_writes:
            here = any(e.pod == pod for e in write.endpoints)
            if here:
                holding.add(write.name)
            elif deletion and write.received >= deletion.received and write.name in holding:
                return write
        return None


def read_audit_log(path: Path) -> AuditLog:
    """Parses the log as far as it is written; a last line that is not whole yet is left out."""
    deletions: list[Deletion] = []
    writes: list[SliceWrite] = []
    text = path.read_text() if path.exists() else ""
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        entry = json.loads(line)
        resource = entry["objectRef"]["resource"]
        if resource == "pods":
            deletions.append(parse_deletion(entry))
        elif resource == "endpointslices" and entry["responseStatus"]["code"] < 300:
            writes.append(parse_slice_write(entry))
    return AuditLog(deletions=tuple(deletions), slice_writes=tuple(writes))


def parse_deletion(entry: dict[str, Any]) -> Deletion:
    reference = entry["objectRef"]
    return Deletion(
        namespace=reference.get("namespace", ""),
        pod=reference.get("name", ""),
        received=seconds(entry["requestReceivedTimestamp"]),
        answered=seconds(entry["stageTimestamp"]),
        code=entry["responseStatus"]["code"],
        user=entry["user"]["username"],
        verb="evict" if reference.get("subresource") == "eviction" else entry["verb"],
    )


def parse_slice_write(entry: dict[str, Any]) -> SliceWrite:
    reference = entry["objectRef"]
    body = entry.get("requestObject") or {}
    return SliceWrite(
        namespace=reference.get("namespace", ""),
        name=reference.get("name") or body.get("metadata", {}).get("name", ""),
        received=seconds(entry["requestReceivedTimestamp"]),
        written=seconds(entry["stageTimestamp"]),
        verb=entry["verb"],
        endpoints=tuple(parse_endpoint(endpoint) for endpoint in body.get("endpoints") or []),
    )


def parse_endpoint(endpoint: dict[str, Any]) -> SliceEndpoint:
    conditions = endpoint.get("conditions", {})
    return SliceEndpoint(
        pod=endpoint.get("targetRef", {}).get("name", ""),
        address=endpoint["addresses"][0],
        ready=conditions.get("ready", True) is not False,
        serving=conditions.get("serving", True) is not False,
        terminating=conditions.get("terminating") is True,
    )


def seconds(stamp: str) -> float:
    """Unix time of an RFC 3339 stamp with microseconds."""
    return datetime.fromisoformat(stamp).timestamp()
