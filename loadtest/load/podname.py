"""Which pod answered, as the answer itself says it.

Decides: what counts as a name. The value comes from a server and is not trusted: it is kept only when it looks like the name
of a Kubernetes object (at most 253 of `[A-Za-z0-9._-]`), anything else counts as no name. Input: `LoadPlan.pod_from`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from loadtest.model import PodFrom, PodSource

MOST_NAMES = 10_000
"""Beyond this many different names the source is no pod's name (a request id, say), and the rest count as none."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")


class PodNames:
    """Names by number. 0 is: none. `new` holds those that nobody has been told of yet."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {"": 0}
        self._raw: dict[bytes, int] = {}
        self._names: list[str] = [""]
        self.new: list[tuple[int, str]] = []

    def index(self, name: str) -> int:
        """The number of this name; 0 for anything that is none."""
        index = self._index.get(name)
        if index is None:
            if len(self._names) > MOST_NAMES or not _NAME.fullmatch(name):
                return 0
            index = len(self._names)
            self._index[name] = index
            self._names.append(name)
            self.new.append((index, name))
        return index

    def index_of_header(self, value: bytes) -> int:
        """The same for the bytes of a header, which for nearly every request were seen before."""
        index = self._raw.get(value)
        if index is None:
            index = self.index(value.decode("latin-1").strip())
            if index:
                self._raw[bytes(value)] = index
        return index

    def name(self, index: int) -> str:
        """The reverse."""
        return self._names[index]


class PodReader:
    """Finds the name in a header's value or a body.

    Raises:
        ValueError: `pod_from` is not a JSON pointer or a regular expression with one group.
    """

    def __init__(self, pod_from: PodFrom | None) -> None:
        self.header = b""
        """Name of the header to look at, in lower case; empty: none."""
        self.wants_body = False
        self._pointer: list[str] = []
        self._pattern: re.Pattern[bytes] | None = None
        if pod_from is None:
            return
        match pod_from.source:
            case PodSource.HEADER:
                self.header = pod_from.value.lower().encode("latin-1")
            case PodSource.JSON:
                self._pointer = pointer_parts(pod_from.value)
                self.wants_body = True
            case PodSource.BODY:
                try:
                    self._pattern = re.compile(pod_from.value.encode())
                except re.error as error:
                    raise ValueError(f"pod_from.body: {error}") from error
                if self._pattern.groups != 1:
                    raise ValueError("pod_from.body needs exactly one group")
                self.wants_body = True

    def in_body(self, body: bytes) -> str:
        """The name in a whole body, or ""."""
        if self._pattern is not None:
            found = self._pattern.search(body)
            return (found[1] or b"").decode("latin-1") if found else ""
        try:
            value = at_pointer(json.loads(body), self._pointer)
        except (ValueError, RecursionError):
            return ""
        return value if isinstance(value, str) else ""


def pointer_parts(pointer: str) -> list[str]:
    """The keys of a JSON pointer (RFC 6901).

    Raises:
        ValueError: it does not begin with a slash.
    """
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"a JSON pointer begins with a slash: {pointer!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def at_pointer(value: Any, parts: list[str]) -> Any:
    """What stands there, or None."""
    for part in parts:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value
