"""The whole run as bars: each lane's requests by due time, failures on top, with the detail's window and the phases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from markupsafe import Markup

from loadtest.model import Bin, RunResult
from loadtest.report import svg
from loadtest.report.amounts import count, label
from loadtest.report.facts import Span, axis_of, costly, failures_of
from loadtest.report.facts import lanes as used
from loadtest.report.svg import Axis, el
from loadtest.report.wording import lane

COLUMN = 8  # pixels
BARS = 26
STACK = ("answer", "cut", "silent", "refused", "dropped", "ok")


def columns(bins: tuple[Bin, ...], name: str, step: float) -> dict[int, Counter[str]]:
    """Bins of one lane gathered into columns of `step` seconds: counts of ok, dropped and each family of failures."""
    found: dict[int, Counter[str]] = {}
    for one in bins:
        if one.lane != name:
            continue
        column = found.setdefault(int((one.start + one.end) / 2 / step), Counter())
        column["ok"] += one.ok
        column["dropped"] += one.dropped
        for kind, number in one.failed.items():
            column[svg.family(kind)] += number
    return found


def stack(column: Mapping[str, int], x: float, width: float, base: float, scale: float) -> list[Markup]:
    """One column, failures at the bottom; whatever occurs gets at least 1.6 pixels of its colour."""
    drawn, y = [], base
    for name in STACK:
        number = column.get(name, 0)
        if not number:
            continue
        height = max(number * scale, 1.6)
        y -= height
        paint = svg.both("bg", "muted", 0.7, "1 1") if name == "dropped" else svg.fill(name)
        drawn.append(el("rect", x=x, y=y, width=width, height=height, **paint))
    return drawn


def draw(result: RunResult, detail: Span, uid: str, *, narrow: bool) -> Markup | None:
    """One SVG, 1120 or 350 pixels wide; None when there is nothing to draw."""
    lanes = [name for name in used(result) if any(one.lane == name for one in result.drawing.bins)]
    if not lanes:
        return None
    wide = 350 if narrow else 1120
    whole = axis_of(result)
    axis = Axis(whole.start, whole.end, 2 if narrow else 168, wide - 8)
    finest = min((one.end - one.start for one in result.drawing.bins), default=0.1)
    step = _step((axis.end - axis.start) / ((axis.right - axis.left) / COLUMN), finest)
    found = {name: columns(result.drawing.bins, name, step) for name in lanes}
    tallest = max((sum(column.values()) for lane_ in found.values() for column in lane_.values()), default=1)
    parts: list[Markup] = []
    base = 22.0
    phases = svg.Row(base - 8, axis.left, axis.right)
    for window in sorted(result.windows, key=lambda window: window.start - window.end):
        parts.append(svg.rule(axis, window.start, base - 18, base + 4 + len(lanes) * 46, "line"))
        parts.append(phases.put(axis(window.start) + 4, window.name, colour="muted") or Markup(""))
    parts.extend(_losses(result, detail, axis, svg.Row(base + 8, axis.left, axis.right)))
    top = base
    for name in lanes:
        base += 46
        width = axis(step) - axis(0)
        for index, column in sorted(found[name].items()):
            parts.extend(stack(column, axis(index * step) + 0.4, max(width - 0.8, 0.8), base, BARS / max(tallest, 1)))
        if narrow:
            parts.append(svg.text(2, base - 30, lane(name), size=11, colour="muted"))
        else:
            parts.append(svg.text(0, base - 12, f"{lane(name).capitalize()} connections", size=12))
            parts.append(svg.text(0, base + 2, "requests by due time", colour="muted", size=11))
    frame = {**svg.stroke("ink", 1.5), "fill": svg.LIGHT["ink"], "fill_opacity": ".07", "class_": "brush s-ink"}
    if detail != whole:
        parts.append(svg.bar(axis, detail.start, detail.end, top - 4, base - top + 8, frame, "the detail below", 3))
    for gap in result.gaps:
        paint = {**svg.stroke("muted"), "fill": f"url(#{uid}-dots)"}
        parts.append(svg.bar(axis, gap.start, gap.end, top, base - top, paint, f"nobody saw changes of {gap.resource}", 2))
    words = f"The whole run, {label(whole.end)} s: requests by due time in each lane. The tables below hold the same facts."
    return el(
        "svg",
        el("title", words, id=f"{uid}-t"),
        svg.patterns(uid),
        svg.join(parts),
        _ticks(axis, base + 16, 4 if narrow else 8),
        viewBox=f"0 0 {wide} {base + 22:g}",
        width=wide,
        height=base + 22,
        class_=f"ov {'narrow' if narrow else 'wide'}",
        role="group",
        aria_labelledby=f"{uid}-t",
    )


def _losses(result: RunResult, detail: Span, axis: Axis, row: svg.Row) -> list[Markup]:
    """How many were lost: beside the frame what lies in it, elsewhere each cause's rest and its echoes over their place."""
    framed = [one for one in result.failed_requests if detail.start <= one.started <= detail.end]
    labels = []
    if framed:
        labels.append(row.put(axis(detail.end) + 6, f"{count(len(framed))} lost", colour="danger", size=12, bold=True))
    for finding in costly(result)[:4]:
        for echo in (False, True):
            rest = [
                one for one in failures_of(result, finding) if one.echo is echo and not detail.start <= one.started <= detail.end
            ]
            if rest:
                middle = (axis(min(one.due for one in rest)) + axis(max(one.due for one in rest))) / 2
                words = f"{count(len(rest))} {'lost' if not echo else 'echo' if len(rest) == 1 else 'echoes'}"
                colour = "silent" if echo else "danger"
                labels.append(row.put(middle, words, anchor="middle", colour=colour, size=12, bold=True))
    return [label for label in labels if label is not None]


def _step(least: float, finest: float) -> float:
    """A whole number of bins at least `least` seconds long, so that no column gets a bin more than its neighbours."""
    return finest * max(1, -int(-least // finest))


def _ticks(axis: Axis, y: float, most: int) -> Markup:
    _, decimals, moments = axis.ticks(most)
    parts = []
    for moment in moments:
        x = axis(moment)
        words = f"{moment:.{decimals}f} s"
        anchor = "start" if x - svg.width_of(words, 11) / 2 < 0 else "end" if x + 16 > axis.right else "middle"
        parts.append(svg.text(x, y, words, colour="muted", size=11, anchor=anchor))
    return el("g", *parts)
