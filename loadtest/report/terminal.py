"""The closing summary for a person: at most 80 columns and about 40 lines, the same characters with and without colour.

`lines` decides what stands where, as plain values; `show` writes it, through rich only where colour is wanted. Whether it is
wanted (a terminal, `NO_COLOR`) is the command line's to know.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from loadtest.model import Finding, Outcome, PodReport, RunResult
from loadtest.report import facts, headline, wording
from loadtest.report.amounts import NOTHING, between, count, offset, plural
from loadtest.report.harmless import visible
from loadtest.report.result_json import by_code

WIDTH = 80
CAUSES, PODS, LIMITS = 3, 5, 2
TONES = {
    Outcome.PASS: "bold white on dark_green",
    Outcome.FAIL: "bold white on red",
    Outcome.INCONCLUSIVE: "bold black on yellow",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """Some characters and how they look. `style` is one of rich's, or "" for plain."""

    words: str
    style: str = ""


Line = tuple[Piece, ...]


def show(result: RunResult, stream: IO[str], *, report: str = "", colour: bool = False, width: int = WIDTH) -> None:
    """Writes the summary. `report`: the path of the page, named in the last line; `colour`: the stream takes colour."""
    found = lines(result, report=report, width=width)
    if not colour:
        stream.write(plain(found))
        return
    from rich.console import Console  # late: 60 ms that a run without colour does not need
    from rich.text import Text

    console = Console(
        file=stream, force_terminal=True, color_system="standard", highlight=False, width=max(width, WIDTH), _environ={}
    )
    for line in found:
        row = Text(no_wrap=True)
        for piece in line:
            row.append(piece.words, piece.style or None)
        console.print(row, soft_wrap=True)


def plain(found: Sequence[Line]) -> str:
    """The lines without any style."""
    return "".join("".join(piece.words for piece in line).rstrip() + "\n" for line in found)


def lines(result: RunResult, *, report: str = "", width: int = WIDTH) -> list[Line]:
    """All lines in order."""
    width = max(min(width, 120), 40)
    found = _head(result, width)
    found += [(), *_codes(result), *_lanes(result)]
    for finding in facts.costly(result)[:CAUSES]:
        found += [(), *_cause(finding, width)]
    rest = len(facts.costly(result)) - CAUSES
    if rest > 0:
        found.append((Piece(f"      and {plural(rest, 'other cause')}: see the report", "dim"),))
    for finding in facts.costless(result)[:CAUSES]:
        title = f"cost nothing this time: {wording.clause(visible(finding.title))} ({visible(finding.code)})"
        found += _wrapped("   0  ", title, width)
    if result.pods:
        found += [(), *_pods(result, width)]
    found += [(), *_windows(result, width)]
    found += _sureness(result, width)
    if result.limits:
        found += [(), *_limits(result, width)]
    if report:
        found += [(), (Piece("report: "), Piece(visible(report), "bold"))]
    return found


def _wrapped(first: str, words: str, width: int, style: str = "", lead_style: str = "", most: int = 3) -> list[Line]:
    """`words` behind `first`, further lines indented as far; at most `most` lines."""
    room = max(width - len(first), 20)
    rows = textwrap.wrap(visible(words), room, max_lines=most, placeholder=" …", break_on_hyphens=False) or [""]
    indent = " " * len(first)
    return [(Piece(indent if index else first, "" if index else lead_style), Piece(row, style)) for index, row in enumerate(rows)]


def _head(result: RunResult, width: int) -> list[Line]:
    badge = f" {headline.badge(result)} "
    found = _wrapped(badge + " ", headline.verdict(result), width, "bold")
    first = found[0]
    found[0] = (Piece(badge, TONES[result.outcome]), Piece(" "), *first[1:])
    notice = headline.notice(result)
    if notice:
        found += _wrapped("", notice, width, "yellow")
    lead = " ".join(part.words for part in headline.lead(result) if not part.strong)
    if lead:
        found += _wrapped("", lead, width)
    broken = [check for check in result.checks if not check.passed]
    for check in broken[:3]:
        found += _wrapped("", wording.rule(check.name, passed=False, expected=check.expected, actual=check.actual), width)
    if result.checks and not broken:
        found += _wrapped("", f"Rules that hold: {'; '.join(check.name for check in result.checks)}", width)
    return found


def _codes(result: RunResult) -> list[Line]:
    """As fortio prints them, sorted by code, so that what reads fortio's text reads this."""
    total = sum(result.summary.codes.values())
    found: list[Line] = []
    for code in by_code(result.summary.codes):
        number = result.summary.codes[code]
        words = f"Code {code:>3} : {number} ({number / total * 100 if total else 0:.1f} %)"
        good = code.startswith("2")
        found.append((Piece(visible(words), "" if good else "red"),))
    return found


def _lanes(result: RunResult) -> list[Line]:
    parts = []
    for name, lane in facts.lanes(result).items():
        parts.append(f"{visible(wording.lane(name))}: {count(lane.failed)} of {count(lane.sent)} failed")
    found: list[Line] = [(Piece("Connections  " + "    ".join(parts)),)] if parts else []
    dropped = result.summary.dropped
    if dropped:
        words = ", ".join(f"{visible(name)}: {count(number)}" for name, number in sorted(dropped.items()))
        found.append((Piece(f"Never sent   {words}", "yellow"),))
    if result.summary.open or result.summary.lost:
        words = f"Without end  open when cut: {count(result.summary.open)}, lost with a worker: {count(result.summary.lost)}"
        found.append((Piece(words, "yellow"),))
    return found


def _cause(finding: Finding, width: int) -> list[Line]:
    first = f"{count(finding.requests):>5} " if finding.requests else "      "
    words = f"{wording.sentence(visible(finding.title)).rstrip('.')} ({visible(finding.code)})"
    found = _wrapped(first, words, width, "bold", "bold red")
    if finding.echoes:
        found += _wrapped("      ", f"{plural(finding.echoes, 'echo', 'echoes')} among them, gone with the cause", width, "dim")
    if finding.fix:
        found += _wrapped("      fix: ", wording.sentence(visible(finding.fix)), width, "green")
    return found


def _pods(result: RunResult, width: int) -> list[Line]:
    """A row for each pod that ended or lost requests, worst first where there are too many."""
    short = facts.short_names([pod.name for pod in result.pods])
    wanted = [pod for pod in result.pods if pod.deletion is not None or pod.ended is not None or pod.failed.at_most]
    if not wanted:
        return [(Piece(f"{plural(len(result.pods), 'pod')}, none ended"),)]
    chosen = wanted if len(wanted) <= PODS else sorted(wanted, key=lambda pod: (-pod.failed.at_most, pod.name))[:PODS]
    rows: list[tuple[str, ...]] = [("pod", "end", "served", "lost", "last fresh", "last kept", "in use when it ended")]
    rows += [_pod(pod, short[pod.name]) for pod in chosen]
    right = (False, False, True, True, True, True, False)
    sizes = [max(len(row[column]) for row in rows) for column in range(len(right))]
    found: list[Line] = []
    for index, row in enumerate(rows):
        cells = [cell.rjust(size) if side else cell.ljust(size) for cell, size, side in zip(row, sizes, right, strict=True)]
        found.append((Piece("  ".join(cells).rstrip()[:width], "dim" if index == 0 else ""),))
    if len(wanted) > len(chosen):
        found.append((Piece(f"and {plural(len(wanted) - len(chosen), 'other')}: see the report", "dim"),))
    found.append((Piece("last request of a lane: after the deletion was seen; lost: surely to at most", "dim"),))
    return found


def _pod(pod: PodReport, name: str) -> tuple[str, ...]:
    ended = pod.deletion is not None or pod.ended is not None
    end = "runs" if not ended else "?" if pod.exit_code is None else f"exit {pod.exit_code}"
    if pod.reason and pod.reason not in ("Completed", "Error") and ended:
        end += f" {visible(pod.reason, 10)}"
    use = f"{count(pod.exposure.new)} fresh, {count(pod.exposure.reused)} kept" if ended else NOTHING
    return (
        visible(name, 18),
        end,
        count(pod.served),
        between(pod.failed.sure, pod.failed.at_most),
        offset(pod.last_request.new),
        offset(pod.last_request.reused),
        use,
    )


def _windows(result: RunResult, width: int) -> list[Line]:
    parts = [f"{visible(window.name)} {count(window.failed)} of {count(window.sent)}" for window in result.windows if window.sent]
    found = _wrapped("Failed by phase: ", ", ".join(parts), width) if parts else []
    return found + _wrapped("", headline.footing(result), width)


def _sureness(result: RunResult, width: int) -> list[Line]:
    """What zero failures are worth, and on how many terminations it rests."""
    parts = []
    if result.outcome is Outcome.PASS and not result.summary.failed:
        parts.append(wording.bound_of_nothing(facts.loaded(result)[1], result.summary.failure_rate_95[1]))
    if headline.rolled(result) and result.outcome is not Outcome.FAIL:
        parts.append(wording.sentence(headline.exposure(result)))
    return _wrapped("", " ".join(parts), width) if parts else []


def _limits(result: RunResult, width: int) -> list[Line]:
    found: list[Line] = [(Piece("What this run cannot know", "bold"),)]
    for limit in result.limits[:LIMITS]:
        found += _wrapped("- ", limit, width, most=2)
    if len(result.limits) > LIMITS:
        found.append((Piece(f"  and {len(result.limits) - LIMITS} more: see the report", "dim"),))
    return found
