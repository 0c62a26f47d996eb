"""Pieces of SVG: elements with everything escaped, the time axis, colours, the shapes of failures, labels that do not collide.

Each mark carries presentation attributes in the light theme *and* a class: with styles blocked the figure is right, and the
page's styles re-colour it for the dark theme. Knows nothing of runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from loadtest.report.harmless import visible

LIGHT = {
    "ink": "#171c24",
    "muted": "#535d6b",
    "line": "#d3d9e1",
    "ok": "#7d8b9c",
    "refused": "#b84700",
    "silent": "#8f1d63",
    "cut": "#171c24",
    "answer": "#171c24",
    "late": "#8a6d00",
    "old": "#56729b",
    "new": "#2a8072",
    "start": "#c9d3df",
    "term": "#f0b429",
    "danger": "#c62828",
    "bg": "#ffffff",
}

FAMILIES = {
    "connect-refused": "refused",
    "dns": "refused",
    "tls": "refused",
    "connect-timeout": "silent",
    "unreachable": "silent",
    "response-timeout": "silent",
    "reset-before-response": "cut",
    "closed-before-response": "cut",
    "reset-mid-response": "cut",
    "truncated": "cut",
}
"""Failure kind to family, which has one shape and one hue; all others are "answer": it came, and was wrong."""

CHARACTER = 0.6  # width of an average character in ems, in the widest usual face


def family(kind: str) -> str:
    """The family of a failure kind."""
    return FAMILIES.get(kind, "answer")


def el(name: str, *children: str, **attributes: object) -> Markup:
    """One element. Children that are not Markup, and all attributes, are escaped and made visible; None leaves one out.

    `class_` gives `class`; other underscores become dashes.
    """
    parts = []
    for key, value in attributes.items():
        if value is None:
            continue
        text = _number(value) if isinstance(value, float) else visible(value)
        parts.append(f' {key.rstrip("_").replace("_", "-")}="{escape(text)}"')
    inside = "".join(child if isinstance(child, Markup) else escape(visible(child)) for child in children)
    return Markup(f"<{name}{''.join(parts)}>{inside}</{name}>")  # noqa: S704 - every part was escaped above


def join(parts: Iterable[Markup]) -> Markup:
    """Several pieces after one another."""
    return Markup("").join(parts)


def _number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".") if math.isfinite(value) else "0"


def title(text: str) -> Markup:
    """What a pointer shows; never the only place of a fact."""
    return el("title", text)


def fill(name: str, opacity: float | None = None) -> dict[str, object]:
    """Attributes of something filled."""
    found: dict[str, object] = {"class_": f"f-{name}", "fill": LIGHT[name]}
    if opacity is not None:
        found["fill_opacity"] = f"{opacity:g}"
    return found


def stroke(name: str, width: float = 1.0, dash: str | None = None) -> dict[str, object]:
    """Attributes of something drawn as a line."""
    found: dict[str, object] = {"class_": f"s-{name}", "fill": "none", "stroke": LIGHT[name], "stroke_width": f"{width:g}"}
    if dash:
        found["stroke_dasharray"] = dash
    return found


def both(inside: str, outline: str, width: float = 1.0, dash: str | None = None) -> dict[str, object]:
    """Attributes of something filled and outlined."""
    return {**stroke(outline, width, dash), "class_": f"f-{inside} s-{outline}", "fill": LIGHT[inside]}


def text(
    x: float, y: float, *parts: str, colour: str = "ink", size: int = 12, anchor: str = "start", bold: bool = False
) -> Markup:
    """Text; `parts` may be `small(…)` spans, so that a wider font never makes a name and its remark overlap."""
    return el(
        "text",
        *parts,
        x=x,
        y=y,
        class_=f"f-{colour}",
        fill=LIGHT[colour],
        font_size=size,
        font_weight="600" if bold else None,
        text_anchor=anchor if anchor != "start" else None,
        font_family="system-ui,sans-serif",
    )


def small(words: str) -> Markup:
    """A remark behind a name."""
    return el("tspan", words, dx=6, font_size=11, font_weight="400", class_="f-muted", fill=LIGHT["muted"])


def width_of(words: str, size: int) -> float:
    """An estimate on the wide side, in pixels."""
    return len(words) * size * CHARACTER


def fit(words: str, size: int, room: float) -> str:
    """The text, cut so that it takes at most `room` pixels."""
    most = int(room / (size * CHARACTER))
    return words if len(words) <= most else words[: max(most - 1, 0)].rstrip() + "…"


@dataclass(frozen=True, slots=True)
class Axis:
    """Seconds to pixels."""

    start: float
    end: float
    left: float
    right: float

    def __call__(self, moment: float) -> float:
        """The x of a moment, kept near the plot so that no mark runs far outside."""
        x = self.left + (moment - self.start) / (self.end - self.start) * (self.right - self.left)
        return round(min(max(x, self.left - 20), self.right + 20), 1)

    def shows(self, moment: float) -> bool:
        """Whether a moment lies in the plot."""
        return self.start <= moment <= self.end

    def crosses(self, start: float, end: float) -> bool:
        """Whether a span has a part in the plot."""
        return start < self.end and end > self.start

    def ticks(self, most: int) -> tuple[float, int, list[float]]:
        """Step, decimals and moments of at most `most` round ticks."""
        raw = (self.end - self.start) / most
        power = 10.0 ** math.floor(math.log10(raw))
        step = next((factor * power for factor in (1, 2, 5) if factor * power >= raw - 1e-12), 10 * power)
        first = math.ceil(self.start / step - 1e-9)
        last = math.floor(self.end / step + 1e-9)
        return step, max(0, -math.floor(math.log10(step) + 1e-9)), [index * step for index in range(first, last + 1)]


def grid(axis: Axis, top: float, bottom: float, most: int) -> Markup:
    """Vertical lines with their seconds above `top`."""
    _, decimals, moments = axis.ticks(most)
    parts = []
    for moment in moments:
        x = axis(moment)
        words = f"{moment:.{decimals}f} s"
        half = width_of(words, 11) / 2
        anchor, at = "middle", x
        if x - half < 0:
            anchor, at = "start", max(x, axis.left)
        elif x + half > axis.right + 8:
            anchor, at = "end", axis.right + 6
        parts.append(el("line", x1=x, x2=x, y1=top, y2=bottom, **stroke("line")))
        parts.append(text(at, top - 6, words, colour="muted", size=11, anchor=anchor))
    return el("g", *parts)


def bar(
    axis: Axis, start: float, end: float, y: float, height: float, paint: dict[str, object], words: str = "", least: float = 0.8
) -> Markup:
    """A span of time as a rectangle, at least `least` pixels wide."""
    left = axis(start)
    return el("rect", *([title(words)] if words else []), x=left, width=max(axis(end) - left, least), y=y, height=height, **paint)


def rule(
    axis: Axis, moment: float, top: float, bottom: float, colour: str = "muted", width: float = 1.0, dash: str | None = None
) -> Markup:
    """A moment as a vertical line."""
    return el("line", x1=axis(moment), x2=axis(moment), y1=top, y2=bottom, **stroke(colour, width, dash))


def symbol(kind: str, *, echo: bool = False, size: float = 4.0) -> Markup:
    """The shape of a failure around (0, 0): cross, ring, triangle, square by family; an echo is a diamond."""
    hue = family(kind)
    if echo:
        reach = size + 1
        return el("path", d=f"M0 {-reach:g}L{reach:g} 0L0 {reach:g}L{-reach:g} 0Z", **both("bg", hue, 2))
    match hue:
        case "refused":
            path = f"M{-size:g} {-size:g}L{size:g} {size:g}M{-size:g} {size:g}L{size:g} {-size:g}"
            return el("path", d=path, **stroke(hue, 2.4))
        case "silent":
            return el("circle", r=f"{size - 0.4:g}", **both("bg", hue, 2))
        case "cut":
            return el("path", d=f"M0 {-size:g}L{size:g} {size * 0.8:g}L{-size:g} {size * 0.8:g}Z", **fill(hue))
        case _:
            side = size * 1.7
            return el("rect", x=f"{-side / 2:g}", y=f"{-side / 2:g}", width=f"{side:g}", height=f"{side:g}", **fill(hue))


def use(uid: str, kind: str, x: float, y: float, *, echo: bool = False) -> Markup:
    """The shape of a failure at a place, from the `symbols` of its figure: 60 bytes instead of 300."""
    return el("use", href=f"#{uid}-{'echo-' if echo else ''}{family(kind)}", x=x, y=y)


def rim(uid: str, x: float, y: float) -> Markup:
    """A disc in the ground's colour, laid under marks so that they can be seen on a pod's bar; all rims before all marks."""
    return el("use", href=f"#{uid}-rim", x=x, y=y)


def symbols(uid: str, size: float = 3.6) -> Markup:
    """All shapes once, for `use`; the transparent ground makes them easier to hit."""
    shapes = [el("circle", r=f"{size + 2:g}", id=f"{uid}-rim", **fill("bg", 0.85))]
    for kind in ("connect-refused", "connect-timeout", "truncated", "bad-response"):
        for echo in (False, True):
            ground = el("rect", x=-5, y=-6, width=10, height=12, fill="#000", fill_opacity="0", class_="ground")
            name = f"{uid}-{'echo-' if echo else ''}{family(kind)}"
            shapes.append(el("g", ground, symbol(kind, echo=echo, size=size), id=name))
    return el("defs", *shapes)


def patterns(uid: str) -> Markup:
    """Hatch (not listening, still sent to) and dots (nobody saw) of one figure; ids are unique to it."""
    hatch = el(
        "pattern",
        el("rect", width=6, height=6, **fill("danger", 0.09)),
        el("line", x1=0, y1=0, x2=0, y2=6, stroke_opacity=".35", **stroke("danger")),
        id=f"{uid}-hatch",
        width=6,
        height=6,
        patternUnits="userSpaceOnUse",
        patternTransform="rotate(45)",
    )
    dots = el(
        "pattern",
        el("circle", cx="1.5", cy="1.5", r=".9", **fill("muted")),
        id=f"{uid}-dots",
        width=5,
        height=5,
        patternUnits="userSpaceOnUse",
    )
    return el("defs", hatch, dots)


@dataclass(slots=True)
class Row:
    """A line of labels in which none may touch another: a label that finds no place is left out (the tables have it)."""

    y: float
    left: float
    right: float
    taken: list[tuple[float, float]] = field(default_factory=list)

    def put(
        self, x: float, words: str, *, anchor: str = "start", colour: str = "ink", size: int = 11, bold: bool = False
    ) -> Markup | None:
        """The label at `x`, else mirrored, else None."""
        wide = width_of(words, size) * (1.06 if bold else 1)
        for side in (anchor, "end" if anchor == "start" else "start"):
            at = x if side == anchor else x + (8 if side == "start" else -8)
            low = at if side == "start" else at - wide if side == "end" else at - wide / 2
            if low < self.left - 1 or low + wide > self.right + 1:
                continue
            if all(low + wide + 4 <= start or low >= end + 4 for start, end in self.taken):
                self.taken.append((low, low + wide))
                return text(at, self.y, words, anchor=side, colour=colour, size=size, bold=bold)
        return None
