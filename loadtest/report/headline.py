"""Which sentences a result gets: badge, verdict, lead, rules and footing. The sentences themselves are in `wording`. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from loadtest.model import Check, Outcome, RunResult
from loadtest.report import wording
from loadtest.report.amounts import count, plural, share
from loadtest.report.facts import (
    STUCK,
    UNRELATED,
    costless,
    costly,
    exposed,
    lanes,
    loaded,
    lost,
    unrelated,
)


@dataclass(frozen=True, slots=True)
class Part:
    """Some words, perhaps to be stressed."""

    words: str
    strong: bool = False


def badge(result: RunResult) -> str:
    """The outcome in a word."""
    return wording.BADGES[result.outcome]


def verdict(result: RunResult) -> str:
    """The headline."""
    summary, rollout = result.summary, rolled(result)
    number = lost(result)
    match result.outcome:
        case Outcome.PASS:
            return wording.verdict_of_pass(
                sent=loaded(result)[1] if not number else summary.sent,
                lost=number,
                unrelated=unrelated(result),
                replaced=exposed(result)["any"],
                bound=summary.failure_rate_95[1],
                rollout=rollout,
            )
        case Outcome.INCONCLUSIVE:
            return wording.verdict_of_doubt(result.reason)
        case Outcome.FAIL:
            if number and (about_failures(result) or not broken(result)):
                return wording.verdict_of_failures(number, summary.sent, rollout=rollout)
            first = next(iter(broken(result)), None)
            if first is not None and all(finding.code != STUCK for finding in result.findings):
                return wording.verdict_of_rule(first.name, first.actual)
            return wording.sentence(result.reason).rstrip(".")


def rolled(result: RunResult) -> bool:
    """Whether the run had a rollout (or another step that replaces pods)."""
    return result.rollout.trigger not in ("", "none") or result.rollout.started is not None


def broken(result: RunResult) -> list[Check]:
    """The rules that do not hold."""
    return [check for check in result.checks if not check.passed]


def about_failures(result: RunResult) -> bool:
    """Whether a broken rule counts failures."""
    return any(check.name.startswith(("failed", "failure")) for check in broken(result))


def lead(result: RunResult) -> tuple[Part, ...]:
    """What happened in plain words, ending with what to change."""
    causes = costly(result)
    parts: list[Part] = []
    if causes:
        first = causes[0]
        parts.append(Part(wording.sentence(first.explanation or first.title)))
        others = [finding for finding in causes[1:] if finding.requests]
        spread = wording.share_of_causes(first.requests, sum(finding.requests for finding in others), len(others))
        parts.append(Part(spread))
        if first.code != UNRELATED:
            parts.append(Part(wording.sentence(first.fix), strong=True))
    elif result.outcome is Outcome.PASS:
        if exposed(result)["any"]:
            parts.append(Part(f"This rests on {exposure(result)}."))
    elif result.outcome is Outcome.INCONCLUSIVE:
        failed, sent = result.summary.failed, result.summary.sent
        words = f"{count(failed)} of {count(sent)} requests failed"
        parts.append(Part(f"{words}, but this run does not show what a rollout costs." if not failed else f"{words}."))
    elif result.reason and wording.sentence(result.reason).rstrip(".") != verdict(result):
        parts.append(Part(wording.sentence(result.reason)))
    quiet = costless(result)
    if quiet:
        words = f"{plural(len(quiet), 'fault')} {'was' if len(quiet) == 1 else 'were'} there and cost nothing this time."
        parts.append(Part(words, strong=not causes))
    return tuple(part for part in parts if part.words)


def exposure(result: RunResult) -> str:
    """The exposed terminations of each lane that was used."""
    found, used = exposed(result), lanes(result)
    return wording.exposure(*(found[name] if name in used else None for name in ("new", "reused")))


def notice(result: RunResult) -> str:
    """That the run was cut, or its record has no end; "" else."""
    if result.complete and not result.interrupted:
        return ""
    end = max([result.drawing.duration, *(window.end for window in result.windows)], default=0.0)
    return wording.interrupted(end, complete=result.complete)


def rules(result: RunResult) -> tuple[str, ...]:
    """One sentence for each rule."""
    return tuple(
        wording.rule(check.name, passed=check.passed, expected=check.expected, actual=check.actual) for check in result.checks
    )


def footing(result: RunResult) -> str:
    """The numbers under the answers: rate with its bounds, longest outage, exit code."""
    summary = result.summary
    low, high = summary.failure_rate_95
    parts = []
    failed, sent = loaded(result)
    if failed and sent:
        words = f"From the trigger on {count(failed)} of {count(sent)} failed" if rolled(result) else "Failed"
        parts.append(f"{words}: {share(failed / sent)} (95 %: {share(low)} to {share(high)})")
    parts.append(wording.outage(summary.longest_outage_ms))
    masked = summary.masked_by_retry.get("at_most", 0)
    if masked:
        parts.append(f"Clients that repeat would have hidden at most {count(masked)}")
    if summary.saved_by_tcp:
        parts.append(f"{count(summary.saved_by_tcp)} connected only after the kernel asked again")
    parts.append(f"Exit code {130 if result.interrupted else wording.EXIT_CODES[result.outcome]}")
    return ". ".join(parts) + "."
