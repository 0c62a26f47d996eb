"""A pod's life as spans to draw. Pure; takes what the watch saw and infers nothing that is not written in a span's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadtest.model import FailedRequest, PodReport
from loadtest.report.amounts import label, span
from loadtest.report.facts import still_sent

VAGUE = 0.5  # seconds; a stop that is not known better than this is no moment but a span


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A part of a life.

    `kind`: "created", "starting", "unused" (ready, no request came), "alive" (ready; answers do not name pods), "answers",
    "stopping" (the listener closes somewhere in here), "gap" (does not listen, is still sent to), "ending" (unused
    until its end).
    """

    kind: str
    start: float
    end: float
    words: str


def stages(
    pod: PodReport, spans: Sequence[tuple[float, float]], failed: Sequence[FailedRequest], horizon: float, *, named: bool
) -> list[Stage]:
    """The spans of `pod` in order.

    Args:
        pod: what the watch saw of it.
        spans: when its answers came, if they name it.
        failed: failed requests, of which those that may be its own count.
        horizon: the end of the run.
        named: answers of this run name their pods.
    """
    found: list[Stage] = []
    over = next((moment for moment in (pod.ended, pod.gone) if moment is not None), horizon)

    def add(kind: str, start: float | None, end: float | None, words: str) -> None:
        if start is not None and end is not None and end > start:
            found.append(Stage(kind=kind, start=start, end=end, words=words))

    if pod.created is not None:
        started = _least(pod.started, pod.ready, over)
        add("created", pod.created, started, "created, not started")
        add("starting", started, _least(pod.ready, over), "started, not ready")
    ready = pod.ready if pod.ready is not None else 0.0 if pod.created is None else None
    if ready is None:
        return found
    stop_low, stop_high = _stop(pod, spans, horizon, over)
    used = pod.first_request if pod.first_request is not None else ready
    if pod.served == 0 and pod.first_request is None:
        add("unused" if named else "alive", ready, stop_low, "ready, no request came" if named else "ready")
    else:
        add("unused", ready, min(used, stop_low), "ready, no request came yet")
        add("answers", max(used, 0.0), stop_low, "answers")
    if stop_high is not None and stop_low < stop_high:
        add("stopping", stop_low, stop_high, f"stops listening somewhere in {span(stop_low, stop_high, 3)} s")
    rest = stop_high if stop_high is not None else stop_low
    sent = still_sent(pod, failed)
    if sent is not None:
        add("gap", rest, sent.until, f"does not listen, requests still come until {label(sent.until)} s")
        rest = max(rest, sent.until)
    if pod.deletion is not None or pod.ended is not None:
        add("ending", max(rest, min(pod.deletion or 0.0, over)), over, "no longer used, not yet ended")
    return found


def _stop(pod: PodReport, spans: Sequence[tuple[float, float]], horizon: float, over: float) -> tuple[float, float | None]:
    """Until when it surely was up, and from when on it surely was not (None: nothing shows it)."""
    low, high = pod.stopped_listening.earliest, pod.stopped_listening.latest
    if pod.deletion is None and pod.ended is None:
        return horizon if low is None else low, high
    if low is None:
        answered = [end for _, end in spans]
        last = [moment for moment in (pod.last_request.new, pod.last_request.reused) if moment is not None]
        if pod.deletion is not None and last and not answered:
            answered = [pod.deletion + max(last)]
        low = max([*answered, *([pod.deletion] if pod.deletion is not None else [])], default=over)
    return min(low, over), high


def _least(*moments: float | None) -> float | None:
    known = [moment for moment in moments if moment is not None]
    return min(known) if known else None


def in_use(
    pods: Sequence[PodReport], answering: Mapping[str, Sequence[tuple[float, float]]], horizon: float
) -> list[tuple[float, float, float]]:
    """For each pod that answered: (in use from, surely until, at most until), for the area under the ready endpoints.

    In use is a pod that listens *and* that traffic goes to. One whose last answer was long before its stop was left by the
    traffic, not stopped: its use ends soon after that answer.
    """
    found = []
    for pod in pods:
        if pod.first_request is None:
            continue
        low, high = _stop(pod, answering.get(pod.name, ()), horizon, horizon if pod.ended is None else pod.ended)
        found.append((max(pod.first_request, 0.0), low, low if high is None else min(high, low + VAGUE)))
    return found
