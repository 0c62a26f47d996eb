"""Swim lanes: which pods get one and how a pod's life is drawn in it, with the failed requests that are (or may be) its own.

One request is drawn once: on its pod, or on a lane for its candidates, never on two pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from loadtest.model import FailedRequest, PodReport, RunResult
from loadtest.report import svg
from loadtest.report.amounts import between, count, label, span
from loadtest.report.facts import Span, certainty, short_names
from loadtest.report.harmless import short_middle, visible
from loadtest.report.life import VAGUE, Stage, stages
from loadtest.report.svg import Axis, el
from loadtest.report.wording import kind, lane

BAR = 26
FULL = 12  # up to this many pods, each has a full lane
MOST = 40
SHARED = 3  # lanes for sets of candidates; more sets share one


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A pod, or (`pod` None) requests that cannot be told apart between several."""

    pod: PodReport | None
    name: str
    remark: str
    place: str
    failed: tuple[FailedRequest, ...]
    compact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """What is drawn, and how many pods are left to the table."""

    shown: tuple[Lane, ...]
    left_out: int


@dataclass(slots=True, kw_only=True)
class Sheet:
    """A figure being drawn. `back` and `front` are clipped to the plot, `labels` are not.

    `listed`: (worker, seq) of the failures that may be drawn, where the figure's own are more; None: all.
    """

    axis: Axis
    uid: str
    narrow: bool
    listed: frozenset[tuple[int, int]] | None = None
    back: list[Markup] = field(default_factory=list)
    front: list[Markup] = field(default_factory=list)
    labels: list[Markup] = field(default_factory=list)

    def name(self, y: float, name: str, *remarks: str, tail: str = "") -> None:
        """A lane's name and a word behind it: in the gutter left of it, or above it where there is no gutter."""
        if self.narrow:
            words = " · ".join(word for word in (tail, *remarks[:1]) if word)
            room = self.axis.right - svg.width_of(name, 12) - 8
            self.labels.append(svg.text(2, y - 6, name, svg.small(svg.fit(words, 11, room)), bold=True))
            return
        name = short_middle(name, int((self.axis.left - 8) / svg.width_of("m", 13)))
        behind = svg.small(tail) if svg.width_of(f"{name} {tail}", 13) < self.axis.left else ""
        self.labels.append(svg.text(0, y + 12, name, behind, size=13, bold=True))
        for line, remark in enumerate(remarks):
            words = svg.fit(remark, 11, self.axis.left - 4)
            self.labels.append(svg.text(0, y + 27 + 14 * line, words, colour="muted", size=11))


def choose(result: RunResult, failed: Sequence[FailedRequest], window: Span) -> Lanes:
    """The lanes of `window`: old pods by deletion, shared ones, new pods by creation; with many pods those that lost first."""
    short = short_names([pod.name for pod in result.pods])
    own: dict[str, list[FailedRequest]] = {}
    shared: dict[tuple[str, ...], list[FailedRequest]] = {}
    for one in failed:
        if len(one.attribution.pods) == 1 and one.attribution.pods[0] in short:
            own.setdefault(one.attribution.pods[0], []).append(one)
        else:
            shared.setdefault(one.attribution.pods, []).append(one)
    pods = [pod for pod in result.pods if _lives(pod, window) or pod.name in own]
    pods.sort(key=_order)
    many = len(pods) > FULL
    lost = [pod for pod in pods if pod.failed.at_most or pod.name in own]
    if many:
        lost.sort(key=lambda pod: (-pod.failed.at_most, _order(pod)))
        pods = [*lost[:MOST], *[pod for pod in pods if pod not in lost][: max(MOST - len(lost), 0)]]
    drawn = [_pod_lane(pod, short, own.get(pod.name, []), compact=many and pod not in lost) for pod in pods]
    common = _shared_lanes(shared, short)
    old = [one for one in drawn if one.pod is not None and (one.pod.revision == "old" or many) and not one.compact]
    rest = [one for one in drawn if one not in old]
    return Lanes(shown=(*old, *common, *rest), left_out=len([pod for pod in result.pods if _lives(pod, window)]) - len(drawn))


def _order(pod: PodReport) -> tuple[bool, float, str]:
    moment = pod.deletion if pod.revision == "old" else pod.created
    return pod.revision != "old", moment if moment is not None else float("inf"), pod.name


def _lives(pod: PodReport, window: Span) -> bool:
    over = next((moment for moment in (pod.gone, pod.ended) if moment is not None), window.end)
    return (pod.created or 0.0) <= window.end and over >= window.start


def _pod_lane(pod: PodReport, short: Mapping[str, str], failed: Sequence[FailedRequest], *, compact: bool) -> Lane:
    remark = f"{between(pod.failed.sure, pod.failed.at_most)} lost · {count(pod.served)} ok"
    place = " · ".join(visible(part) for part in (pod.address, pod.node) if part)
    return Lane(pod=pod, name=short[pod.name], remark=remark, place=place, failed=tuple(failed), compact=compact)


def _shared_lanes(shared: Mapping[tuple[str, ...], list[FailedRequest]], short: Mapping[str, str]) -> list[Lane]:
    found = []
    groups = sorted((pods for pods in shared if pods), key=lambda pods: (-len(shared[pods]), pods))
    for pods in groups[:SHARED] if len(groups) > SHARED + 1 else groups:
        names = " or ".join(short.get(name, visible(name, 22)) for name in pods) if len(pods) < 4 else f"{len(pods)} candidates"
        title = "either of two" if len(pods) == 2 else f"one of {len(pods)}"
        failed = shared[pods]
        echoes = sum(one.echo for one in failed)
        words = f"{len(failed) - echoes} failed" + (f" + {echoes} {'echo' if echoes == 1 else 'echoes'}" if echoes else "")
        found.append(Lane(pod=None, name=title, remark=words, place=names, failed=tuple(failed)))
    if len(groups) > SHARED + 1:
        others = [one for pods in groups[SHARED:] for one in shared[pods]]
        sizes = sorted({len(pods) for pods in groups[SHARED:]})
        words = f"candidates: {sizes[0]}–{sizes[-1]} pods" if len(sizes) > 1 else f"candidates: {sizes[0]} pods"
        found.append(Lane(pod=None, name="one of several", remark=f"{len(others)} failed", place=words, failed=tuple(others)))
    nobody = shared.get(())
    if nobody:
        found.append(
            Lane(pod=None, name="pod unknown", remark=f"{len(nobody)} failed", place="nothing names it", failed=tuple(nobody))
        )
    return found


def words_of(one: FailedRequest, short: Mapping[str, str]) -> str:
    """A failed request in one line."""
    names = " or ".join(short.get(name, visible(name, 22)) for name in one.attribution.pods[:3]) or "pod unknown"
    more = f" or {len(one.attribution.pods) - 3} more" if len(one.attribution.pods) > 3 else ""
    what = kind(one.kind, one.status) + (", echo" if one.echo else "")
    return f"{lane(one.lane)} #{one.seq} sent {one.started:.3f} s, {what}, {names}{more} ({certainty(one.attribution)})"


def anchor(one: FailedRequest) -> str:
    """The id of its row in the table."""
    return f"f-{one.worker}-{one.seq}"


def mark(sheet: Sheet, one: FailedRequest, y: float, short: Mapping[str, str], *, link: bool) -> Markup:
    """A failed request where it was sent; with `link` it leads to its row in the table and says what it is."""
    drawn = svg.use(sheet.uid, one.kind, sheet.axis(one.started), y, echo=one.echo)
    if not link:
        return drawn
    words = words_of(one, short)
    return el("a", svg.title(words), drawn, href=f"#{anchor(one)}", class_="ml", aria_label=words)


def marks(sheet: Sheet, failed: Sequence[FailedRequest], y: float, short: Mapping[str, str], *, link: bool = True) -> None:
    """Fresh connections in the upper row, kept ones in the lower. On a phone a mark is too small to be a link."""
    listed = [one for one in failed if sheet.listed is None or (one.worker, one.seq) in sheet.listed]
    placed = [(one, y + (8 if one.lane == "new" else 19)) for one in listed if sheet.axis.shows(one.started)]
    sheet.front += [svg.rim(sheet.uid, sheet.axis(one.started), where) for one, where in placed if len(one.attribution.pods) == 1]
    sheet.front += [mark(sheet, one, where, short, link=link and not sheet.narrow) for one, where in placed]


def draw_shared(sheet: Sheet, y: float) -> None:
    """The ground of a lane without a pod."""
    axis = sheet.axis
    width = axis.right - axis.left
    sheet.back.append(el("rect", x=axis.left, y=y, width=width, height=BAR, **svg.stroke("muted", 1, "2 3")))


def draw_life(sheet: Sheet, item: Lane, life: Sequence[Stage], y: float, height: float = BAR) -> None:
    """A pod's stages as one bar."""
    axis = sheet.axis
    inset = height / 4
    for stage in life:
        if not axis.crosses(stage.start, stage.end):
            continue
        words = f"{item.name}: {stage.words} ({span(stage.start, stage.end)} s)"
        place = (axis, stage.start, stage.end)
        match stage.kind:
            case "created":
                drawn = svg.bar(*place, y + inset, height - 2 * inset, svg.both("start", "muted", 0.7), words)
            case "starting":
                drawn = svg.bar(*place, y + 2, height - 4, svg.both("start", "new"), words)
            case "unused":
                drawn = svg.bar(*place, y + 0.75, height - 1.5, svg.both("bg", _hue(item), 1.5, "4 3"), words)
            case "alive":
                drawn = svg.bar(*place, y + 0.75, height - 1.5, svg.both("start", _hue(item), 1.5), words)
            case "answers":
                drawn = svg.bar(*place, y, height, svg.fill(_hue(item)), words)
            case "stopping":
                wide = stage.end - stage.start > VAGUE
                paint = {**svg.both("term", "term"), "fill_opacity": ".22"} if wide else svg.fill("term")
                drawn = svg.bar(*place, y + 0.5, height - 1, paint, words, 2.0)
            case "gap":
                paint = {**svg.stroke("danger"), "fill": f"url(#{sheet.uid}-hatch)"}
                drawn = svg.bar(*place, y + 0.5, height - 1, paint, words)
            case _:
                drawn = svg.bar(*place, y + height / 2 - 3, 6, svg.both("bg", "muted", 1, "2 2"), words)
        sheet.back.append(drawn)
        inner = _inside(axis, stage, item)
        if inner and height >= BAR:
            dark = stage.kind == "answers"
            at, side = (axis(_quiet_end(stage, item)) - 6, "end") if dark else (axis(stage.start) + 6, "start")
            at = min(at, axis.right - 6) if side == "end" else max(at, axis.left + 6)
            sheet.front.append(svg.text(at, y + 17, inner, colour="bg" if dark else "ink", size=11, anchor=side, bold=dark))


def _hue(item: Lane) -> str:
    return "old" if item.pod is not None and item.pod.revision == "old" else "new"


def _quiet_end(stage: Stage, item: Lane) -> float:
    """Where words in a stage's bar must end: the line of the deletion crosses the bar."""
    deletion = item.pod.deletion if item.pod is not None else None
    crossed = stage.kind == "answers" and deletion is not None and stage.start < deletion < stage.end
    return deletion if crossed and deletion is not None else stage.end


def _inside(axis: Axis, stage: Stage, item: Lane) -> str:
    """The longest wording that fits into a stage's bar, else nothing; no text where failures are drawn."""
    room = min(axis(_quiet_end(stage, item)), axis.right) - max(axis(stage.start), axis.left) - 12
    choices: tuple[str, ...] = ()
    match stage.kind:
        case "answers":
            taken = any(axis.shows(one.started) and stage.start <= one.started <= stage.end for one in item.failed)
            choices = () if taken else ("answers",)
        case "unused":
            pod = item.pod
            first = pod.first_request if pod is not None else None
            both = f"ready {label(stage.start)}, first request {label(first)}" if first is not None else ""
            choices = (both, "ready, no request yet" if first is not None else "ready, no request came", "ready, unused", "ready")
        case "created":
            choices = ("created",)
        case "alive":
            choices = ("ready",)
    return next((words for words in choices if words and svg.width_of(words, 11) * 1.15 <= room), "")


def life_of(result: RunResult, item: Lane, failed: Sequence[FailedRequest]) -> list[Stage]:
    """The stages of a lane's pod."""
    if item.pod is None:
        return []
    named = any(pod.served for pod in result.pods)
    spans = result.drawing.answering.get(item.pod.name, ())
    horizon = max([result.drawing.duration, *(window.end for window in result.windows)], default=0.0)
    return stages(item.pod, spans, failed, horizon, named=named)
