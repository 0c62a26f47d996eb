"""The bytes of each request, all but its number made once.

Decides: which headers go out. What the user gives wins over ours; nothing is ever added that would make a server answer
differently from what the user's clients see (no Accept-Encoding). Input: the `LoadPlan`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from loadtest.model import LoadPlan

REQUEST_ID = "X-Request-Id"
_BAD = re.compile(r"[\r\n\0]")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go. `authority`: the Host header; `path`: path and query as they are sent."""

    scheme: str
    host: str
    port: int
    authority: str
    path: str


def target_of(url: str) -> Target:
    """The parts of an absolute http(s) URL.

    Raises:
        ValueError: it is not one.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"not an absolute http or https URL: {url!r}")
    if parts.username is not None:
        raise ValueError("user information does not belong in the URL")
    port = parts.port if parts.port is not None else (443 if parts.scheme == "https" else 80)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not path.isascii() or re.search(r"[\s\x00-\x1f\x7f]", path):
        raise ValueError(f"the path must be percent-encoded: {path!r}")
    return Target(parts.scheme, parts.hostname, port, parts.netloc, path)


def headers_of(plan: LoadPlan, target: Target) -> list[tuple[str, str]]:
    """All headers but the two that differ between requests (X-Request-Id, Connection).

    Raises:
        ValueError: a name or value that would break the request apart.
    """
    given = {name.lower() for name, _ in plan.headers}
    headers = []
    if "host" not in given:
        headers.append(("Host", target.authority))
    if "user-agent" not in given and plan.user_agent:
        headers.append(("User-Agent", plan.user_agent))
    headers += plan.headers
    if (plan.body or plan.method in _METHODS_WITH_BODY) and not given & {"content-length", "transfer-encoding"}:
        headers.append(("Content-Length", str(len(plan.body))))
    for name, value in headers:
        if not _TOKEN.fullmatch(name) or _BAD.search(value):
            raise ValueError(f"header {name!r} cannot be sent")
    return headers


class RequestBytes:
    """Makes the bytes of a request from its sequence number.

    Raises:
        ValueError: the plan cannot be sent as HTTP.
    """

    def __init__(self, plan: LoadPlan) -> None:
        if not _TOKEN.fullmatch(plan.method):
            raise ValueError(f"method {plan.method!r} cannot be sent")
        target = target_of(plan.url)
        lines = [f"{plan.method} {target.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers_of(plan, target)]
        given = {name.lower() for name, _ in plan.headers}
        head = "\r\n".join(lines).encode("latin-1")
        numbered = plan.request_id and REQUEST_ID.lower() not in given
        if numbered and not re.fullmatch(r"[\x21-\x7e]+", plan.run_id):
            raise ValueError(f"run id {plan.run_id!r} cannot be sent in a header")
        self._before = head + (f"\r\n{REQUEST_ID}: {plan.run_id}-".encode() if numbered else b"")
        self._numbered = numbered
        self._kept = b"\r\n\r\n" + plan.body
        self._fresh = self._kept if "connection" in given else b"\r\nConnection: close\r\n\r\n" + plan.body

    def __call__(self, seq: int, *, last: bool) -> bytes:
        """The request with this number; `last`: the connection ends with it."""
        after = self._fresh if last else self._kept
        return self._before + b"%d" % seq + after if self._numbered else self._before + after
