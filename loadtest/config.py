"""Words into values: what stands in flags becomes a `Scenario`. Each complaint names the flag and what was expected.

Refuses all I/O. (Scenario files join here; they bring their file, line and key into the same complaints.)
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from loadtest.errors import UsageError
from loadtest.model import LANE_NAMES, Lane, PodFrom, PodSource

_DURATION = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>ns|us|µs|ms|s|m|h|d)")
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_DIGITS = re.compile(r"[0-9]{1,9}")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "x-request-id"})


def duration(flag: str, text: str, *, least: int = 0, most: int = 86_400_000_000_000) -> int:
    """`500ms`, `5s`, `1m30s` as nanoseconds, within bounds (both in ns).

    Raises:
        UsageError: it is none, or out of range.
    """
    at = total = 0
    for found in _DURATION.finditer(text):
        if found.start() != at:
            break
        total += round(float(found["number"]) * _UNITS[found["unit"]])
        at = found.end()
    if not text or at != len(text):
        raise UsageError(f"{flag}: {text!r} is not a duration", "write it as 500ms, 5s or 1m30s")
    if not least <= total <= most:
        raise UsageError(f"{flag}: {text} is out of range", f"from {in_words(least)} to {in_words(most)}")
    return total


def in_words(ns: int) -> str:
    """Nanoseconds as a short duration."""
    for unit in ("d", "h", "m", "s", "ms", "us"):
        if ns >= _UNITS[unit] and ns % _UNITS[unit] == 0:
            return f"{ns // _UNITS[unit]}{unit}"
    return f"{ns}ns" if ns else "0s"


def number(flag: str, value: float, *, least: float, most: float) -> float:
    """A finite number within bounds.

    Raises:
        UsageError: it is out of range.
    """
    if not math.isfinite(value) or not least <= value <= most:
        raise UsageError(f"{flag}: {value:g} is out of range", f"from {least:g} to {most:g}")
    return value


def lanes(flag: str, text: str) -> tuple[Lane, ...]:
    """`new,reused`, `new` or `reused`."""
    found = tuple(word.strip() for word in text.split(","))
    if not set(found) <= set(LANE_NAMES) or len(set(found)) != len(found):
        raise UsageError(f"{flag}: {text!r} names no lanes", "new, reused, or new,reused")
    return tuple(Lane(LANE_NAMES.index(word)) for word in found)


def reuse(flag: str, text: str) -> tuple[int, int]:
    """`MIN:MAX` or one number; "": no limit, as (0, 0)."""
    if not text:
        return 0, 0
    low, _, high = text.partition(":")
    if not _DIGITS.fullmatch(low) or not _DIGITS.fullmatch(high or low):
        raise UsageError(f"{flag}: {text!r} is not MIN:MAX", "such as 10:20, or one number")
    found = int(low), int(high or low)
    if not 1 <= found[0] <= found[1]:
        raise UsageError(f"{flag}: {text!r} is out of range", "1 <= MIN <= MAX")
    return found


def header(flag: str, text: str) -> tuple[str, str]:
    """`Name: value`; names that the tool sets itself are refused, but Host is not."""
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or not _TOKEN.fullmatch(name) or any(not 32 <= ord(char) < 256 or ord(char) == 127 for char in value):
        raise UsageError(
            f"{flag}: not a header", "write it as 'Name: value', without control characters or others that a header cannot hold"
        )
    if name.lower() in _OURS - {"host"}:
        raise UsageError(f"{flag}: {name} is set by the tool itself", "leave it out")
    return name, value


def pod_from(flag: str, text: str) -> PodFrom | None:
    """`header=NAME`, `json=/POINTER`, `body=REGEX`, or `none`."""
    if text == "none":
        return None
    source, equals, value = text.partition("=")
    if not equals or source not in set(PodSource) or not value:
        raise UsageError(f"{flag}: {text!r} is not understood", "header=X-Pod-Name, json=/pod, body=REGEX or none")
    if source == PodSource.HEADER and not _TOKEN.fullmatch(value):
        raise UsageError(f"{flag}: {value!r} is not a header's name", "such as header=X-Pod-Name")
    if source == PodSource.JSON and not value.startswith("/"):
        raise UsageError(f"{flag}: {value!r} is not a JSON pointer", "it begins with a slash, such as json=/node_id")
    if source == PodSource.BODY:
        _one_group(flag, value)
    return PodFrom(source=PodSource(source), value=value)


def _one_group(flag: str, pattern: str) -> None:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise UsageError(f"{flag}: not a regular expression: {error}") from None
    if groups != 1:
        raise UsageError(f"{flag}: the expression has {groups} groups", "exactly one group is the pod's name")


def workload(flag: str, text: str) -> str:
    """`deployment/NAME` (also `deploy/` and `deployments/`): the name."""
    kind, slash, name = text.partition("/")
    if not slash or kind.lower() not in {"deployment", "deployments", "deploy", "deployment.apps", "deployments.apps"}:
        raise UsageError(f"{flag}: {text!r} names no Deployment", "write it as deployment/NAME")
    if not _NAME.fullmatch(name) or len(name) > 253:
        raise UsageError(f"{flag}: {name!r} is not a Kubernetes name", "lower case letters, digits, '-' and '.'")
    return name


def url(flag: str, text: str) -> str:
    """An absolute http(s) URL without user information and fragment; "" stays.

    Raises:
        UsageError: it is none.
    """
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{flag}: not a URL: {error}") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise UsageError(f"{flag}: {parts.scheme or 'no scheme'}: not a URL that can be loaded", "such as http://host:8080/path")
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"{flag}: the URL holds user information", "give it as a header: -H 'Authorization: ...'")
    if "#" in text:
        raise UsageError(f"{flag}: the URL has a fragment, which is never sent", "leave out '#' and what follows")
    if not text.isascii() or any(char.isspace() or ord(char) < 33 for char in text):
        raise UsageError(f"{flag}: the URL holds characters that must be percent-encoded")
    return text


def statuses(flag: str, texts: Sequence[str]) -> tuple[int, ...]:
    """HTTP statuses that are ok."""
    found = []
    for text in texts:
        for word in text.split(","):
            if not _DIGITS.fullmatch(word.strip()) or not 200 <= int(word) <= 599:
                raise UsageError(f"{flag}: {word!r} is not a final HTTP status", "from 200 to 599")
            found.append(int(word))
    return tuple(found)
