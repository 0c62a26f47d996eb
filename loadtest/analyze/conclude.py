"""From a stored run to its conclusion: the one entry of this room.

The same `run.db` gives the same result, byte for byte (law 6): nothing here reads a clock, a file or a random number.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import Any

from loadtest.analyze.accounts import unaccounted
from loadtest.analyze.attribute import Attributed, attribute
from loadtest.analyze.diagnose import (
    EXITS_AT_ONCE,
    KEPT_CONNECTIONS_CUT,
    LOADED,
    TOO_FEW_READY,
    Diagnosed,
    diagnose,
    excesses,
)
from loadtest.analyze.drawing import drawing
from loadtest.analyze.explain import findings
from loadtest.analyze.exposure import exposures, uses
from loadtest.analyze.facts import SIGNAL_EXITS, PodFacts, lag_ns, outages, pod_facts
from loadtest.analyze.judge import Matter, Verdict, clock_gaps, judge, path_proven
from loadtest.analyze.pods import ClusterView, view
from loadtest.analyze.statistics import rate_bounds
from loadtest.analyze.stops import stops
from loadtest.analyze.summarize import (
    failed_requests,
    kept_connections,
    longest_outage_ns,
    pod_reports,
    ready_endpoints,
    rollout,
    summary,
    windows,
)
from loadtest.analyze.tally import Phases, Tally, tally
from loadtest.analyze.words import Case
from loadtest.model import (
    HowKnown,
    Lane,
    Phase,
    ResultGap,
    RunResult,
    StoredRun,
)

SCHEMA = 1
_DIRECT = frozenset({"node-port", "cluster-ip"})


def conclude(run: StoredRun) -> RunResult:
    """Analyses a run, whole or broken off."""
    phases = phases_of(run)
    seen = view(run.seen, phases.trigger)
    deletions = {pod.name: pod.deletion for pod in seen.pods.values() if pod.deletion is not None}
    counts = tally(run, phases, deletions)
    all_stops = stops(seen, counts, run.gaps)
    direct, even = run.info.target.path_from in _DIRECT, not run.info.target.session_affinity
    attributed = attribute(seen, counts, all_stops, direct=direct, even=even)
    facts = pod_facts(seen, counts, all_stops, attributed)
    dark = outages(seen, counts, all_stops, phases.end)
    found_excesses = excesses(counts, attributed)
    diagnosed = diagnose(attributed, seen, facts, dark, found_excesses, counts.late_ticks)
    kept, kept_at_end, _ = kept_connections(run, seen)
    used = uses(seen, counts, attributed)
    due, lost, contradictions = unaccounted(run, run.requests)
    begin = phases.trigger if phases.trigger is not None else 0
    outage = longest_outage_ns(counts, begin, phases.end)
    case = _case(run, seen, counts, facts, attributed, phases, outage)
    costless = _costless(seen, facts, diagnosed, case, kept_at_end)
    sent = sum(counts.windows_sent[phase, lane] for phase in LOADED for lane in Lane)
    matter = Matter(
        run=run,
        tally=counts,
        phases=phases,
        view=seen,
        facts=facts,
        diagnosed=diagnosed,
        exposures=exposures(run, seen, counts, used, kept, phases.trigger),
        lost=lost,
        contradictions=contradictions,
        rate_bound=rate_bounds(0, sent)[1],
    )
    verdict = judge(matter)
    marks = {mark.name: mark for mark in run.marks}
    return RunResult(
        schema=SCHEMA,
        run_id=run.info.run_id,
        tool_version=run.info.tool_version,
        started_at=_rfc3339(run.info.started_wall_ns),
        name=run.info.name,
        scenario=run.info.scenario,
        cluster=_cluster(run, seen, counts),
        outcome=verdict.outcome,
        reason=verdict.reason,
        checks=verdict.checks,
        summary=summary(run, counts, due, lost, round(outage / 1e6, 3)),
        windows=windows(counts, phases),
        rollout=rollout(run, seen, phases, marks["completed"].detail if "completed" in marks else ""),
        pods=pod_reports(seen, counts, all_stops, diagnosed, used, kept),
        findings=findings(diagnosed, costless, case),
        gaps=tuple(
            ResultGap(start=round(gap.start / 1e9, 6), end=round(gap.end / 1e9, 6), resource=gap.resource, reason=gap.reason)
            for gap in sorted((*run.gaps, *clock_gaps(run)), key=lambda gap: (gap.start, gap.resource))
        ),
        limits=_limits(matter, verdict, case),
        failed_requests=failed_requests(diagnosed),
        complete=run.closed and "end" in marks,
        interrupted="interrupted" in marks,
        command=run.info.command,
        drawing=drawing(run, seen, counts, phases.end),
    )


def phases_of(run: StoredRun) -> Phases:
    """The phases from the conductor's marks. Without a mark of the end, the last thing that was seen ends the run."""
    marks = {mark.name: mark.at for mark in run.marks}
    begins = tuple((phase, marks[str(phase)]) for phase in Phase if str(phase) in marks)
    end = marks.get("stop", marks.get("end"))
    if end is None:
        last = [mark.at for mark in run.marks] + [seen.seen for seen in run.seen[-1:]]
        last += [max(block.columns["ended"], default=0) for block in run.requests]
        end = max(last, default=0)
    return Phases(begins=begins, end=max(end, begins[-1][1] if begins else 0))


def _rfc3339(wall_ns: int) -> str:
    moment = dt.datetime.fromtimestamp(wall_ns // 1_000_000_000, tz=dt.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{wall_ns % 1_000_000_000 // 1_000_000:03d}Z"


def _cluster(run: StoredRun, seen: ClusterView, counts: Tally) -> Mapping[str, Any]:
    return {
        **run.info.cluster,
        "namespace": run.info.target.namespace,
        "deployment": run.info.target.deployment,
        "service": run.info.target.service,
        "url": run.info.target.url,
        "path_from": run.info.target.path_from,
        "path_proven": path_proven(run, seen, counts),
        "session_affinity": run.info.target.session_affinity,
        "missing_rights": list(run.info.missing_rights),
    }


def _case(
    run: StoredRun,
    seen: ClusterView,
    counts: Tally,
    facts: Mapping[str, PodFacts],
    attributed: Sequence[Attributed],
    phases: Phases,
    outage: int,
) -> Case:
    lag = lag_ns(attributed, facts) / 1e9
    span = phases.span(Phase.ROLLOUT)
    lowest, none_for = ready_endpoints(seen, span[0], phases.end) if span else (None, 0.0)
    slowest = max((max(samples) for samples in counts.latency.values() if samples), default=0) / 1e9
    return Case(
        view=seen,
        facts=facts,
        excesses=tuple(excesses(counts, attributed).values()),
        deployment=run.info.target.deployment,
        wait_s=max(5, math.ceil(2 * lag)),
        lag_s=lag,
        terminations=sum(1 for one in facts.values() if one.pod.deletion is not None),
        longest_request_s=min(slowest, run.info.scenario.get("timeout_s", slowest)),
        exec_form=_older_than_1_30(str(run.info.cluster.get("server_version", ""))),
        no_ready_s=none_for,
        min_ready=lowest,
        outage_s=outage / 1e9,
    )


def _older_than_1_30(version: str) -> bool:
    """The native sleep is on by default from 1.30 (KEP-3960). An unknown version counts as newer."""
    numbers = version.lstrip("v").split(".")
    try:
        return (int(numbers[0]), int(numbers[1].rstrip("+"))) < (1, 30)
    except (IndexError, ValueError):
        return False


def _costless(
    seen: ClusterView,
    facts: Mapping[str, PodFacts],
    diagnosed: Sequence[Diagnosed],
    case: Case,
    kept_at_end: Mapping[str, int],
) -> dict[str, list[str]]:
    """Faults that were there whatever they cost: code to the pods that show them."""
    found: dict[str, list[str]] = {}
    old = [one for one in facts.values() if one.pod.revision == "old" and one.pod.deletion is not None and not one.abnormal]
    for one in old:
        if one.pod.terminating_ready and not one.pod.prestop and one.quick:
            found.setdefault(EXITS_AT_ONCE, []).append(one.pod.name)
        elif one.moved and one.pod.exit_code in SIGNAL_EXITS and kept_at_end.get(one.pod.name, 0):
            found.setdefault(KEPT_CONNECTIONS_CUT, []).append(one.pod.name)
    own_doing = not any(one.abnormal or one.pod.disrupted or one.pod.blind for one in facts.values())
    if seen.rolled and own_doing and case.min_ready == 0 and TOO_FEW_READY not in {one.code for one in diagnosed}:
        found[TOO_FEW_READY] = []
    return found


def _limits(matter: Matter, verdict: Verdict, case: Case) -> tuple[str, ...]:
    run = matter.run
    found = list(run.notes)
    if verdict.outcome == "pass":
        found.append(
            f"What other rollouts would lose: a pass after {matter.exposed} exposed terminations; the same fault may cost none "
            "once and dozens of requests the next time."
        )
    if not matter.tally.named:
        found.append("No answer named its pod: attribution rests on times alone (an X-Pod-Name header, or --pod-from).")
    shared = sum(1 for one in matter.diagnosed if one.one.attribution.how is HowKnown.CANDIDATES)
    if shared:
        found.append(f"Which of several pods {shared} failed requests went to.")
    found.extend(
        f"When {one.pod.name} stopped listening: nothing shows it, and its spec has no wait."
        for one in matter.facts.values()
        if one.pod.revision == "old" and one.pod.deletion is not None and not one.pod.prestop and not one.quick
    )
    if one_gap := len(run.gaps):
        found.append(f"What changed while the watch was blind ({one_gap} gaps): its moments are late by up to the gap.")
    found.append(
        "When each proxy switched over is in no API object; it lies between the last request to a pod and the next one elsewhere."
    )
    if run.info.target.path_from in {"node-port", "cluster-ip", "loopback-node-port"}:
        found.append("Other ways in: an ingress or a cloud load balancer may follow a pod's end later than kube-proxy does.")
    if case.longest_request_s and run.info.scenario.get("timeout_s", 5) <= 4:
        found.append("A time-out of 4 s or less hides `no route to host`, which comes up to 4.1 s after the first packet.")
    found.extend(f"{right} is not allowed: {_without(right)}" for right in run.info.missing_rights)
    return tuple(found)


def _without(right: str) -> str:
    if "event" in right:
        return "Kubernetes Events (probe failures, kills, failed hooks) are missing from the evidence"
    if "log" in right:
        return "the pods' own log lines are missing from the evidence"
    if "node" in right:
        return "node addresses were taken from the pods"
    return "it is missing from the evidence"
