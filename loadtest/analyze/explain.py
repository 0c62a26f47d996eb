"""From causes to findings: each with its words, its share of the pods, evidence a reader can check, and what was ruled out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from loadtest.analyze.attribute import Attributed
from loadtest.analyze.diagnose import (
    DROPS_CONNECTIONS,
    EXITS_AT_ONCE,
    IDLE_CLOSE_RACE,
    KEPT_CONNECTIONS_CUT,
    LATE_ENDPOINTS,
    NO_READINESS_PROBE,
    NOT_THE_ROLLOUT,
    STALE_CONNTRACK,
    TOO_FEW_READY,
    UNKNOWN,
    WAIT_TOO_SHORT,
    Diagnosed,
)
from loadtest.analyze.facts import PodFacts
from loadtest.analyze.words import Case, plural, words
from loadtest.model import Evidence, FailureKind, Finding, FindingPod, HowKnown, Interval

PROVEN, BY_ELIMINATION, CONSISTENT, UNSURE = "proven", "by elimination", "consistent with", "unknown"

ORDER = (
    EXITS_AT_ONCE,
    WAIT_TOO_SHORT,
    LATE_ENDPOINTS,
    TOO_FEW_READY,
    NO_READINESS_PROBE,
    DROPS_CONNECTIONS,
    KEPT_CONNECTIONS_CUT,
    IDLE_CLOSE_RACE,
    UNKNOWN,
    STALE_CONNTRACK,
    NOT_THE_ROLLOUT,
)
"""Among findings with as many requests: this rollout's own causes first."""


def findings(diagnosed: Sequence[Diagnosed], costless: Mapping[str, Sequence[str]], case: Case) -> tuple[Finding, ...]:
    """One finding for each code, the dearest first.

    Args:
        diagnosed: all failed requests with their codes.
        costless: code to the pods that show its fault, for faults that may have cost nothing.
        case: what explanations refer to.
    """
    by_code: dict[str, list[Diagnosed]] = {}
    for one in diagnosed:
        by_code.setdefault(one.code, []).append(one)
    for code in costless:
        by_code.setdefault(code, [])
    found = [_finding(code, members, costless.get(code, ()), case) for code, members in by_code.items()]
    return tuple(sorted(found, key=lambda f: (-f.requests, ORDER.index(f.code) if f.code in ORDER else len(ORDER))))


def _finding(code: str, members: Sequence[Diagnosed], shown_by: Sequence[str], case: Case) -> Finding:
    own = [one for one in members if not one.echo]
    title, explanation, fix, patch = words(code, own, shown_by, case)
    return Finding(
        code=code,
        title=title,
        explanation=explanation,
        fix=fix,
        fix_yaml=yaml.safe_dump(patch, sort_keys=False) if patch else "",
        requests=len(members),
        echoes=len(members) - len(own),
        pods=_shares(members, shown_by),
        window=_window(own or members),
        evidence=_evidence(code, members, shown_by, case),
        ruled_out=_ruled_out(code, members, case),
    )


def _shares(members: Sequence[Diagnosed], shown_by: Sequence[str]) -> tuple[FindingPod, ...]:
    sure: dict[str, int] = dict.fromkeys(shown_by, 0)
    at_most: dict[str, int] = dict.fromkeys(shown_by, 0)
    for member in members:
        pods = member.one.attribution.pods
        for name in pods:
            at_most[name] = at_most.get(name, 0) + 1
            sure[name] = sure.get(name, 0) + (1 if len(pods) == 1 else 0)
    return tuple(FindingPod(name=name, sure=sure[name], at_most=at_most[name]) for name in sorted(at_most))


def _window(members: Sequence[Diagnosed]) -> Interval:
    if not members:
        return Interval(earliest=None, latest=None)
    starts = [one.one.row.started for one in members]
    return Interval(earliest=round(min(starts) / 1e9, 6), latest=round(max(starts) / 1e9, 6))


def _evidence(code: str, members: Sequence[Diagnosed], shown_by: Sequence[str], case: Case) -> tuple[Evidence, ...]:
    found: list[Evidence] = []
    names = sorted({name for one in members for name in one.one.attribution.pods} | set(shown_by))
    if code != NOT_THE_ROLLOUT:
        found.extend(_pod_end(case.facts[name]) for name in names if name in case.facts)
    if code == TOO_FEW_READY:
        text = f"The slices had {case.min_ready} ready endpoints at the least, and none for {case.no_ready_s:.2f} s."
        found.append(Evidence(certainty=PROVEN, text=text))
    kinds = _kinds(members)
    if kinds:
        found.append(Evidence(certainty=PROVEN, text=f"As requests saw it: {kinds}."))
    found.extend(_how_known(members))
    echoes = [one for one in members if one.echo]
    if echoes:
        text = f"{plural(len(echoes), 'echo')[:40]} later: a connection from a source port that had failed before.".replace(
            "echos", "echoes"
        )
        found.append(Evidence(certainty=PROVEN, text=text))
    if code == STALE_CONNTRACK:
        ports = sum(1 for one in members if one.one.echo_of is not None)
        certainty = PROVEN if ports == len(members) else CONSISTENT
        text = f"{ports} of {len(members)} came from a source port whose connection had failed before."
        found.append(Evidence(certainty=certainty, text=text))
    return tuple(found)


def _pod_end(pod: PodFacts) -> Evidence:
    life = pod.pod
    parts = [f"{life.name}: deletion seen at {_s(life.deletion)}" if life.deletion is not None else f"{life.name}: never deleted"]
    if life.not_ready is not None:
        parts.append(f"out of the ready endpoints at {_s(life.not_ready)}")
    if life.ended is not None:
        parts.append(f"end seen at {_s(life.ended)}")
    end = f"exit {life.exit_code} {life.reason}".strip() if life.exit_code is not None else "exit code not seen"
    parts.append(end + (f" (finishedAt {life.finished_at})" if life.finished_at else ""))
    parts.append(f"preStop: {life.prestop}" if life.prestop else "no preStop in its spec")
    return Evidence(certainty=PROVEN if life.exit_code is not None else CONSISTENT, text="; ".join(parts) + ".")


def _s(at: int) -> str:
    return f"{at / 1e9:.3f} s"


def _kinds(members: Sequence[Diagnosed]) -> str:
    counts: dict[FailureKind, int] = {}
    for one in members:
        counts[one.one.row.kind] = counts.get(one.one.row.kind, 0) + 1
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items(), key=lambda item: -item[1]))


def _how_known(members: Sequence[Diagnosed]) -> list[Evidence]:
    own = [one.one for one in members if not one.echo]
    words = {
        HowKnown.HEADER: (PROVEN, "named their pod in the answer itself"),
        HowKnown.CONNECTION: (PROVEN, "were on a connection on which that pod had answered before"),
        HowKnown.ONLY_CANDIDATE: (
            BY_ELIMINATION,
            "can only have gone to that pod: every other one was answering, or fresh connections had long left it",
        ),
        HowKnown.CANDIDATES: (CONSISTENT, "went to one of several pods that the facts leave open"),
        HowKnown.UNKNOWN: (UNSURE, "reached no pod that is known"),
    }
    found = []
    for how, (certainty, text) in words.items():
        count = _count_how(own, how)
        if count:
            found.append(Evidence(certainty=certainty, text=f"{count} of {len(own)} {text}."))
    return found


def _count_how(own: Sequence[Attributed], how: HowKnown) -> int:
    return sum(1 for one in own if one.attribution.how is how)


def _ruled_out(code: str, members: Sequence[Diagnosed], case: Case) -> tuple[str, ...]:
    found: list[str] = []
    if code in {NOT_THE_ROLLOUT, STALE_CONNTRACK, UNKNOWN} or not members:
        return ()
    if code != TOO_FEW_READY and case.min_ready:
        found.append(f"Not too few ready pods: the slices never had fewer than {case.min_ready}.")
    names = {name for one in members for name in one.one.attribution.pods}
    ends = [case.facts[name].pod for name in names if name in case.facts]
    if ends and all(pod.reason != "OOMKilled" and pod.exit_code != 137 for pod in ends):
        found.append("Not a kill: no pod ended with 137 or OOMKilled.")
    if not case.excesses:
        found.append("Not there before: the baseline had no failure.")
    cut = sum(1 for one in members if one.one.row.connected)
    if code == EXITS_AT_ONCE and cut == 0:
        found.append("Not cut requests: none died on an open connection.")
    if code in {KEPT_CONNECTIONS_CUT, DROPS_CONNECTIONS}:
        found.append("Not late endpoints: no fresh connection was lost at that moment.")
    return tuple(found)
