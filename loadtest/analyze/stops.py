"""When pods stopped taking new connections, as intervals: what is seen of an end is late, and proxies learn of it later still."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.analyze.pods import ClusterView, PodLife
from loadtest.analyze.tally import PodTally, Tally
from loadtest.model import Gap, Resource

WATCH_LATENCY_NS = 150_000_000
"""How late an arrival may be: 67 ms at most in 81 terminations of an idle cluster, doubled for a busy one."""

LAG_NS = 3_000_000_000
"""How long after the slice changed fresh traffic may still reach a pod and be called normal (`contract.md`, group 4)."""

CRASH_SEEN_NS = 2_000_000_000
"""How late an end that nobody asked for is seen: the kubelet looks once a second (PLEG), then writes the status."""

NEVER = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """When a pod stopped taking new connections: in [earliest, latest].

    Attributes:
        began: from here on its end may have cut what was open.
        sent_until: proxies may have used it until then.
        back: it ran again (a container that ended by itself), or NEVER.
    """

    pod: PodLife
    began: int
    earliest: int
    latest: int
    sent_until: int
    back: int = NEVER


def stops(view: ClusterView, tally: Tally, gaps: Sequence[Gap] = ()) -> tuple[Stop, ...]:
    """The stops of each pod that was deleted or whose container ended, by their latest moment."""
    found: list[Stop] = []
    for pod in view.pods.values():
        found.extend(_down(pod, at, back) for at, back in pod.downs)
        ending = min((at for at in (pod.deletion, pod.ended) if at is not None), default=None)
        if ending is None:
            continue
        answers = tally.pods.get(pod.name, PodTally())
        begin = began(pod, ending, gaps)
        listened = begin
        if pod.sleeps and pod.waited and pod.wait_s is not None and not pod.blind:
            listened += int(pod.wait_s * 1e9)  # SIGTERM comes after preStop, and nothing else told the app
        earliest = max(listened, answers.last_connect if answers.last_connect is not None else 0)
        latest = min((at for at in (pod.ended, pod.removed, pod.gone) if at is not None), default=None)
        left = max(pod.not_ready if pod.not_ready is not None else ending, ending)
        if pod.removed is not None and _fallback(view, left, pod.removed):
            left = pod.removed
        left = max(left, answers.last_connect if answers.last_connect is not None else 0)  # some proxy still did
        found.append(
            Stop(
                pod=pod,
                began=begin,
                earliest=earliest,
                latest=max(earliest, latest) if latest is not None else NEVER,
                sent_until=left + LAG_NS,
            )
        )
    return tuple(sorted(found, key=lambda stop: (stop.latest, stop.pod.name)))


def _down(pod: PodLife, at: int, back: int) -> Stop:
    """A container that ended by itself and ran again. Without a probe it counts as ready before it listens."""
    begin = at - CRASH_SEEN_NS
    until = at if pod.has_readiness_probe else back
    return Stop(pod=pod, began=begin, earliest=begin, latest=at, sent_until=until + LAG_NS, back=back)


def began(pod: PodLife, ending: int, gaps: Sequence[Gap]) -> int:
    """From when on a pod's end, seen at `ending`, may have touched its requests: as late as each way of seeing it is."""
    if pod.blind:
        dark = (gap.start for gap in gaps if gap.resource == Resource.PODS and gap.start <= ending <= gap.end + CRASH_SEEN_NS)
        return min(dark, default=ending - CRASH_SEEN_NS)
    asked = pod.deletion is not None and (pod.ended is None or pod.deletion <= pod.ended)
    return ending - (WATCH_LATENCY_NS if asked else CRASH_SEEN_NS)


def _fallback(view: ClusterView, begin: int, end: int) -> bool:
    """No endpoint was ready at some moment: proxies then go on sending to terminating ones that still serve (KEP-1669)."""
    value = None
    for step in view.ready_steps:
        if step.at >= end / 1e9:
            break
        if step.at >= begin / 1e9 and step.value == 0:
            return True
        value = step.value if step.at < begin / 1e9 else value
    return value == 0
