"""What happened to a request, as one of the failure kinds of `contract.md`: one table, for every sender.

A sender says how far the request had come (`Stage`) and what ended it (`Cause`, or an errno); nothing here looks at a socket.
Trouble of our own (no port, no descriptor, no memory) has no kind: its tick is dropped as `local`.
"""

from __future__ import annotations

import errno
from collections.abc import Collection
from enum import Enum

from loadtest.model import FailureKind


class Stage(Enum):
    """How far a request had come."""

    CONNECTING = "while connecting"
    WAITING = "before the first byte of the answer"
    ANSWERING = "within the answer"


class Cause(Enum):
    """What ended it."""

    NAME = "the name has no address"
    REFUSED = "refused"
    UNREACHABLE = "no route"
    RESET = "reset by the peer"
    EOF = "closed by the peer"
    TIMEOUT = "no answer in time"
    GARBAGE = "not an HTTP answer"
    TLS = "TLS"
    LOCAL = "no port, descriptor or memory of our own"


_CAUSES: dict[int, Cause] = {
    errno.ECONNREFUSED: Cause.REFUSED,
    errno.ECONNRESET: Cause.RESET,
    errno.ECONNABORTED: Cause.RESET,
    errno.EPIPE: Cause.RESET,
    errno.ENOTCONN: Cause.RESET,
    errno.ESHUTDOWN: Cause.RESET,
    errno.EPROTO: Cause.RESET,
    errno.ETIMEDOUT: Cause.UNREACHABLE,  # the kernel gave up, or ICMP told it so: not our own timeout
    errno.EHOSTUNREACH: Cause.UNREACHABLE,
    errno.EHOSTDOWN: Cause.UNREACHABLE,
    errno.ENETUNREACH: Cause.UNREACHABLE,
    errno.ENETDOWN: Cause.UNREACHABLE,
    errno.EADDRNOTAVAIL: Cause.LOCAL,
    errno.EADDRINUSE: Cause.LOCAL,
    errno.EMFILE: Cause.LOCAL,
    errno.ENFILE: Cause.LOCAL,
    errno.ENOBUFS: Cause.LOCAL,
    errno.ENOMEM: Cause.LOCAL,
    errno.EAGAIN: Cause.LOCAL,  # of connect: no free port (or a full queue, on a Unix socket)
}

_KINDS: dict[Cause, tuple[FailureKind, FailureKind, FailureKind]] = {
    # For each cause, by stage: while connecting, while waiting, within the answer.
    Cause.NAME: (FailureKind.DNS, FailureKind.DNS, FailureKind.DNS),
    Cause.REFUSED: (FailureKind.CONNECT_REFUSED, FailureKind.RESET_BEFORE_RESPONSE, FailureKind.RESET_MID_RESPONSE),
    Cause.UNREACHABLE: (FailureKind.UNREACHABLE, FailureKind.UNREACHABLE, FailureKind.RESET_MID_RESPONSE),
    Cause.RESET: (FailureKind.RESET_BEFORE_RESPONSE, FailureKind.RESET_BEFORE_RESPONSE, FailureKind.RESET_MID_RESPONSE),
    Cause.EOF: (FailureKind.CLOSED_BEFORE_RESPONSE, FailureKind.CLOSED_BEFORE_RESPONSE, FailureKind.TRUNCATED),
    Cause.TIMEOUT: (FailureKind.CONNECT_TIMEOUT, FailureKind.RESPONSE_TIMEOUT, FailureKind.RESPONSE_TIMEOUT),
    Cause.GARBAGE: (FailureKind.BAD_RESPONSE, FailureKind.BAD_RESPONSE, FailureKind.BAD_RESPONSE),
    Cause.TLS: (FailureKind.TLS, FailureKind.TLS, FailureKind.TLS),
}

_STAGES = tuple(Stage)


def cause_of_errno(number: int) -> Cause:
    """What the operating system means. An errno that nobody foresaw counts as a reset; the row keeps its number."""
    return _CAUSES.get(number, Cause.RESET)


def kind_of(stage: Stage, cause: Cause) -> FailureKind | None:
    """The failure kind; None for `Cause.LOCAL`, which is no failed request."""
    kinds = _KINDS.get(cause)
    return None if kinds is None else kinds[_STAGES.index(stage)]


class Expected:
    """Which whole answers are ok.

    Args:
        status: those that are; empty: 200 to 299.
        text: what the body must contain (in its first 64 KiB); "": anything.
    """

    def __init__(self, status: Collection[int], text: str) -> None:
        self._status = frozenset(status)
        self.text = text.encode()

    def kind(self, status: int, body: bytes) -> FailureKind | None:
        """The failure kind of a whole answer; None: it is ok."""
        if status in self._status if self._status else 200 <= status <= 299:
            return FailureKind.WRONG_BODY if self.text not in body else None
        if 300 <= status <= 399:
            return FailureKind.HTTP_3XX
        if 400 <= status <= 499:
            return FailureKind.HTTP_4XX
        if 500 <= status <= 599:
            return FailureKind.HTTP_5XX
        return FailureKind.BAD_RESPONSE


def words(stage: Stage, cause: Cause, number: int) -> str:
    """One line for people, without anything the server sent."""
    name = errno.errorcode.get(number, str(number)) if number else ""
    return f"{cause.value} {stage.value}" + (f" ({name})" if name else "")


def words_of_answer(kind: FailureKind, status: int) -> str:
    """The same for a whole answer."""
    return "the expected text is not in the body" if kind is FailureKind.WRONG_BODY else f"status {status}"
