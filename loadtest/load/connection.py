"""One HTTP/1.1 connection, with every event of its life seen: connecting, writing, the first byte, the end, who closed it.

Decides: nothing about the schedule; how a request ended is looked up in `failures`. Refuses: repeating anything. A kept
connection that dies with a request on it is a failure of that request: that is what a rollout causes, and what other clients
hide. The socket is connected here rather than by the loop, so that the source port of every attempt is known, of failed ones
too (an attempt that dies in a stale conntrack entry can be told by its port).
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import cast

from loadtest.clock import Clock
from loadtest.columns import ABSENT, CLOSED_BY
from loadtest.load.addresses import Addresses
from loadtest.load.answer import AnswerReader, Fed
from loadtest.load.failures import Cause, Expected, Stage, cause_of_errno, kind_of, words, words_of_answer
from loadtest.load.podname import PodNames, PodReader
from loadtest.load.request import RequestBytes, target_of
from loadtest.load.sender import Attempt, Owner
from loadtest.model import Lane, LoadPlan

BY_US = CLOSED_BY.index("us")
BY_FIN = CLOSED_BY.index("peer-fin")
BY_RESET = CLOSED_BY.index("peer-reset")
BY_TIMEOUT = CLOSED_BY.index("timeout")
BY_ERROR = CLOSED_BY.index("error")
_CLOSED_BY = {Cause.EOF: BY_FIN, Cause.RESET: BY_RESET, Cause.TIMEOUT: BY_TIMEOUT}
_UNDER_WAY = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK})


class HttpSender:
    """Sends plain HTTP/1.1 over connections of our own.

    Raises:
        ValueError: the plan cannot be sent.
    """

    def __init__(self, plan: LoadPlan, clock: Clock, names: PodNames) -> None:
        target = target_of(plan.url)
        if target.scheme != "http":
            raise ValueError("the own sender speaks plain http only")
        self.now = clock.monotonic_ns
        self.names = names
        self.pods = PodReader(plan.pod_from)
        self.request = RequestBytes(plan)
        self.addresses = Addresses(target.host, target.port, clock)
        self.expected = Expected(plan.expect_status, plan.expect_body)
        self._head = plan.method == "HEAD"
        self._tasks: set[asyncio.Task[None]] = set()

    def connection(self, number: int, lane: Lane, owner: Owner) -> HttpConnection:
        """See `Sender`."""
        keep_body = self.pods.wants_body or bool(self.expected.text)
        reader = AnswerReader(self.pods, self.names, head=self._head, keep_body=keep_body)
        return HttpConnection(self, reader, number, lane, owner)

    async def start(self) -> None:
        """See `Sender`."""
        await self.addresses.start()

    async def close(self) -> None:
        """See `Sender`."""
        await self.addresses.close()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def attach(self, connection: HttpConnection, sock: socket.socket) -> None:
        """Gives a connected socket to the loop; `connection_made` follows (with TLS: after the handshake)."""
        task = asyncio.get_running_loop().create_task(self._attach(connection, sock))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attach(self, connection: HttpConnection, sock: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: connection, sock=sock)
        except OSError as error:
            sock.close()
            connection.connection_lost(error)


class HttpConnection(asyncio.Protocol):
    """See `sender.Connection`."""

    def __init__(self, sender: HttpSender, reader: AnswerReader, number: int, lane: Lane, owner: Owner) -> None:
        self._sender = sender
        self._now = sender.now
        self._owner = owner
        self._reader = reader
        self._attempt: Attempt | None = None
        self._sock: socket.socket | None = None
        self._transport: asyncio.Transport | None = None
        self._attached = False
        self._unsent = False
        self._since = ABSENT
        self._connect = ABSENT
        self._peer = ""
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
        return self._transport is not None and self._attempt is None

    def open(self) -> None:
        """See `sender.Connection`."""
        self._dial()

    def send(self, attempt: Attempt) -> None:
        """See `sender.Connection`."""
        self._attempt = attempt
        attempt.connection = self.number
        attempt.answers_before = self.answers
        attempt.connection_pod = self.pod
        if self._transport is None:
            attempt.connect = 0  # to be filled in: this request pays for the connect
            self._dial()
        else:
            self._write(attempt)

    def expire(self) -> None:
        """See `sender.Connection`."""
        self._fail(Cause.TIMEOUT, 0)

    def close(self) -> None:
        """See `sender.Connection`."""
        self._attempt = None
        self._close(BY_US)

    # ------------------------------------------------------------ connecting

    def _dial(self) -> None:
        self._since = self._now()
        address = self._sender.addresses.next()
        if address is None:
            self._fail(Cause.NAME, 0)
            return
        family, where = address
        self._peer = f"[{where[0]}]:{where[1]}" if family == socket.AF_INET6 else f"{where[0]}:{where[1]}"
        try:
            self._sock = sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number = sock.connect_ex(where)
            # Now, not later: once the connect has failed and the socket is closed nobody can tell.
            self.port = sock.getsockname()[1]
        except OSError as error:
            self._fail_errno(error.errno or 0)
            return
        if number in _UNDER_WAY:
            asyncio.get_running_loop().add_writer(sock.fileno(), self._dialled)
        elif number:
            self._fail_errno(number)
        else:
            self._connected(sock)

    def _dialled(self) -> None:
        sock = self._sock
        assert sock is not None
        asyncio.get_running_loop().remove_writer(sock.fileno())
        number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            self._fail_errno(number)
        else:
            self._connected(sock)

    def _connected(self, sock: socket.socket) -> None:
        self.opened = self._now()
        self._connect = self.opened - self._since
        self._attached = True
        self._sender.attach(self, sock)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The loop reads the socket from here on."""
        transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        if self.closed != ABSENT:  # given up meanwhile
            transport.abort()
            return
        transport.set_write_buffer_limits(high=0)  # `resume_writing` is to mean: all is written
        self._transport = transport
        if self._attempt is None:
            self._owner.opened(self)
        else:
            self._write(self._attempt)

    # ------------------------------------------------------------ one request

    def _write(self, attempt: Attempt) -> None:
        self._reader.begin()
        assert self._sock is not None
        assert self._transport is not None
        data = self._sender.request(attempt.seq, last=self.lane is Lane.NEW)
        try:
            # Not through the transport, which may only queue it (uvloop does): `written` is the moment of the system call.
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._fail_errno(error.errno or 0)
            return
        if sent == len(data):
            attempt.written = self._now()
            return
        self._unsent = True
        self._transport.write(data[sent:])
        if self._transport.get_write_buffer_size() == 0:
            self.resume_writing()

    def resume_writing(self) -> None:
        """The rest of a large request is with the kernel."""
        if self._unsent:
            self._unsent = False
            # An answer that came before the request was out has no moment "written" before it.
            if self._attempt is not None and self._attempt.first_byte == ABSENT:
                self._attempt.written = self._now()

    def data_received(self, data: bytes) -> None:
        """Bytes of the answer; without a request under way, of something that nobody asked for."""
        attempt = self._attempt
        if attempt is None:
            self._fail(Cause.GARBAGE, 0)
            return
        if attempt.first_byte == ABSENT:
            attempt.first_byte = self._now()
        fed = self._reader.feed(data)
        if fed is Fed.WHOLE:
            self._finish(attempt)
        elif fed is Fed.GARBAGE:
            self._fail(Cause.GARBAGE, 0)

    def eof_received(self) -> None:
        """The peer will send no more; the transport closes after this."""
        if self.closed != ABSENT:
            return
        if self._attempt is not None and self._reader.end_of_stream():
            self._finish(self._attempt)
        else:
            self._fail(Cause.EOF, 0)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        if self.closed != ABSENT:
            return
        if exc is None:
            self.eof_received()
        else:
            self._fail_errno((exc.errno if isinstance(exc, OSError) else None) or errno.ECONNRESET)

    def _finish(self, attempt: Attempt) -> None:
        reader = self._reader
        attempt.ended = self._now()
        self.answers += 1
        sender = self._sender
        if sender.pods.wants_body:
            reader.pod = sender.names.index(sender.pods.in_body(reader.body))
        attempt.kind = sender.expected.kind(reader.status, reader.body if sender.expected.text else b"")
        if attempt.kind is not None:
            attempt.message = words_of_answer(attempt.kind, reader.status)
        self._facts(attempt)
        self._attempt = None
        if self.lane is Lane.NEW:
            self._close(BY_US)
        elif not reader.keep_alive:
            self._close(BY_FIN)  # the peer has closed it or said that it will
        elif self._unsent:
            self._close(BY_US)
        self._owner.finished(self, attempt)

    def _fail_errno(self, number: int) -> None:
        self._fail(cause_of_errno(number), number)

    def _fail(self, cause: Cause, number: int) -> None:
        if self.closed != ABSENT:
            return
        now = self._now()
        reader = self._reader
        if self.opened == ABSENT:
            stage = Stage.CONNECTING
            self._connect = now - self._since if self.port else ABSENT
        else:
            stage = Stage.ANSWERING if reader.received else Stage.WAITING
        attempt = self._attempt
        self._attempt = None
        self._close(_CLOSED_BY.get(cause, BY_ERROR))
        if attempt is None:
            self._owner.lost(self)
            return
        attempt.ended = now
        attempt.kind = kind_of(stage, cause)
        attempt.local = attempt.kind is None
        attempt.errno = number
        attempt.message = words(stage, cause, number)
        self._facts(attempt)
        self._owner.finished(self, attempt)

    def _facts(self, attempt: Attempt) -> None:
        reader = self._reader
        attempt.port = self.port
        if attempt.connect != ABSENT:
            attempt.connect = self._connect
        attempt.status = reader.status
        attempt.size = reader.size
        attempt.received = reader.received
        if reader.pod:
            attempt.pod = self.pod = reader.pod
        attempt.peer = self._peer
        if self.opened != ABSENT:
            attempt.connection_age = attempt.ended - self.opened

    def _close(self, by: int) -> None:
        self.closed = self._now()
        self.closed_by = by
        self._reader.release()
        transport, sock = self._transport, self._sock
        self._transport = self._sock = None
        if transport is not None:
            transport.abort()
        elif sock is not None and not self._attached:
            asyncio.get_running_loop().remove_writer(sock.fileno())
            sock.close()
