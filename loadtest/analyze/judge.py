"""The outcome, in the order of `contract.md`: fail, then inconclusive, then pass. A wrong pass is the worst word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.analyze.diagnose import LOADED, Diagnosed
from loadtest.analyze.exposure import Exposure
from loadtest.analyze.facts import PodFacts
from loadtest.analyze.pods import ClusterView
from loadtest.analyze.tally import LATE_TICK_NS, Phases, Tally
from loadtest.model import Check, DropReason, Gap, Outcome, Phase, Resource, StoredRun

LUCK_NS = 2_000_000_000
NEAR_NS = 2_000_000_000
P99_LATE_NS = 100_000_000
OWN_DROPS = 0.001
CLOCK_STEP_NS = 1_000_000_000

_PROVEN_BY_FINDING = frozenset({"node-port", "loopback-node-port"})
_WATCHED = frozenset({str(Resource.PODS), str(Resource.ENDPOINTSLICES), str(Resource.DEPLOYMENTS), "clock"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Outcome, the one sentence for it, and each rule with what came of it."""

    outcome: Outcome
    reason: str
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matter:
    """All that a verdict rests on."""

    run: StoredRun
    tally: Tally
    phases: Phases
    view: ClusterView
    facts: dict[str, PodFacts]
    diagnosed: Sequence[Diagnosed]
    exposures: Sequence[Exposure]
    lost: int
    contradictions: Sequence[str]
    rate_bound: float

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes that were asked for."""
        return tuple(self.run.info.scenario.get("lanes", ("new", "reused")))

    @property
    def exposed(self) -> int:
        """Exposed terminations of the lane that had the fewest."""
        return min((one.exposed for one in self.exposures if one.lane in self.lanes), default=0)


def judge(matter: Matter) -> Verdict:
    """The run's word."""
    checks = _checks(matter)
    broken = [check for check in checks if not check.passed]
    if broken:
        return Verdict(outcome=Outcome.FAIL, reason=_fail_reason(matter, broken), checks=checks)
    for doubt in (
        _not_judged,
        _cut_short,
        _nothing_before,
        _luck,
        _unsound,
        _blind,
        _no_rollout,
        _unexposed,
        _path_not_shown,
        _only_local,
    ):
        reason = doubt(matter)
        if reason:
            return Verdict(outcome=Outcome.INCONCLUSIVE, reason=reason, checks=checks)
    return Verdict(outcome=Outcome.PASS, reason=_pass_reason(matter), checks=checks)


def counted(matter: Matter) -> int:
    """Failures that count against a rule about failures."""
    return sum(1 for one in matter.diagnosed if one.counts)


def _checks(matter: Matter) -> tuple[Check, ...]:
    failed = counted(matter)
    found = [
        Check(name=rule, expected=rule, actual=f"failed = {failed}", passed=failed == 0)
        for rule in matter.run.info.rules
        if _is_known(rule)
    ]
    stuck = next((mark for mark in matter.run.marks if mark.name == "stuck"), None)
    if stuck is not None:
        found.append(Check(name="rollout", expected="completes", actual=stuck.detail or "stuck", passed=False))
    return tuple(found)


def _is_known(rule: str) -> bool:
    return "".join(rule.split()) == "failed==0"


def _not_judged(matter: Matter) -> str:
    rule = next((rule for rule in matter.run.info.rules if not _is_known(rule)), "")
    return f"the rule {rule!r} is none that this version knows: it was not judged" if rule else ""


def _fail_reason(matter: Matter, broken: Sequence[Check]) -> str:
    sent = sum(matter.tally.windows_sent[phase, lane] for phase in LOADED for lane in (0, 1))
    failed = counted(matter)
    if failed:
        return f"{failed} of {sent} requests were lost in this rollout"
    return f"the rollout did not complete: {broken[0].actual}"


def _cut_short(matter: Matter) -> str:
    run, marks = matter.run, {mark.name for mark in matter.run.marks}
    if "interrupted" in marks:
        return "the run was interrupted"
    if not run.closed or "end" not in marks:
        return "the run ended before it was over: its file has no closing record"
    without = matter.tally.workers - {end.worker for end in run.ends}
    if without or not run.ends:
        return "a load worker ended without its account: what it sent last is not known"
    if matter.contradictions:
        return f"the records contradict themselves: {matter.contradictions[0]}"
    if matter.tally.violations:
        return "the records contradict themselves: times of a request are out of order"
    if matter.lost:
        return f"{matter.lost} requests were lost with a load worker"
    if run.open or any(end.cut for end in run.ends):
        return f"the load was cut off: {len(run.open)} requests had no end"
    return ""


def _nothing_before(matter: Matter) -> str:
    """A service that answers nothing well cannot lose anything to a rollout."""
    sent = sum(matter.tally.windows_sent[Phase.BASELINE, lane] for lane in (0, 1))
    failed = sum(matter.tally.windows_failed[Phase.BASELINE, lane] for lane in (0, 1))
    if sent and failed == sent:
        return f"all {sent} requests of the baseline failed: what a rollout would cost on top cannot be seen"
    return ""


def _luck(matter: Matter) -> str:
    """The rules hold only because the proxy happened to be quick: the same fault cost 0 to 43 requests on one cluster."""
    if matter.run.info.accept_luck:
        return ""
    trigger = matter.phases.trigger or 0
    for one in matter.facts.values():
        pod = one.pod
        if pod.deletion is None or not pod.terminating_ready or pod.blind or pod.deletion < trigger:
            continue
        end = min((at for at in (pod.ended, pod.gone, one.first_refused) if at is not None), default=None)
        if end is not None and end - pod.deletion < LUCK_NS:
            after = max(0, end - pod.deletion) / 1e9
            return (
                f"luck: pod {pod.name} stopped listening {after:.2f} s after its deletion, before any proxy can be expected to "
                "know of it; that nothing was lost was the timing of this run (--accept-luck takes it)"
            )
    return ""


def _unsound(matter: Matter) -> str:
    lateness = sorted(matter.tally.lateness)
    if not lateness:
        return "no request was sent"
    p99 = lateness[max(0, -(-len(lateness) * 99 // 100) - 1)]
    if p99 > P99_LATE_NS:
        return f"the load generator was late: 1 % of its requests by more than {p99 / 1e6:.0f} ms (at most 100)"
    ends = [at for one in matter.facts.values() for at in (one.pod.deletion, one.pod.ended) if at is not None]
    for due, late in matter.tally.late_ticks:
        if any(due - NEAR_NS < at < due + late + NEAR_NS for at in ends):
            return f"the load generator stood still for {late / 1e9:.1f} s while a pod ended (at most {LATE_TICK_NS / 1e9} s)"
    voided = sum(1 for one in matter.diagnosed if one.voided)
    if voided:
        return f"{voided} time-outs overlap a time in which the load generator itself stood still"
    own = sum(1 for drop in matter.run.drops if drop.reason is not DropReason.ALL_BUSY)
    if own > OWN_DROPS * (matter.tally.sent + len(matter.run.drops)):
        return f"{own} requests were not sent for reasons of our own (no ports, descriptors or processor time)"
    return ""


def _blind(matter: Matter) -> str:
    span = matter.phases.span(Phase.ROLLOUT)
    if span is None:
        return ""
    gap = next((gap for gap in (*matter.run.gaps, *clock_gaps(matter.run)) if _overlaps(gap, span)), None)
    if gap is None:
        return ""
    length = (gap.end - gap.start) / 1e9
    if gap.resource == "clock":
        return f"the machine slept or its clock was set during the rollout ({length:.1f} s)"
    return f"the watch on {gap.resource} was blind for {length:.1f} s during the rollout"


def _overlaps(gap: Gap, span: tuple[int, int]) -> bool:
    return gap.resource in _WATCHED and gap.start <= span[1] and gap.end >= span[0]


def clock_gaps(run: StoredRun) -> tuple[Gap, ...]:
    """Times between two samples in which wall and monotonic time moved apart: a sleep, or a clock that was set."""
    found = []
    for before, after in zip(run.clock, run.clock[1:], strict=False):
        apart = (after.wall_ns - before.wall_ns) - (after.at - before.at)
        if abs(apart) > CLOCK_STEP_NS:
            found.append(Gap(start=before.at, end=after.at, resource="clock", reason=f"stepped by {apart / 1e9:.1f} s"))
    return tuple(found)


def _no_rollout(matter: Matter) -> str:
    marks = {mark.name for mark in matter.run.marks}
    if matter.phases.trigger is None:
        return "no rollout was seen to start"
    if not matter.view.rolled:
        return "the trigger was sent, but no new ReplicaSet came of it: nothing was rolled"
    if "completed" not in marks or "old-pods-gone" not in marks:
        return "the rollout's end was not seen"
    if "settle" not in marks or "stop" not in marks:
        return "the load ended with the rollout: what comes after its last pod was not seen"
    return ""


def _unexposed(matter: Matter) -> str:
    wanted = matter.run.info.min_exposure
    if "reused" in matter.lanes and not matter.tally.on_kept:
        return "no connection could be kept: the server closes each after its answer (--lanes new asks for fresh ones only)"
    for exposure in matter.exposures:
        if exposure.lane in matter.lanes and not exposure.enough(wanted, everyone=matter.run.info.target.session_affinity):
            return exposure.sentence(wanted)
    return ""


def _path_not_shown(matter: Matter) -> str:
    info = matter.run.info
    if info.assume_path or path_proven(matter.run, matter.view, matter.tally):
        return ""
    return "it was not shown that the address leads to these pods: no answer names one (--pod-from, or --assume-path)"


def path_proven(run: StoredRun, view: ClusterView, tally: Tally) -> bool:
    """An answer names one of the pods, or the tool itself found the address as the Service's own.

    Outside the cluster a ClusterIP may be anybody's: gateways answer for addresses that they do not know.
    """
    if any(name in view.by_name for name in tally.pods):
        return True
    found = run.info.target.path_from
    return found in _PROVEN_BY_FINDING or (found == "cluster-ip" and run.info.cluster.get("context") == "in-cluster")


def _only_local(matter: Matter) -> str:
    local = sum(1 for drop in matter.run.drops if drop.reason is DropReason.LOCAL)
    return f"{local} requests could not be sent for want of ports, descriptors or memory here" if local else ""


def _pass_reason(matter: Matter) -> str:
    sent = sum(matter.tally.windows_sent[phase, lane] for phase in LOADED for lane in (0, 1))
    computed = " (computed)" if any(exposure.computed for exposure in matter.exposures) else ""
    others = sum(1 for one in matter.diagnosed if not one.counts and one.one.row.phase in LOADED)
    base = f"no request of {sent} was lost" if not others else f"no request of {sent} was lost to this rollout"
    pods = f"{matter.exposed} pods were replaced under load{computed}"
    return f"{base} while {pods} (95 %: fewer than {matter.rate_bound:.2%} of requests)"
