"""The picture of one cause: only the pods it concerns, only the seconds it concerns, with the gap that cost the requests."""

from __future__ import annotations

from markupsafe import Markup

from loadtest.model import Finding, PodReport, RunResult
from loadtest.report import svg
from loadtest.report.amounts import count, label, span
from loadtest.report.facts import around, failures_of, short_names, still_sent
from loadtest.report.lanes import BAR, Lane, Lanes, Sheet, choose, draw_life, draw_shared, life_of, marks
from loadtest.report.svg import Axis, el
from loadtest.report.thin import thin
from loadtest.report.wording import gap

MOST_OLD, MOST_NEW = 4, 2
MARKS = 200  # drawn in one lane; the number beside it counts all


def draw(result: RunResult, finding: Finding, uid: str, *, narrow: bool) -> Markup | None:
    """One SVG, 700 or 350 pixels wide; None where there is nothing to draw."""
    failed = [one for one in failures_of(result, finding) if not one.echo]
    if not failed:
        return None
    window = around(result, finding)
    wide = 350 if narrow else 700
    lost_room = svg.width_of(count(len(failed)), 13) if narrow else svg.width_of(f"{count(len(failed))} lost", 14) * 1.06
    axis = Axis(window.start, window.end, 2 if narrow else 128, wide - max(lost_room + 10, 38))
    sheet = Sheet(axis=axis, uid=uid, narrow=narrow)
    short = short_names([pod.name for pod in result.pods])
    moved = _moved(result, max(one.started for one in failed))
    y = 34.0
    lanes = _concerned(choose(result, failed, window), finding)
    for item in lanes:
        y += 22 if narrow else 6
        sheet.name(y, item.name, *_remarks(item))
        if item.pod is None:
            draw_shared(sheet, y)
        else:
            draw_life(sheet, item, life_of(result, item, failed), y)
        marks(sheet, thin(item.failed, MARKS, 10), y, short, link=False)
        lost = len(item.failed)
        if lost:
            words = count(lost) if narrow else f"{count(lost)} lost"
            sheet.labels.append(
                svg.text(axis.right + 6, y + 18, words, colour="danger", size=14 if not narrow else 13, bold=True)
            )
        y += BAR
        sent = still_sent(item.pod, failed) if item.pod is not None else None
        if sent is not None:
            row = svg.Row(y + 14, axis.left, axis.right)
            middle = (axis(sent.until - sent.low) + axis(sent.until)) / 2
            for words, anchor in ((gap(sent.low, sent.high), "middle"), (gap(sent.low, sent.high, brief=True), "middle")):
                placed = row.put(middle, words, anchor=anchor, colour="danger", size=12, bold=True)
                placed = placed or row.put(axis(sent.until), words, anchor="end", colour="danger", size=12, bold=True)
                if placed is not None:
                    sheet.labels.append(placed)
                    break
            y += 18
        y += 0 if narrow else 8
    height = y + (20 if moved else 6)
    if moved:
        low, high = moved
        sheet.back.append(svg.bar(axis, low, high, 26, y - 22, svg.fill("ink", 0.16), f"traffic moves in {span(low, high, 3)} s"))
        words = f"traffic moves to the new pods {span(low, high)} s"
        at = min(axis(high) + 4, axis.right)
        fits = at - svg.width_of(words, 12) > 0
        sheet.labels.append(svg.text(at if fits else 2, y + 12, words, size=12, anchor="end" if fits else "start", bold=True))
    return finish(sheet, wide, height, bottom=y + 2, words=describe(result, finding), cls="story")


def finish(sheet: Sheet, wide: float, height: float, *, bottom: float, words: str, cls: str, ticks: int = 0) -> Markup:
    """The sheet as an `svg` element with its grid and clip path."""
    axis = sheet.axis
    clip = el("rect", x=axis.left, y=0, width=axis.right - axis.left, height=height)
    return el(
        "svg",
        el("title", words, id=f"{sheet.uid}-t"),
        svg.patterns(sheet.uid),
        svg.symbols(sheet.uid),
        el("defs", el("clipPath", clip, id=f"{sheet.uid}-clip")),
        svg.grid(axis, 20, bottom, ticks or (4 if sheet.narrow else 7)),
        el("g", svg.join(sheet.back), svg.join(sheet.front), clip_path=f"url(#{sheet.uid}-clip)"),
        svg.join(sheet.labels),
        viewBox=f"0 0 {wide:g} {height:g}",
        width=wide,
        height=height,
        class_=f"{cls} {'narrow' if sheet.narrow else 'wide'}",
        role="group",
        aria_labelledby=f"{sheet.uid}-t",
    )


def describe(result: RunResult, finding: Finding) -> str:
    """The picture in words."""
    failed = failures_of(result, finding)
    parts = []
    short = short_names([pod.name for pod in result.pods])
    for share in finding.pods[:MOST_OLD]:
        pod = next((one for one in result.pods if one.name == share.name), None)
        sent = still_sent(pod, failed) if pod is not None else None
        if pod is not None and sent is not None:
            parts.append(f"{short[pod.name]}: {gap(sent.low, sent.high)}")
    times = [one.started for one in failed if not one.echo]
    when = f" between {label(min(times))} and {label(max(times))} s" if times else ""
    return ". ".join([f"{count(finding.requests)} requests lost{when}", *parts]) + ". The tables below hold the same facts."


def _remarks(item: Lane) -> tuple[str, ...]:
    if item.pod is None:
        return (item.place,)
    return (f"{item.pod.revision} pod",)


def _concerned(lanes: Lanes, finding: Finding) -> list[Lane]:
    """Pods that lost, worst first when there are too many; then who took over."""
    names = {pod.name for pod in finding.pods}
    losers = [item for item in lanes.shown if item.pod is not None and (item.failed or item.pod.name in names)]
    if len(losers) > MOST_OLD:
        worst = sorted(losers, key=lambda item: -len(item.failed))[:MOST_OLD]
        losers = [item for item in losers if item in worst]
    shared = [item for item in lanes.shown if item.pod is None and item.failed]
    fresh = [item for item in lanes.shown if item.pod is not None and item.pod.revision == "new" and item not in losers]
    return [*losers, *shared, *fresh[:MOST_NEW]]


def _moved(result: RunResult, last: float) -> tuple[float, float] | None:
    """From the last lost request to the first one that a new pod answered, where the new pods were all idle before."""
    firsts = [pod.first_request for pod in result.pods if _took_over(pod)]
    first = min((moment for moment in firsts if moment is not None), default=None)
    return (last, first) if first is not None and last < first < last + 2 else None


def _took_over(pod: PodReport) -> bool:
    return pod.revision == "new" and pod.first_request is not None
