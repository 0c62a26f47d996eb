"""Plain figures that several formats need and that a `RunResult` holds only indirectly.

Everything here is counting and looking up; what a run *means* was decided before, in `analyze`. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadtest.model import Attribution, FailedRequest, Finding, HowKnown, LaneCount, PodReport, RunResult
from loadtest.report.harmless import short_middle, visible

UNRELATED = "not-the-rollout"
STUCK = "rollout-stuck"
LOADED = ("rollout", "settle", "steps")


def unrelated(result: RunResult) -> int:
    """Failed requests that the rollout did not cause."""
    return sum(finding.requests for finding in result.findings if finding.code == UNRELATED)


def lost(result: RunResult) -> int:
    """Failed requests but for those that the rollout did not cause."""
    return max(result.summary.failed - unrelated(result), 0)


def loaded(result: RunResult) -> tuple[int, int]:
    """(failed, sent) from the trigger on: what `failure_rate_95` bounds. The whole run where it has no such part."""
    windows = [window for window in result.windows if window.name in LOADED]
    if not windows:
        return result.summary.failed, result.summary.sent
    return sum(window.failed for window in windows), sum(window.sent for window in windows)


def lanes(result: RunResult) -> dict[str, LaneCount]:
    """The lanes that were used, fresh connections first."""
    used = {name: lane for name, lane in result.summary.lanes.items() if lane.sent or lane.failed}
    return dict(sorted(used.items(), key=lambda item: (item[0] != "new", item[0])))


def costly(result: RunResult) -> list[Finding]:
    """Causes that took requests (or stopped the rollout), dearest first; what is not the rollout's comes last."""
    found = [finding for finding in result.findings if finding.requests or finding.code == STUCK]
    return sorted(found, key=lambda finding: (finding.code == UNRELATED, finding.code != STUCK, -finding.requests, finding.code))


def costless(result: RunResult) -> list[Finding]:
    """Faults that were there and cost nothing this time."""
    return [finding for finding in result.findings if not finding.requests and finding.code != STUCK]


def failures_of(result: RunResult, finding: Finding) -> list[FailedRequest]:
    """The failed requests counted in a finding."""
    return [failed for failed in result.failed_requests if failed.cause == finding.code]


def ended_pods(result: RunResult) -> list[PodReport]:
    """Pods whose deletion or end was seen, in that order."""
    ended = [pod for pod in result.pods if pod.deletion is not None or pod.ended is not None]
    return sorted(ended, key=lambda pod: (_first(pod.deletion, pod.ended), pod.name))


def exposed(result: RunResult) -> dict[str, int]:
    """How many pods ended while in use, by lane; under "any": in at least one lane."""
    ended = ended_pods(result)
    return {
        "new": sum(pod.exposure.new > 0 for pod in ended),
        "reused": sum(pod.exposure.reused > 0 for pod in ended),
        "any": sum(pod.exposure.new > 0 or pod.exposure.reused > 0 for pod in ended),
    }


def short_names(names: Sequence[str]) -> dict[str, str]:
    """For each pod as little of its name as tells it apart: its random end, with some of the hash before it, or the whole.

    A name that is too long for a lane is shortened in its middle.
    """
    known = set(names)
    found = {name: short_middle(visible(name), 18) for name in known}
    for take in (_hash_and_end, _end):
        uses = Counter(take(name) for name in known)
        found.update({name: visible(take(name)) for name in known if take(name) and uses[take(name)] == 1})
    return found


def _end(name: str) -> str:
    end = name.rpartition("-")[2]
    return end if 4 <= len(end) <= 10 and end != name else ""


def _hash_and_end(name: str) -> str:
    start, _, end = name.rpartition("-")
    return f"{start.rpartition('-')[2][-4:]}-{end}" if start and len(end) <= 10 else ""


def certainty(attribution: Attribution) -> str:
    """How sure the pod is, in the four words that reports use."""
    match attribution.how:
        case HowKnown.HEADER | HowKnown.CONNECTION:
            return "proven"
        case HowKnown.ONLY_CANDIDATE:
            return "by elimination"
        case HowKnown.CANDIDATES:
            number = len(attribution.pods)
            return {1: "by elimination", 2: "one of two", 3: "one of three"}.get(number, f"one of {number}")
        case HowKnown.UNKNOWN:
            return "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class StillSent:
    """How long requests still came to a pod that no longer listened.

    Attributes:
        until: when the last of them was sent, in seconds since the run's start.
        low, high: seconds between its stop and then; None where the stop is open on that side.
    """

    until: float
    low: float
    high: float | None


def still_sent(pod: PodReport, failed: Sequence[FailedRequest]) -> StillSent | None:
    """From the failed requests that went (or may have gone) to this pod after it had surely stopped; echoes do not count."""
    stopped = pod.stopped_listening.latest
    if stopped is None:
        return None
    sent = [
        one.started
        for one in failed
        if pod.name in one.attribution.pods and one.no_listener and not one.echo and one.started > stopped
    ]
    if not sent:
        return None
    until = max(sent)
    earliest = pod.stopped_listening.earliest
    return StillSent(until=until, low=until - stopped, high=None if earliest is None else until - earliest)


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the time axis, in seconds since the run's start."""

    start: float
    end: float


def axis_of(result: RunResult) -> Span:
    """The whole run."""
    ends = [result.drawing.duration, *(window.end for window in result.windows), *(one.ended for one in result.failed_requests)]
    return Span(0.0, max(max(ends), 1.0))


def detail_of(result: RunResult) -> Span:
    """The part to draw large: around the dearest cause; without failures around the terminations, else the rollout.

    From 0.7 s before the first failure to 0.5 s after the last one, echoes left out: a run's events crowd into some seconds.
    """
    whole = axis_of(result)
    by_cost = costly(result)
    failed = [one for one in (failures_of(result, by_cost[0]) if by_cost else result.failed_requests) if not one.echo]
    moments = [one.started for one in failed]
    if moments:
        return _within(min(moments) - 0.7, max(moments) + 0.5, whole)
    ended = ended_pods(result)
    if ended:
        last = [_first(pod.gone, pod.ended, pod.deletion) for pod in ended]
        return _within(_first(ended[0].deletion, ended[0].ended) - 0.7, max(last) + 0.5, whole)
    started, completed = result.rollout.started, result.rollout.completed
    if started is not None:
        return _within(started - 0.7, (completed if completed is not None else whole.end) + 0.5, whole)
    return whole


def around(result: RunResult, finding: Finding) -> Span:
    """The part that shows one cause."""
    whole = axis_of(result)
    moments = [one.started for one in failures_of(result, finding) if not one.echo]
    if not moments:
        return whole
    low, high = min(moments), max(moments)
    room = max((high - low) * 0.18, 0.2)
    return _within(low - room, high + room, whole)


def look(mapping: Mapping[str, Any], *path: str) -> str:
    """A value of nested mappings as text, or "" where a key is missing."""
    value: Any = mapping
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return ""
        value = value[key]
    return "" if value is None or isinstance(value, (Mapping, list, tuple)) else str(value)


def workload(result: RunResult) -> str:
    """What was rolled, such as "deployment/web"; else the run's name."""
    return look(result.scenario, "target", "workload") or look(result.scenario, "workload") or result.name


def _first(*moments: float | None) -> float:
    return next((moment for moment in moments if moment is not None), 0.0)


def _within(start: float, end: float, whole: Span) -> Span:
    start = max(start, whole.start)
    end = min(max(end, start + 0.5), whole.end)
    return Span(min(start, end - 0.25), end)
