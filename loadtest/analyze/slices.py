"""What the EndpointSlices of the Service said of each pod, and how many endpoints they called ready."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from loadtest.model import Seen, Sighting, Step

Conditions = tuple[bool, bool, bool]  # ready, serving, terminating

OUT_OF_STEP_NS = 250_000_000
"""Two watches bring them: a slice's change (after 13 to 67 ms) may arrive before the deletion that caused it (3 to 34 ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One pod in the slices; times in ns since the run's start.

    Attributes:
        first: it came into a slice.
        not_ready: its entry lost `ready` for the last time; `removed`: it left the slices.
        terminating_ready: it was ready when its deletion was seen, or lost `ready` by it.
    """

    first: int | None
    not_ready: int | None
    removed: int | None
    terminating_ready: bool


@dataclass(slots=True)
class Slices:
    """The endpoints of all slices of the Service, merged by the pod they point at.

    The history is kept apart from the pods: which of two lists arrives first at the begin of a run is chance.
    """

    slices: dict[str, dict[str, Conditions]] = field(default_factory=dict)
    history: dict[str, list[tuple[int, Conditions | None]]] = field(default_factory=dict)
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

    def merged(self) -> dict[str, Conditions]:
        """Pod uid to its conditions."""
        found: dict[str, Conditions] = {}
        for endpoints in self.slices.values():
            found.update(endpoints)
        return found

    def tell(self, uid: str, deletion: int | None) -> Listing:
        """What they said of one pod, whose deletion was seen at `deletion`."""
        first = not_ready = removed = None
        was_ready = terminating_ready = False
        for at, state in self.history.get(uid, ()):
            if state is not None and first is None:
                first = at
            removed = at if state is None else None
            is_ready = state is not None and state[0]
            if is_ready:
                not_ready = None
            elif was_ready or not_ready is None:
                not_ready = at
            if deletion is not None and at <= deletion:
                lost_by_it = deletion - at <= OUT_OF_STEP_NS and (was_ready or terminating_ready)
                terminating_ready = is_ready or lost_by_it
            was_ready = is_ready
        return Listing(first=first, not_ready=not_ready, removed=removed, terminating_ready=terminating_ready)


def _endpoints(slice_object: Mapping[str, Any]) -> Iterable[tuple[str, Conditions]]:
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
