"""What every connection over one socket has in common, whoever reads and writes on it.

Decides: how the facts of a request and of its connection follow from what was seen: dialling, the stage a failure came at, who
closed. Both senders build on this, so that the same fault cannot get two names. Refuses: repeating, and a second socket.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod

from loadtest.clock import Clock
from loadtest.columns import ABSENT, CLOSED_BY
from loadtest.load.addresses import Addresses
from loadtest.load.dial import Dial
from loadtest.load.failures import Cause, Expected, Stage, cause_of_errno, kind_of, words, words_of_answer
from loadtest.load.podname import PodNames, PodReader
from loadtest.load.request import target_of
from loadtest.load.sender import Attempt, Owner
from loadtest.model import Lane, LoadPlan

_BY_US = CLOSED_BY.index("us")
_BY_FIN = CLOSED_BY.index("peer-fin")
_BY_ERROR = CLOSED_BY.index("error")
_BY_CAUSE = {
    Cause.EOF: _BY_FIN,
    Cause.RESET: CLOSED_BY.index("peer-reset"),
    Cause.TIMEOUT: CLOSED_BY.index("timeout"),
}


class Endpoint:
    """What the connections of a sender share.

    Raises:
        ValueError: the plan cannot be sent over plain HTTP.
    """

    def __init__(self, plan: LoadPlan, clock: Clock, names: PodNames) -> None:
        self.target = target_of(plan.url)
        if self.target.scheme != "http":
            raise ValueError(f"only plain http can be sent so far, not {self.target.scheme}")
        self.now = clock.monotonic_ns
        self.names = names
        self.pods = PodReader(plan.pod_from)
        self.addresses = Addresses(self.target.host, self.target.port, clock)
        self.expected = Expected(plan.expect_status, plan.expect_body)
        self.keep_body = self.pods.wants_body or bool(self.expected.text)


class SocketConnection(ABC):
    """See `sender.Connection`. Whoever inherits reads and writes, and says what it saw."""

    def __init__(self, endpoint: Endpoint, number: int, lane: Lane, owner: Owner) -> None:
        self._endpoint = endpoint
        self._now = endpoint.now
        self._owner = owner
        self._attempt: Attempt | None = None
        self._dial: Dial | None = None
        self._ready = False
        self.number = number
        self.lane = lane
        self.opened = ABSENT
        self.closed = ABSENT
        self.closed_by = 0
        self.answers = 0
        self.port = 0
        self.pod = 0

    @property
    def usable(self) -> bool:
        """See `sender.Connection`."""
        return self._ready and self._attempt is None

    def open(self) -> None:
        """See `sender.Connection`."""
        address = self._endpoint.addresses.next()
        if address is None:
            self._fail(Cause.NAME, 0)
            return
        self._dial = Dial(address, self._now, self._dialled)
        self._dial.start()

    def send(self, attempt: Attempt) -> None:
        """See `sender.Connection`."""
        self._attempt = attempt
        attempt.connection = self.number
        attempt.answers_before = self.answers
        attempt.connection_pod = self.pod
        if self._ready:
            self._write(attempt)
        else:
            attempt.connect = 0  # to be filled in: this request pays for the connect
            self.open()

    def expire(self) -> None:
        """See `sender.Connection`."""
        self._fail(Cause.TIMEOUT, 0)

    def close(self) -> None:
        """See `sender.Connection`."""
        self._attempt = None
        self._close(_BY_US, self._now())

    # ------------------------------------------------------------ what differs

    @abstractmethod
    def _attach(self, sock: socket.socket) -> None:
        """The socket is connected and now belongs to the callee, which calls `_can_write` when it has it in hand."""

    @abstractmethod
    def _write(self, attempt: Attempt) -> None:
        """Sends the request."""

    @abstractmethod
    def _tear_down(self) -> None:
        """Closes the socket, whatever state it is in."""

    @property
    @abstractmethod
    def _received(self) -> int:
        """Bytes of the answer to the request under way that came so far."""

    @abstractmethod
    def _describe(self, attempt: Attempt) -> None:
        """Fills in what is known of the answer: status, size, received, pod."""

    # ------------------------------------------------------------ what they tell

    def _can_write(self) -> None:
        self._ready = True
        if self._attempt is None:
            self._owner.opened(self)
        else:
            self._write(self._attempt)

    def _finish(self, attempt: Attempt, body: bytes, *, peer_ends: bool, we_end: bool) -> None:
        """The answer is whole. `body`: where it was kept; `peer_ends`: the peer closes, or has; `we_end`: we do."""
        attempt.ended = self._now()
        self.answers += 1
        self._describe(attempt)
        endpoint = self._endpoint
        if endpoint.pods.wants_body:
            attempt.pod = endpoint.names.index(endpoint.pods.in_body(body))
        attempt.kind = endpoint.expected.kind(attempt.status, body)
        if attempt.kind is not None:
            attempt.message = words_of_answer(attempt.kind, attempt.status)
        self._facts(attempt)
        self._attempt = None
        if self.lane is Lane.NEW or we_end:
            self._close(_BY_US, attempt.ended)
        elif peer_ends:
            self._close(_BY_FIN, attempt.ended)
        self._owner.finished(self, attempt)

    def _fail(self, cause: Cause, number: int) -> None:
        """The connection is over, with the request on it if there is one. `number`: an errno, or 0."""
        if self.closed != ABSENT:
            return
        now = self._now()
        attempt = self._attempt
        self._attempt = None
        stage = Stage.CONNECTING
        if self.opened != ABSENT:
            stage = Stage.ANSWERING if attempt is not None and self._received else Stage.WAITING
        self._close(_BY_CAUSE.get(cause, _BY_ERROR), now)
        if attempt is None:
            self._owner.lost(self)
            return
        attempt.ended = now
        attempt.kind = kind_of(stage, cause)
        attempt.local = attempt.kind is None
        attempt.errno = number
        attempt.message = words(stage, cause, number)
        self._describe(attempt)
        self._facts(attempt)
        self._owner.finished(self, attempt)

    def _fail_errno(self, number: int) -> None:
        self._fail(cause_of_errno(number), number)

    # ------------------------------------------------------------

    def _dialled(self, number: int) -> None:
        if number:
            self._fail_errno(number)
            return
        dial = self._dial
        assert dial is not None
        assert dial.sock is not None
        self.port = dial.port
        self.opened = self._now()
        sock, dial.sock = dial.sock, None
        self._attach(sock)

    def _facts(self, attempt: Attempt) -> None:
        attempt.port = self.port
        if attempt.pod:
            self.pod = attempt.pod
        dial = self._dial
        if dial is None:
            attempt.connect = ABSENT
            return
        attempt.peer = dial.peer
        if attempt.connect != ABSENT:
            attempt.connect = dial.took_ns
        if self.opened != ABSENT:
            attempt.connection_age = attempt.ended - self.opened

    def _close(self, by: int, now: int) -> None:
        if self.closed != ABSENT:
            return
        self.closed = now
        self.closed_by = by
        self._ready = False
        if self.opened != ABSENT:
            self._tear_down()
        elif self._dial is not None:
            self._dial.abandon(now)
            self.port = self._dial.port
