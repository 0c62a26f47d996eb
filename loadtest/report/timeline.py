"""The detail of some seconds of a run on one time axis: requests of each lane, ready endpoints, pods' lives, what was said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from markupsafe import Markup

from loadtest.model import FailedRequest, Moment, PodReport, RunResult
from loadtest.report import svg
from loadtest.report.amounts import count, label, span
from loadtest.report.facts import Span, short_names
from loadtest.report.facts import lanes as lanes_of
from loadtest.report.harmless import visible
from loadtest.report.lanes import BAR, Lane, Sheet, choose, draw_life, draw_shared, life_of, marks
from loadtest.report.life import in_use
from loadtest.report.overview import columns
from loadtest.report.story import finish
from loadtest.report.svg import Axis, el
from loadtest.report.wording import lane

SPOKEN = 4  # rows of labels for Events
COMPACT = 18


def draw(result: RunResult, failed: Sequence[FailedRequest], window: Span, uid: str, *, narrow: bool) -> tuple[Markup, int]:
    """One SVG, 1120 or 350 pixels wide, and how many pods had no room in it. `failed`: those that are drawn and listed."""
    wide = 350 if narrow else 1120
    axis = Axis(window.start, window.end, 2 if narrow else 168, wide - 8)
    sheet = Sheet(axis=axis, uid=uid, narrow=narrow, listed=frozenset((one.worker, one.seq) for one in failed))
    y = 30.0
    for name in lanes_of(result):
        y = _requests(sheet, result, failed, name, y)
    if result.drawing.ready_endpoints:
        y = _endpoints(sheet, result, y)
    lanes = choose(result, result.failed_requests, window)
    short = short_names([pod.name for pod in result.pods])
    headed = False
    for item in lanes.shown:
        if item.compact and not headed:
            headed = True
            y += 22
            quiet = sum(one.compact for one in lanes.shown)
            sheet.labels.append(svg.text(2 if narrow else 0, y, f"{quiet} pods that lost none", colour="muted", bold=True))
        y = _compact(sheet, result, item, y) if item.compact else _pod(sheet, result, item, short, y)
    y = _spoken(sheet, result.drawing.moments, short, y)
    for gap in result.gaps:
        if axis.crosses(gap.start, gap.end):
            paint = {**svg.stroke("muted", 1, "2 2"), "fill": f"url(#{uid}-dots)", "fill_opacity": ".5"}
            sheet.back.insert(0, svg.bar(axis, gap.start, gap.end, 24, y - 30, paint, f"nobody saw changes of {gap.resource}", 2))
    words = f"Timeline from {label(window.start)} to {label(window.end)} s. The tables below hold the same facts."
    return finish(sheet, wide, y + 6, bottom=y, words=words, cls="tl", ticks=4 if narrow else 11), lanes.left_out


def _pad(*, narrow: bool) -> float:
    return 24.0 if narrow else 16.0


def _requests(sheet: Sheet, result: RunResult, failed: Sequence[FailedRequest], name: str, y: float) -> float:
    """Answered requests as bars of their bin, each failed one as a mark on a stem where it was sent."""
    axis = sheet.axis
    y += _pad(narrow=sheet.narrow)
    lane_count = result.summary.lanes.get(name)
    remark = f"{count(lane_count.failed)} of {count(lane_count.sent)} failed" if lane_count else ""
    sheet.name(y, f"{lane(name).capitalize()} connections", remark, "answered, by due time")
    finest = min((one.end - one.start for one in result.drawing.bins), default=0.1)
    seconds = (axis.end - axis.start) / (axis.right - axis.left)
    step = finest * max(1, -int(-3 * seconds // finest))
    found = columns(result.drawing.bins, name, step)
    most = max((column["ok"] + column["dropped"] for column in found.values()), default=1) or 1
    for index, column in sorted(found.items()):
        start, end = index * step, (index + 1) * step
        if not axis.crosses(start, end):
            continue
        x, width = axis(start) + 0.5, max(axis(end) - axis(start) - 1, 0.8)
        high = column["ok"] / most * 14
        if column["ok"]:
            words = f"{column['ok']} answered, due {span(start, end)} s"
            high = max(high, 1.6)
            sheet.back.append(el("rect", svg.title(words), x=x, width=width, y=y + 30 - high, height=high, **svg.fill("ok")))
        if column["dropped"]:
            tall = max(column["dropped"] / most * 14, 2.0)
            words = f"{column['dropped']} never sent, due {span(start, end)} s"
            paint = svg.both("bg", "muted", 0.8, "1 1")
            sheet.back.append(el("rect", svg.title(words), x=x, width=width, y=y + 30 - high - tall, height=tall, **paint))
    sheet.back.append(el("line", x1=axis.left, x2=axis.right, y1=y + 30.5, y2=y + 30.5, **svg.stroke("line")))
    stems: dict[str, list[str]] = {}
    heads = []
    for one in failed:
        if one.lane == name and axis.shows(one.started):
            stems.setdefault(svg.family(one.kind), []).append(f"M{axis(one.started):g} {y + 6:g}v24")
            heads.append(svg.use(sheet.uid, one.kind, axis(one.started), y + 6, echo=one.echo))
    sheet.front += [el("path", d="".join(places), **svg.stroke(hue, 1.6)) for hue, places in sorted(stems.items())]
    sheet.front += heads
    return y + 34


def _endpoints(sheet: Sheet, result: RunResult, y: float) -> float:
    """A line for what the slices call ready over an area of the pods that listen and are used."""
    axis, height = sheet.axis, 40.0
    y += _pad(narrow=sheet.narrow)
    use = in_use(result.pods, result.drawing.answering, axis.end)
    sheet.name(y, "Endpoints", "line: ready in slice", "area: used, listening" if use else "")
    steps = [*result.drawing.ready_endpoints]
    edges = sorted({moment for life in use for moment in life} | {axis.start, axis.end})
    at_once = (sum(first <= moment < high for first, _, high in use) for moment in edges)
    most = max([*(step.value for step in steps), *at_once, 1])

    def level(value: float) -> float:
        return y + height - value / most * (height - 4)

    for start, end in pairwise(edges):
        if not axis.crosses(start, end):
            continue
        middle = (start + end) / 2
        sure = sum(first <= middle < low for first, low, _ in use)
        perhaps = sum(first <= middle < high for first, _, high in use)
        if sure:
            words = f"{sure} used and listening ({span(start, end)} s)"
            sheet.back.append(svg.bar(axis, start, end, level(sure), y + height - level(sure), svg.fill("new", 0.28), words))
        if perhaps > sure:
            top = level(perhaps)
            sheet.back.append(svg.bar(axis, start, end, top, level(sure) - top, svg.fill("ink", 0.25), "somewhere in here"))
        if use and start >= min(life[0] for life in use) and not perhaps and axis(end) - axis(start) > 90:
            sheet.front.append(
                svg.text(axis(middle), y + height - 6, "0 could answer", colour="danger", anchor="middle", bold=True)
            )
    for at, step in enumerate(steps):
        until = steps[at + 1].at if at + 1 < len(steps) else axis.end
        if axis.crosses(step.at, until):
            words = f"{step.value} ready ({span(max(step.at, 0.0), until)} s)"
            sheet.front.append(svg.bar(axis, step.at, until, level(step.value) - 1.2, 2.4, svg.fill("ink"), words))
        if at and axis.shows(step.at):
            low, high = sorted((level(steps[at - 1].value), level(step.value)))
            sheet.front.append(svg.rule(axis, step.at, low, high, "ink", 1.5))
    for value in (0, most):
        x, lift = (axis.right, -3) if sheet.narrow else (axis.left - 5, 4)
        sheet.labels.append(svg.text(x, level(value) + lift, str(value), colour="muted", size=11, anchor="end"))
    return y + height + 4


def _under(item: Lane, *, narrow: bool) -> float:
    """Pixels below a lane's bar: answers, and a row of labels for pods that end."""
    ends = item.pod is not None and item.pod.deletion is not None
    return (10.0 + (16 if ends else 4)) if item.pod is not None else (6.0 if narrow else 18.0)


def _pod(sheet: Sheet, result: RunResult, item: Lane, short: Mapping[str, str], y: float) -> float:
    axis, pod = sheet.axis, item.pod
    ends = pod is not None and (pod.deletion is not None or pod.ended is not None)
    y += 24 if sheet.narrow else 26 if ends else 12
    sheet.name(y - (0 if sheet.narrow else 2), item.name, item.remark, item.place, tail=item.pod.revision if item.pod else "")
    marks(sheet, item.failed, y, short)
    if pod is None:
        draw_shared(sheet, y)
        return y + BAR + _under(item, narrow=sheet.narrow)
    draw_life(sheet, item, life_of(result, item, result.failed_requests), y)
    for start, end in result.drawing.answering.get(pod.name, ()):
        if axis.crosses(start, end):
            paint = svg.fill("old" if pod.revision == "old" else "new")
            sheet.back.append(svg.bar(axis, start, end, y + BAR + 3, 4, paint, f"answers came {span(start, end)} s", 1.4))
    if ends:
        _moments(sheet, pod, y)
    return y + BAR + _under(item, narrow=sheet.narrow)


def _moments(sheet: Sheet, pod: PodReport, y: float) -> None:
    """Lines across a pod's bar for what was seen of its end, and as many of their labels as find a place."""
    axis = sheet.axis
    above, below = svg.Row(y - 5, axis.left, axis.right), svg.Row(y + BAR + 18, axis.left, axis.right)
    code = "ended" if pod.exit_code is None else f"exit {pod.exit_code}"
    reason = f" {visible(pod.reason, 18)}" if pod.reason not in ("", "Completed") else ""
    stop = pod.stopped_listening
    known: list[tuple[float | None, str, svg.Row, str, str | None]] = [
        (pod.deletion, "deletion", above, "ink", None),
        (stop.latest, f"stopped listening {span(stop.earliest, stop.latest)}", above, "", None),
        (pod.endpoint_not_ready, "slice not ready", above, "ink", "1 1"),
        (pod.ended, code + reason, below, "ink", None),
        (pod.endpoint_removed, "out of slice", below, "ink", "3 2"),
        (pod.gone, "object gone", below, "muted", "1 2"),
    ]
    for moment, words, row, colour, dash in known:
        if moment is None or not axis.shows(moment):
            continue
        if colour:
            sheet.front.append(svg.rule(axis, moment, y - 3, y + BAR + 3, colour, 1.2, dash))
        if sheet.narrow and row is above:
            continue
        full = words if words.startswith("stopped") else f"{words} {label(moment)}"
        anchor = "end" if words == "deletion" else "start"
        placed = row.put(
            axis(moment) + (-3 if anchor == "end" else 3), full, anchor=anchor, colour="ink" if row is above else "muted"
        )
        if placed is not None:
            sheet.front.append(placed)


def _compact(sheet: Sheet, result: RunResult, item: Lane, y: float) -> float:
    y += 6
    if not sheet.narrow:
        sheet.labels.append(
            svg.text(0, y + 10, svg.fit(f"{item.name} {item.pod.revision if item.pod else ''}", 11, 160), colour="muted", size=11)
        )
    draw_life(sheet, item, life_of(result, item, ()), y, 10)
    return y + COMPACT - 6


def _spoken(sheet: Sheet, moments: Sequence[Moment], short: Mapping[str, str], y: float) -> float:
    """Events and marks where they arrived; labels as far as there is room."""
    axis = sheet.axis
    shown = [moment for moment in moments if axis.shows(moment.at)]
    if not shown:
        return y
    y += _pad(narrow=sheet.narrow)
    sheet.name(y, "Events, logs", "when they arrived here", "all are listed below")
    rows = [svg.Row(y + 18 + 13 * row, axis.left, axis.right) for row in range(SPOKEN)]
    used = 0
    for moment in shown:
        what, _, name = moment.subject.rpartition("/")
        words = visible(f"{short.get(name, what or name)} {moment.text}".strip())
        strong = moment.kind == "mark"
        colour = "ink" if strong else "muted"
        sheet.front.append(
            el(
                "g",
                svg.title(f"{moment.at:.3f} s {moment.subject} {moment.text}"),
                svg.rule(axis, moment.at, y, y + 9, colour, 1.6 if strong else 1),
            )
        )
        if sheet.narrow:
            continue
        for index, row in enumerate(rows):
            placed = row.put(axis(moment.at) + 2, visible(words, 34), colour=colour)
            if placed is not None:
                sheet.front.append(placed)
                used = max(used, index + 1)
                break
    return y + max(14 + 13 * used, 0 if sheet.narrow else 40)
