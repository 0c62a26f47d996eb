"""Numbers as people read them: counts are never rounded, times have 3 decimals in tables and 2 in labels.

Pure; every text and page format takes its figures from here, so that the same number looks the same everywhere.
"""

from __future__ import annotations

import re

from loadtest.model import Interval

NOTHING = "–"
_UNIT = re.compile(r"(\d) (s|ms|%)(?![a-z])")


def count(number: int) -> str:
    """3000 → "3,000"."""
    return f"{number:,}"


def plural(number: int, one: str, many: str = "") -> str:
    """(1, "pod") → "1 pod", (2, "pod") → "2 pods"."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def moment(seconds: float | None) -> str:
    """Seconds since the run's start, for a table; "–" when the moment was not seen."""
    return NOTHING if seconds is None else f"{seconds:.3f}"


def label(seconds: float) -> str:
    """Seconds in a label."""
    return f"{seconds:.2f}"


def span(low: float | None, high: float | None, decimals: int = 2) -> str:
    """A range in seconds with a dash; one number when both ends read the same, "before"/"after" when a side is open."""
    if low is None and high is None:
        return NOTHING
    if low is None:
        return f"before {high:.{decimals}f}"
    if high is None:
        return f"after {low:.{decimals}f}"
    first, last = f"{low:.{decimals}f}", f"{high:.{decimals}f}"
    return first if first == last else f"{first}–{last}"


def interval(window: Interval, decimals: int = 3) -> str:
    """A moment that is only known to lie in a window."""
    return span(window.earliest, window.latest, decimals)


def share(part: float) -> str:
    """A fraction as a percentage with enough digits to tell small ones apart: 0.0183 → "1.83 %", 0.00012 → "0.012 %"."""
    percent = part * 100
    if percent == 0:
        return "0 %"
    if percent >= 99.995:
        return "100 %"
    if percent >= 10:
        return f"{percent:.1f} %"
    if percent >= 0.1:
        return f"{percent:.2f} %"
    return f"{percent:.2g} %" if percent >= 0.0001 else "under 0.0001 %"


def milliseconds(value: float | None) -> str:
    """Milliseconds for a table: one decimal below 10,000."""
    if value is None:
        return NOTHING
    return f"{value:,.1f}" if abs(value) < 10_000 else f"{value:,.0f}"


def offset(seconds: float | None) -> str:
    """Seconds after another moment, as signed milliseconds: -0.017 → "-17 ms"; from 10 s on in seconds."""
    if seconds is None:
        return NOTHING
    return f"{seconds * 1000:+,.0f} ms" if abs(seconds) < 10 else f"{seconds:+,.1f} s"


def duration(seconds: float) -> str:
    """A length of time in words: "420 ms", "4.78 s", "12 min 5 s"."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.2f} s".replace(".00 s", " s")
    return f"{int(seconds // 60)} min {seconds % 60:.0f} s"


def units(words: str) -> str:
    """Keeps a number and its unit on one line."""
    return _UNIT.sub("\\1\u00a0\\2", words)


def between(sure: int, at_most: int) -> str:
    """Requests that are surely a pod's own, and at most its own: (26, 47) → "26 to 47"."""
    return count(sure) if at_most <= sure else f"{count(sure)} to {count(at_most)}"
