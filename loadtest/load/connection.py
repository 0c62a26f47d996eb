"""Our own sender: HTTP/1.1 on an asyncio protocol, with every event of a connection's life seen.

Decides: when the request was written, when the first byte came, what an event on the socket means for the request on it; how
that is named is `lifecycle`'s and `failures`' matter. Refuses: repeating anything. A kept connection that dies with a request on
it is a failure of that request: that is what a rollout causes, and what other clients hide.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import cast

from loadtest.clock import Clock
from loadtest.columns import ABSENT
from loadtest.load.answer import AnswerReader, Fed
from loadtest.load.failures import Cause
from loadtest.load.lifecycle import Endpoint, SocketConnection
from loadtest.load.podname import PodNames
from loadtest.load.request import RequestBytes
from loadtest.load.sender import Attempt, Owner
from loadtest.model import Lane, LoadPlan


class HttpSender:
    """Sends plain HTTP/1.1 over connections of our own.

    Raises:
        ValueError: the plan cannot be sent.
    """

    def __init__(self, plan: LoadPlan, clock: Clock, names: PodNames) -> None:
        self.endpoint = Endpoint(plan, clock, names)
        self.request = RequestBytes(plan)
        self.head = plan.method == "HEAD"
        self._tasks: set[asyncio.Task[None]] = set()

    def connection(self, number: int, lane: Lane, owner: Owner) -> HttpConnection:
        """See `Sender`."""
        return HttpConnection(self, number, lane, owner)

    async def start(self) -> None:
        """See `Sender`."""
        await self.endpoint.addresses.start()

    async def close(self) -> None:
        """See `Sender`."""
        await self.endpoint.addresses.close()
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


class HttpConnection(SocketConnection, asyncio.Protocol):
    """See `sender.Connection`."""

    def __init__(self, sender: HttpSender, number: int, lane: Lane, owner: Owner) -> None:
        endpoint = sender.endpoint
        super().__init__(endpoint, number, lane, owner)
        self._sender = sender
        self._reader = AnswerReader(endpoint.pods, endpoint.names, head=sender.head, keep_body=endpoint.keep_body)
        self._sock: socket.socket | None = None
        self._transport: asyncio.Transport | None = None
        self._unsent = False

    # ------------------------------------------------------------ what `SocketConnection` asks for

    def _attach(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sender.attach(self, sock)

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
            self._fail_errno(error.errno or errno.EIO)
            return
        if sent == len(data):
            attempt.written = self._now()
            return
        self._unsent = True
        self._transport.write(data[sent:])
        if self._transport.get_write_buffer_size() == 0:
            self.resume_writing()

    def _tear_down(self) -> None:
        self._reader.release()
        transport = self._transport
        self._transport = self._sock = None
        if transport is not None:  # else it comes yet, and is closed in `connection_made`
            transport.abort()

    @property
    def _received(self) -> int:
        return self._reader.received

    def _describe(self, attempt: Attempt) -> None:
        reader = self._reader
        attempt.status = reader.status
        attempt.size = reader.size
        attempt.received = reader.received
        attempt.pod = reader.pod

    # ------------------------------------------------------------ what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The loop reads the socket from here on."""
        transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        if self.closed != ABSENT:  # given up meanwhile
            transport.abort()
            return
        transport.set_write_buffer_limits(high=0)  # `resume_writing` is to mean: all is written
        self._transport = transport
        self._can_write()

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
            self._whole(attempt)
        elif fed is Fed.GARBAGE:
            self._fail(Cause.GARBAGE, 0)

    def eof_received(self) -> None:
        """The peer will send no more; the transport closes after this."""
        if self._attempt is not None and self._reader.end_of_stream():
            self._whole(self._attempt)
        else:
            self._fail(Cause.EOF, 0)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        if exc is None:
            self.eof_received()
        else:
            self._fail_errno((exc.errno if isinstance(exc, OSError) else None) or errno.ECONNRESET)

    def _whole(self, attempt: Attempt) -> None:
        reader = self._reader
        body = reader.body if self._endpoint.keep_body else b""
        # An answer that did not wait for the whole request leaves the connection in no state to go on.
        self._finish(attempt, body, peer_ends=not reader.keep_alive, we_end=self._unsent)
