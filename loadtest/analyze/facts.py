"""What the rules of `diagnose` look at, worked out once: outages, and how each pod ended against its traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadtest.analyze.attribute import CUT_KINDS, SETUP_KINDS, Attributed
from loadtest.analyze.pods import ClusterView, PodLife
from loadtest.analyze.stops import LAG_NS, NEVER, WATCH_LATENCY_NS, Stop
from loadtest.analyze.tally import PodTally, Tally
from loadtest.model import FailureKind

QUICK_NS = 3_000_000_000
"""A pod that stopped within this after its deletion had no wait of its own (`facts`, C01: F within about 2 s)."""

ONE_SYNC_NS = 1_200_000_000
"""kube-proxy's minimum sync period (1 s) and a sync (measured: fresh traffic moved 54 to 1155 ms after the deletion)."""

SIGNAL_EXITS = frozenset({143, 2})
"""The signal itself ended the process: 128 + SIGTERM, and Go as PID 1 without a handler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """No pod listened: from somewhere in [earliest, latest] on, until another pod's first answer at `end`."""

    after: PodLife
    earliest: int
    latest: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """How one ended pod's stop lies against its traffic.

    Attributes:
        refused: connections tied to it found nobody listening: the stop came before fresh traffic had moved.
        first_refused: when the first attempt that surely went to it was refused.
        quick: it stopped within 3 s of its deletion.
        abnormal: killed at the end of its grace, out of memory, or ended without having been deleted.
        cut: requests that surely were on it and did not get a whole answer, from when SIGTERM can have come on.
        last_fresh: start of the last fresh connection that surely went to it, answered or not.
        late: fresh connections were tried to it over 3 s after the slice had dropped it, with another endpoint ready.
    """

    pod: PodLife
    stop: Stop
    refused: bool
    first_refused: int | None
    quick: bool
    abnormal: bool
    cut: tuple[Attributed, ...]
    last_fresh: int | None
    late: bool

    @property
    def moved(self) -> bool:
        """Fresh traffic had left this pod before it stopped."""
        if self.refused:
            return False
        if self.pod.blind:
            return False
        since = self.pod.not_ready if self.pod.not_ready is not None else self.pod.deletion
        first = min((one.row.ended for one in self.cut), default=None)
        at = first if first is not None else (self.pod.ended if self.pod.ended is not None else self.stop.latest)
        return since is not None and at - since >= ONE_SYNC_NS


def outages(view: ClusterView, tally: Tally, stops: Sequence[Stop], end: int) -> tuple[Outage, ...]:
    """The times in which no pod listened (`contract.md`, group 2).

    A pod's stop begins one unless another pod that was ready listens at that moment, even if no proxy knows that pod yet.
    """
    found = []
    known = view.by_name
    strangers = [pod for name, pod in tally.pods.items() if name not in known]  # of another workload behind the same Service
    for stop in stops:
        if stop.latest >= NEVER or stop.pod.in_slice is None:
            continue
        others = [pod for pod in view.pods.values() if pod.uid != stop.pod.uid]
        if any(_listens(pod, tally, stops, stop.latest) for pod in others):
            continue
        spans = [span for pod in strangers for span in pod.spans]
        if any(first <= stop.latest <= last for first, last in spans):
            continue
        answers = (tally.pods[pod.name].first_answer for pod in others if pod.name in tally.pods)
        later = [at for at in (*answers, *(first for first, _ in spans)) if at is not None and at > stop.earliest]
        if not tally.named:
            later = [pod.ready + LAG_NS for pod in others if pod.ready is not None and pod.ready > stop.earliest]
        # Whoever stopped before it may have been the last to listen, down to the latest of their earliest moments.
        earliest = max(other.earliest for other in stops if other.latest <= stop.latest)
        found.append(
            Outage(
                after=stop.pod,
                earliest=earliest,
                latest=stop.latest,
                end=min((at for at in (*later, stop.back) if at < NEVER), default=end),
            )
        )
    return tuple(found)


def _listens(pod: PodLife, tally: Tally, stops: Sequence[Stop], at: int) -> bool:
    if any(stop.pod.uid == pod.uid and stop.latest <= at < stop.back for stop in stops):
        return False
    answers = tally.pods.get(pod.name)
    answered = answers is not None and answers.first_answer is not None and answers.first_answer <= at
    ready = pod.has_readiness_probe and pod.ready is not None and pod.ready <= at
    return answered or ready


def pod_facts(view: ClusterView, tally: Tally, stops: Sequence[Stop], attributed: Sequence[Attributed]) -> dict[str, PodFacts]:
    """Facts by pod name, for each pod that was deleted or ended."""
    found = {}
    for stop in stops:
        pod = stop.pod
        sure = [one for one in attributed if one.attribution.pods == (pod.name,) and one.echo_of is None]
        maybe = [one for one in attributed if pod.name in one.attribution.pods and one.echo_of is None]
        refused_sure = [one for one in sure if one.no_listener and not one.row.connected]
        refused_maybe = [one for one in maybe if one.no_listener and not one.row.connected]
        connects = [one.row.started for one in refused_sure]
        at_once = (one.row.started for one in refused_sure if one.row.kind is FailureKind.CONNECT_REFUSED)
        first_refused = min(at_once, default=None)
        answers = tally.pods.get(pod.name, PodTally())
        if answers.last_connect is not None:
            connects.append(answers.last_connect)
        found[pod.name] = PodFacts(
            pod=pod,
            stop=stop,
            refused=bool(refused_sure or refused_maybe),
            first_refused=first_refused,
            quick=_quick(pod) or _is_soon(pod, first_refused),
            abnormal=_abnormal(pod),
            cut=tuple(one for one in sure if one.row.connected and one.row.kind in CUT_KINDS and one.row.ended >= _term(pod)),
            last_fresh=max(connects, default=None),
            late=_late(pod, connects, view),
        )
    return found


def _quick(pod: PodLife) -> bool:
    end = min((at for at in (pod.ended, pod.removed, pod.gone) if at is not None), default=None)
    return pod.deletion is not None and end is not None and end - pod.deletion < QUICK_NS and not pod.blind


def _is_soon(pod: PodLife, refused: int | None) -> bool:
    """It closed its listener soon, however long it then took to end."""
    return pod.deletion is not None and not pod.blind and refused is not None and refused - pod.deletion < QUICK_NS


def _term(pod: PodLife) -> int:
    """The earliest arrival at which SIGTERM can have come."""
    if pod.deletion is None:
        return 0
    wait = pod.wait_s if pod.waited and pod.wait_s is not None else 0.0
    return pod.deletion - WATCH_LATENCY_NS + int(wait * 1e9)


def _abnormal(pod: PodLife) -> bool:
    if pod.reason == "OOMKilled" or pod.downs:
        return True
    if pod.ended is not None and (pod.deletion is None or pod.ended < pod.deletion):
        return True
    return pod.exit_code == 137 or (pod.exit_code not in {0, None} and pod.exit_code not in SIGNAL_EXITS and not _quick(pod))


def _late(pod: PodLife, connects: Sequence[int], view: ClusterView) -> bool:
    if pod.not_ready is None or not connects or max(connects) <= pod.not_ready + LAG_NS:
        return False
    at = max(connects) / 1e9
    ready = [step.value for step in view.ready_steps if step.at <= at]
    return bool(ready) and ready[-1] > 0


def lag_ns(attributed: Sequence[Attributed], facts: Mapping[str, PodFacts]) -> int:
    """The longest time after a pod's deletion was seen at which fresh traffic still came to it.

    Of a failure with several candidates the upper bound counts, since the deletion of the first of them: what is advised from
    this must be enough.
    """
    longest = 0
    for one in facts.values():
        if one.pod.deletion is not None and one.last_fresh is not None:
            longest = max(longest, one.last_fresh - one.pod.deletion)
    for failure in attributed:
        if failure.row.kind not in SETUP_KINDS or failure.echo_of is not None or len(failure.attribution.pods) < 2:
            continue
        deletions = [facts[name].pod.deletion for name in failure.attribution.pods if name in facts]
        known = [at for at in deletions if at is not None and at <= failure.row.started]
        if known:
            longest = max(longest, failure.row.started - min(known))
    return longest
