"""The cause of each failed request: the first group of `contract.md` that holds, and in it the first code that fits.

One small rule for each cause, all pure. A request whose facts fit no rule that this version has is `unknown`: no word is
better than a wrong one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadtest.analyze.attribute import CUT_KINDS, SETUP_KINDS, Attributed
from loadtest.analyze.facts import SIGNAL_EXITS, Outage, PodFacts
from loadtest.analyze.pods import ClusterView, PodLife
from loadtest.analyze.statistics import fisher_excess
from loadtest.analyze.tally import Tally
from loadtest.columns import ABSENT
from loadtest.model import FailureKind, HowKnown, Lane, Phase

NOT_THE_ROLLOUT = "not-the-rollout"
STALE_CONNTRACK = "stale-conntrack"
TOO_FEW_READY = "too-few-ready"
NO_READINESS_PROBE = "no-readiness-probe"
EXITS_AT_ONCE = "exits-at-once"
WAIT_TOO_SHORT = "wait-too-short"
LATE_ENDPOINTS = "late-endpoints"
DROPS_CONNECTIONS = "drops-connections"
KEPT_CONNECTIONS_CUT = "kept-connections-cut"
IDLE_CLOSE_RACE = "idle-close-race"
UNKNOWN = "unknown"

LOADED = (Phase.ROLLOUT, Phase.SETTLE)
IDLE_RACE_NS = 50_000_000
SIGNIFICANT = 0.05
_TIMEOUTS = frozenset({FailureKind.CONNECT_TIMEOUT, FailureKind.RESPONSE_TIMEOUT})

Shape = tuple[FailureKind, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosed:
    """A failed request with its cause.

    Attributes:
        code: a finding code of `contract.md`.
        counts: it counts against a rule about failures.
        echo: it repeats an earlier failure of this run, and is counted in that one's finding.
        voided: a time-out while our own loop stood still: it says nothing of the target.
    """

    one: Attributed
    code: str
    counts: bool
    echo: bool = False
    voided: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """Failures of one kind and status in the rollout against the baseline. `p`: one-sided Fisher."""

    shape: Shape
    failed: int
    sent: int
    baseline_failed: int
    baseline_sent: int
    p: float

    @property
    def significant(self) -> bool:
        """More than chance at 95 %."""
        return self.p < SIGNIFICANT


def shape(one: Attributed) -> Shape:
    """Kind and status, by which failures of two windows are compared."""
    return one.row.kind, one.row.status


def excesses(tally: Tally, attributed: Sequence[Attributed]) -> dict[Shape, Excess]:
    """For each shape that the baseline had too: whether the rollout had more of it than chance explains."""
    sent = sum(tally.windows_sent[phase, lane] for phase in LOADED for lane in Lane)
    baseline_sent = sum(tally.windows_sent[Phase.BASELINE, lane] for lane in Lane)
    loaded = Counter(shape(one) for one in attributed if one.row.phase in LOADED)
    before = Counter(shape(one) for one in attributed if one.row.phase is Phase.BASELINE)
    return {
        found: Excess(
            shape=found,
            failed=loaded[found],
            sent=sent,
            baseline_failed=count,
            baseline_sent=baseline_sent,
            p=fisher_excess(loaded[found], sent, count, baseline_sent),
        )
        for found, count in before.items()
    }


def diagnose(
    attributed: Sequence[Attributed],
    view: ClusterView,
    facts: Mapping[str, PodFacts],
    gaps: Sequence[Outage],
    found_excesses: Mapping[Shape, Excess],
    stalls: Sequence[tuple[int, int]] = (),
) -> tuple[Diagnosed, ...]:
    """Every failed request under exactly one code, in the order in which they were sent.

    `stalls`: (due, lateness) of the ticks that our own loop sent far too late.
    """
    found: dict[tuple[int, int], Diagnosed] = {}
    for one in attributed:
        if one.row.phase in LOADED and one.row.kind in _TIMEOUTS and _in_a_stall(one, stalls):
            found[one.row.worker, one.row.seq] = Diagnosed(one=one, code=UNKNOWN, counts=False, voided=True)
            continue
        found[one.row.worker, one.row.seq] = _diagnose_one(one, view, facts, gaps, found_excesses, found)
    return tuple(found.values())


def _in_a_stall(one: Attributed, stalls: Sequence[tuple[int, int]]) -> bool:
    return any(one.row.started < due + late and due < one.row.ended for due, late in stalls)


def _diagnose_one(
    one: Attributed,
    view: ClusterView,
    facts: Mapping[str, PodFacts],
    gaps: Sequence[Outage],
    found_excesses: Mapping[Shape, Excess],
    earlier: Mapping[tuple[int, int], Diagnosed],
) -> Diagnosed:
    if one.row.phase not in LOADED:
        return Diagnosed(one=one, code=NOT_THE_ROLLOUT, counts=False)
    excess = found_excesses.get(shape(one))
    if excess is not None and not excess.significant and not _tied(one, facts):
        return Diagnosed(one=one, code=NOT_THE_ROLLOUT, counts=False)
    if one.echo_of is not None:
        first = earlier[one.echo_of.worker, one.echo_of.seq]
        if first.one.row.phase in LOADED and first.counts:
            return Diagnosed(one=one, code=first.code, counts=True, echo=True)
        return Diagnosed(one=one, code=STALE_CONNTRACK, counts=False)
    if one.stale:
        # Only "consistent with": without the witness of its port it still counts, a wrong pass being the worst word.
        return Diagnosed(one=one, code=STALE_CONNTRACK, counts=True)
    return Diagnosed(one=one, code=_cause(one, view, facts, gaps), counts=True)


def _tied(one: Attributed, facts: Mapping[str, PodFacts]) -> bool:
    """Tied to a pod's end by more than its time: cut after SIGTERM, on a connection which that pod had answered on."""
    return one.attribution.how is HowKnown.CONNECTION and any(
        one in facts[name].cut for name in one.attribution.pods if name in facts
    )


def _cause(one: Attributed, view: ClusterView, facts: Mapping[str, PodFacts], gaps: Sequence[Outage]) -> str:
    outage = next((gap for gap in gaps if sent_in(one, gap)), None)
    if outage is not None:
        return _outage_cause(outage, view, facts)
    if not one.in_transition or not one.attribution.pods:
        return UNKNOWN
    lives = view.by_name
    codes = {_pod_cause(one, facts[name]) if name in facts else _not_up(one, lives.get(name)) for name in one.attribution.pods}
    return codes.pop() if len(codes) == 1 else UNKNOWN


def _not_up(one: Attributed, pod: PodLife | None) -> str:
    """A pod that never ended is a candidate only where it counted as ready before it listened."""
    shown = pod is not None and not pod.has_readiness_probe and pod.revision == "new" and one.row.kind in SETUP_KINDS
    return NO_READINESS_PROBE if shown else UNKNOWN


def sent_in(one: Attributed, gap: Outage) -> bool:
    """Sent while nothing could answer: after the last listening pod stopped, and before another pod's first answer."""
    row = one.row
    if row.started > gap.end or not (one.no_listener or row.kind in CUT_KINDS):
        return False
    if row.kind in SETUP_KINDS:
        return row.started >= gap.earliest
    return row.started >= gap.latest


def _outage_cause(outage: Outage, view: ClusterView, facts: Mapping[str, PodFacts]) -> str:
    ended = facts.get(outage.after.name)
    after = outage.after
    if (
        after.deletion is None
        or after.blind
        or after.disrupted
        or (ended is not None and ended.abnormal)
        or after.revision != "old"
    ):
        return UNKNOWN
    if any(pod.downs or (pod.ended is not None and pod.deletion is None) for pod in view.pods.values() if pod.revision == "new"):
        return UNKNOWN  # the new pods ended by themselves: whether they would have answered in time is not known
    if any(not pod.has_readiness_probe for pod in view.pods.values() if pod.revision == "new"):
        return NO_READINESS_PROBE
    return TOO_FEW_READY if view.rolled else UNKNOWN


def _pod_cause(one: Attributed, pod: PodFacts) -> str:
    row = one.row
    transport = one.no_listener or row.kind in CUT_KINDS or row.kind is FailureKind.RESPONSE_TIMEOUT
    if pod.abnormal or pod.pod.blind or pod.pod.deletion is None or not transport:
        return UNKNOWN
    if row.kind is FailureKind.RESPONSE_TIMEOUT and row.started < pod.pod.deletion:
        return UNKNOWN  # slow before anything happened to it
    return _cut_after_moving(one, pod) if pod.moved else _stopped_first(pod)


def _stopped_first(pod: PodFacts) -> str:
    """Group 4: the pod stopped before fresh traffic had moved."""
    if pod.late:
        return LATE_ENDPOINTS
    if not pod.pod.prestop:
        return EXITS_AT_ONCE if pod.quick else UNKNOWN
    return WAIT_TOO_SHORT if pod.pod.waited else UNKNOWN


def _cut_after_moving(one: Attributed, pod: PodFacts) -> str:
    """Group 5: cut after fresh traffic had moved, in either lane.

    A request written in the last 50 ms may have crossed the close of an idle connection. It is such a race only where the
    pod left no older request unfinished.
    """
    if one not in pod.cut:
        return UNKNOWN  # of another shape, or before SIGTERM can have come
    if any(_was_at_work(cut) for cut in pod.cut) or _was_at_work(one):
        if pod.pod.exit_code in SIGNAL_EXITS:
            return KEPT_CONNECTIONS_CUT
        return DROPS_CONNECTIONS if pod.pod.exit_code == 0 else UNKNOWN
    return IDLE_CLOSE_RACE if one.row.answers_before > 0 else UNKNOWN


def _was_at_work(one: Attributed) -> bool:
    return one.row.first_byte != ABSENT or one.row.ended - one.row.written >= IDLE_RACE_NS
