"""Makes text from outside harmless to look at: pod names, reasons, log lines and messages come from a cluster or a server.

What it decides: which characters are shown as an escape instead of being passed on. It refuses to drop anything: a reader
sees that something odd was there. Markup is not its business: each format escapes its own (`html`, `xml`, `rich.Text`).
"""

from __future__ import annotations

import re

# Control characters, soft hyphen, bidi marks and isolates, zero-width and tag characters, invisible fillers, variation
# selectors, surrogates and noncharacters. Written out rather than asked of `unicodedata`: its answers change with the
# version of Python, and the same run must give the same report.
_ODD = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    + "".join(f"{chr(plane * 0x10000 + 0xFFFE)}{chr(plane * 0x10000 + 0xFFFF)}" for plane in range(1, 17))
    + "]"
)
_NAMES = {"\n": "\\n", "\r": "\\r", "\t": " "}


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    code = ord(character)
    if character in _NAMES:
        return _NAMES[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible(text: object, limit: int = 0) -> str:
    r"""One line without control, bidi or invisible characters: each stands as `\x1b`, `\u202e`, … instead.

    `limit`: longest result in characters, ending in "…" when something was cut; 0: no limit.
    """
    line = _ODD.sub(_escape, str(text))
    return line if not limit or len(line) <= limit else line[: limit - 1].rstrip() + "…"


def visible_lines(text: str) -> list[str]:
    """The same for a text of several lines: only its line ends stay what they are."""
    return [visible(line) for line in text.replace("\r\n", "\n").split("\n")]


def short_middle(text: str, limit: int) -> str:
    """At most `limit` characters, with "…" in the middle: names of pods differ at their ends."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) * 2 // 3
    return f"{text[: limit - 1 - tail]}…{text[-tail:]}"
