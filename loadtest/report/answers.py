"""The five answers a doubting reader asks for: which died, on which pod, why, how sure, what to change. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from loadtest.model import FailedRequest, Outcome, RunResult
from loadtest.report import wording
from loadtest.report.amounts import count, label, plural, span
from loadtest.report.facts import (
    UNRELATED,
    certainty,
    costless,
    costly,
    ended_pods,
    failures_of,
    lanes,
    loaded,
    short_names,
    still_sent,
)
from loadtest.report.headline import Part, exposure, rolled

NAMED = 3  # pods named in an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One of the five questions of a doubting reader. Each line is a row of parts."""

    term: str
    lines: tuple[tuple[Part, ...], ...]


def answers(result: RunResult) -> tuple[Answer, ...]:
    """Which died, on which pod, why, how sure, what to change; for a run without losses what stands in their place."""
    if result.summary.failed:
        second = Answer(term="On which pod", lines=_on_which(result))
        third = Answer(term="Why", lines=_why(result))
    else:
        second = Answer(term="Which pods ended", lines=_which_ended(result))
        third = Answer(term="Under which load", lines=_under_load(result))
    return (
        Answer(term="Which died", lines=_which_died(result)),
        second,
        third,
        Answer(term="How sure", lines=_how_sure(result)),
        Answer(term="What to change", lines=_what_to_change(result)),
    )


def _which_died(result: RunResult) -> tuple[tuple[Part, ...], ...]:
    lines: list[tuple[Part, ...]] = []
    for name, lane in lanes(result).items():
        many = plural(lane.sent, f"{wording.lane(name)} connection")
        lines.append((Part(count(lane.failed) if lane.failed else "None", strong=True), Part(f" of {many}")))
    causes = costly(result)
    first = failures_of(result, causes[0]) if causes else result.failed_requests
    times = [one.started for one in first if not one.echo]
    if times:
        rest = len(result.failed_requests) - len(times)
        words = f"{count(len(times))} sent {span(min(times), max(times))} s"
        lines.append((Part(words + (f", {count(rest)} at other times" if rest else "")),))
    if result.summary.dropped:
        dropped = sum(result.summary.dropped.values())
        lines.append((Part(f"{count(dropped)} more never sent: {', '.join(sorted(result.summary.dropped))}"),))
    return tuple(lines)


def _on_which(result: RunResult) -> tuple[tuple[Part, ...], ...]:
    short = short_names([pod.name for pod in result.pods])
    own: Counter[str] = Counter()
    shared: Counter[str] = Counter()
    for one in result.failed_requests:
        if len(one.attribution.pods) == 1:
            own[one.attribution.pods[0]] += 1
        else:
            shared["on a pod unknown" if not one.attribution.pods else f"on {certainty(one.attribution)}"] += 1
    worst = sorted(own.items(), key=lambda item: (-item[1], item[0]))
    lines = [(Part(count(number), strong=True), Part(f" on {short.get(name, name)}")) for name, number in worst[:NAMED]]
    if len(worst) > NAMED:
        rest = sum(number for _, number in worst[NAMED:])
        lines.append((Part(count(rest), strong=True), Part(f" on {plural(len(worst) - NAMED, 'other pod')}")))
    if len(shared) > NAMED:
        unknown = shared.pop("on a pod unknown", 0)
        shared = Counter({"on one of several": sum(shared.values())}) + Counter({"on a pod unknown": unknown})
    lines += [(Part(count(number), strong=True), Part(f" {words}")) for words, number in sorted(shared.items())]
    new = [pod for pod in result.pods if pod.revision == "new"]
    if new and not any(pod.failed.at_most for pod in new):
        lines.append((Part("0", strong=True), Part(" on a new pod")))
    return tuple(lines)


def _why(result: RunResult) -> tuple[tuple[Part, ...], ...]:
    causes = costly(result)
    if not causes:
        return ((Part("No cause was found"),),)
    first = causes[0]
    lines: list[tuple[Part, ...]] = [(Part(wording.sentence(first.title)),)]
    short = short_names([pod.name for pod in result.pods])
    failed = failures_of(result, first)
    for pod in ended_pods(result):
        sent = still_sent(pod, failed)
        if sent is not None and len(lines) < 1 + NAMED:
            length = f"{span(sent.low, sent.high)} s" if sent.high is not None else f"at least {label(sent.low)} s"
            lines.append((Part(f"{short[pod.name]}: still sent to for "), Part(length, strong=True)))
    return tuple(lines)


def _which_ended(result: RunResult) -> tuple[tuple[Part, ...], ...]:
    ended = ended_pods(result)
    if not ended:
        return (
            (
                Part("None", strong=True),
                Part(" in this run"),
            ),
        )
    short = short_names([pod.name for pod in result.pods])
    lines: list[tuple[Part, ...]] = []
    for pod in ended[:NAMED]:
        use = ", ".join(f"{count(getattr(pod.exposure, name))} {wording.lane(name)}" for name in lanes(result))
        lines.append((Part(short[pod.name], strong=True), Part(f": {use} connections on it")))
    if len(ended) > NAMED:
        lines.append((Part(f"and {plural(len(ended) - NAMED, 'other')}"),))
    return tuple(lines)


def _under_load(result: RunResult) -> tuple[tuple[Part, ...], ...]:
    rollout = next((window for window in result.windows if window.name in ("rollout", "steps")), None)
    lines: list[tuple[Part, ...]] = [(Part(count(result.summary.sent), strong=True), Part(" requests in all"))]
    if rollout is not None:
        lines.append(
            (Part(count(rollout.sent), strong=True), Part(f" while pods changed ({label(rollout.end - rollout.start)} s)"))
        )
    late = result.summary.lateness_us.p99
    if late is not None:
        lines.append((Part(f"Load on time: 99 % within {late / 1000:,.1f} ms"),))
    return tuple(lines)


def _how_sure(result: RunResult) -> tuple[tuple[Part, ...], ...]:
    lines: list[tuple[Part, ...]] = []
    baseline = next((window for window in result.windows if window.name == "baseline"), None)
    if result.summary.failed:
        if baseline is not None:
            lines.append((Part(f"It fails: {count(baseline.failed)} of {count(baseline.sent)} before the rollout"),))
        causes = costly(result)
        if causes and causes[0].evidence:
            lines.append((Part("Cause: "), *_tally(item.certainty for item in causes[0].evidence), Part(" (evidence)")))
        pods = _pods_known(result.failed_requests)
        if pods:
            lines.append((Part("Pod: "), *pods))
        return tuple(lines)
    if result.outcome is Outcome.INCONCLUSIVE:
        lines.append((Part("Not enough", strong=True), Part(f": {wording.sentence(result.reason)}")))
    else:
        lines.append((Part(wording.bound_of_nothing(loaded(result)[1], result.summary.failure_rate_95[1])),))
    if rolled(result):
        lines.append((Part(wording.sentence(exposure(result))),))
    return tuple(lines)


def _tally(words: Iterable[str]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for word, number in Counter(words).items():
        parts += [Part(", " if parts else ""), Part(word, strong=True), Part(f" for {count(number)}")]
    return tuple(parts)


def _pods_known(failed: Iterable[FailedRequest]) -> tuple[Part, ...]:
    order = ("proven", "by elimination")
    words = sorted((certainty(one.attribution) for one in failed), key=lambda word: (word not in order, word == "unknown", word))
    return _tally(words)


def _what_to_change(result: RunResult) -> tuple[tuple[Part, ...], ...]:
    causes = [finding for finding in costly(result) if finding.code != UNRELATED and finding.fix]
    chosen = [finding for finding in causes[:2] if finding.fix_yaml] or causes[:1]
    lines = [(Part(wording.sentence(finding.fix)),) for finding in chosen]
    if not lines and result.outcome is not Outcome.INCONCLUSIVE:
        quiet = [finding for finding in costless(result) if finding.fix]
        lines = [(Part(wording.sentence(finding.fix)),) for finding in quiet[:2]] or [(Part("Nothing"),)]
    return tuple(lines) or ((Part("Not known yet: see what this run cannot know"),),)
