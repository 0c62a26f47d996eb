"""What the engine and the senders say to each other: one request under way, a connection, a sender.

The engine knows nothing of HTTP; a sender knows nothing of the schedule. A connection takes one request at a time. (A sender
whose protocol carries several at once hands out one `Connection` for each that may be under way.) No sender ever repeats a
request, follows a redirect, or opens a connection that it was not told to open.
"""

from __future__ import annotations

from typing import Protocol

from loadtest.columns import ABSENT
from loadtest.model import FailureKind, Lane


class Attempt:
    """A request under way: the engine makes it, the connection fills it in. Times are monotonic nanoseconds or `ABSENT`."""

    __slots__ = (
        "answers_before", "connect", "connection", "connection_age", "connection_pod", "due", "ended", "errno", "first_byte",
        "kind", "lane", "local", "message", "peer", "pod", "port", "received", "seq", "size", "started", "status", "written",
    )  # fmt: skip

    def __init__(self, seq: int, due: int, lane: Lane, started: int) -> None:
        self.seq = seq
        self.due = due
        self.lane = lane
        self.started = started
        self.written = ABSENT
        self.first_byte = ABSENT
        self.ended = ABSENT
        self.connect = ABSENT
        self.size = 0
        self.connection = 0
        self.answers_before = 0
        self.port = 0
        self.status = 0
        self.pod = 0
        self.kind: FailureKind | None = None
        self.local = False
        """It could not be tried for want of a port, a descriptor or memory of our own: the tick is dropped."""
        # Only of failures:
        self.errno = 0
        self.received = 0
        self.connection_age = 0
        self.connection_pod = 0
        self.peer = ""
        self.message = ""


class Connection(Protocol):
    """A connection to the target. Its facts stay readable after its end.

    Attributes:
        number: from 1, in its worker.
        opened, closed: monotonic nanoseconds, or `ABSENT`.
        closed_by: index into `columns.CLOSED_BY`; 0 while open.
        answers: whole answers it gave.
        pod: index of the pod that answered on it last.
        usable: it is open and may take another request.
    """

    number: int
    lane: Lane
    opened: int
    closed: int
    closed_by: int
    answers: int
    port: int
    pod: int

    @property
    def usable(self) -> bool:
        """It is open, idle, and may take a request."""
        ...

    def open(self) -> None:
        """Connects without a request; ends in `Owner.opened` or `Owner.lost`."""
        ...

    def send(self, attempt: Attempt) -> None:
        """Sends, connecting first if need be; always ends in one `Owner.finished`, unless closed before."""
        ...

    def expire(self) -> None:
        """The request under way, or the opening, took too long: fails and reports it before this returns."""
        ...

    def close(self) -> None:
        """Closes without a word to the owner; a request under way is forgotten."""
        ...


class Owner(Protocol):
    """Whom connections report to, possibly from within `open` and `send`, always from within `expire`.

    Implemented by `Engine`; described here because the engine imports this file.
    """

    def opened(self, connection: Connection) -> None:
        """`open` has succeeded."""
        ...

    def finished(self, connection: Connection, attempt: Attempt) -> None:
        """The request has ended, well or not; `connection.usable` tells whether it can be used again."""
        ...

    def lost(self, connection: Connection) -> None:
        """It could not be opened, or it closed while no request was on it."""
        ...


class Sender(Protocol):
    """Makes connections to the plan's target. Implemented by `HttpSender` and `AiohttpSender`."""

    def connection(self, number: int, lane: Lane, owner: Owner) -> Connection:
        """One that is not open yet."""
        ...

    async def start(self) -> None:
        """What must be there before the first connection (addresses)."""
        ...

    async def close(self) -> None:
        """Lets go of everything."""
        ...
