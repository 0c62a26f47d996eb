"""The second sender: aiohttp reads and writes, as a reference for our own. It must name the same fault by the same kind.

What aiohttp does by itself and would falsify a measurement is switched off: it repeats an idempotent request when the
connection breaks; it tries several addresses for one request; it replaces a pooled connection that has died; it asks for
compressed answers; it follows redirects. Each connection here is a session of its own, and gets exactly one socket, dialled as
our own sender does: even a version that ignored `_retry_connection` (a private name; a test fails when it loses its meaning)
would have nothing to repeat a request on. What this sender knows
less well: `written` is when aiohttp began to write; a kept connection is not read before its first request; an answer with junk
right behind it counts as a bad one.

The only file that imports aiohttp for load.
"""

from __future__ import annotations

import asyncio
import errno
import io
import socket
from collections.abc import Coroutine
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from loadtest.clock import Clock
from loadtest.columns import ABSENT
from loadtest.load.answer import BODILESS, MOST_HEAD, MOST_KEPT_BODY
from loadtest.load.failures import Cause, cause_of_errno
from loadtest.load.lifecycle import Endpoint, SocketConnection
from loadtest.load.podname import PodNames
from loadtest.load.request import REQUEST_ID, RequestBytes, headers_of
from loadtest.load.sender import Attempt, Owner
from loadtest.model import Lane, LoadPlan

_NOT_ADDED = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")


class AiohttpSender:
    """Sends plain HTTP/1.1 through aiohttp.

    Raises:
        ValueError: the plan cannot be sent.
    """

    def __init__(self, plan: LoadPlan, clock: Clock, names: PodNames) -> None:
        RequestBytes(plan)  # for its complaints: both senders refuse the same plans
        self.plan = plan
        self.endpoint = Endpoint(plan, clock, names)
        self.headers = headers_of(plan, self.endpoint.target)
        self._tasks: set[asyncio.Task[None]] = set()

    def connection(self, number: int, lane: Lane, owner: Owner) -> AiohttpConnection:
        """See `Sender`."""
        return AiohttpConnection(self, number, lane, owner)

    async def start(self) -> None:
        """See `Sender`."""
        await self.endpoint.addresses.start()

    async def close(self) -> None:
        """See `Sender`."""
        await self.endpoint.addresses.close()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that `close` waits for."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            context = {"message": "a request of the aiohttp sender ended in an exception", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)


class ConnectedSocket(socket.socket):
    """A socket that is connected already, for a library that wants to connect by itself."""

    def connect(self, address: Any, /) -> None:
        """Nothing is left to do."""


class NotingHandler(ResponseHandler):
    """aiohttp's protocol, with what passes by noted."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: AiohttpConnection) -> None:
        super().__init__(loop)
        self._notes = connection

    def data_received(self, data: bytes) -> None:
        """Counts, and sees whether aiohttp can read it."""
        self._notes.saw_bytes(len(data))
        super().data_received(data)
        if self.exception() is not None:
            self._notes.saw_end(Cause.GARBAGE, 0)

    def eof_received(self) -> None:
        """The peer sends no more."""
        self._notes.saw_end(Cause.EOF, 0)
        super().eof_received()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The socket is gone."""
        number = (exc.errno or 0) if isinstance(exc, OSError) else 0
        super().connection_lost(exc)
        self._notes.saw_end(cause_of_errno(number) if number else Cause.EOF, number)
        self._notes.saw_lost()


class AiohttpConnection(SocketConnection):
    """See `sender.Connection`."""

    def __init__(self, sender: AiohttpSender, number: int, lane: Lane, owner: Owner) -> None:
        super().__init__(sender.endpoint, number, lane, owner)
        self._sender = sender
        self._sock: socket.socket | None = None  # until aiohttp takes it
        self._session: aiohttp.ClientSession | None = None
        self._handler: NotingHandler | None = None
        self._task: asyncio.Task[None] | None = None
        self._count = 0
        self._end: tuple[Cause, int] | None = None

    # ------------------------------------------------------------ what `SocketConnection` asks for

    def _attach(self, sock: socket.socket) -> None:
        self._sock = ConnectedSocket(fileno=sock.detach())
        self._session = self._new_session()
        self._can_write()

    def _write(self, attempt: Attempt) -> None:
        self._count = 0
        self._task = self._sender.spawn(self._request(attempt))

    def _tear_down(self) -> None:
        if self._handler is not None and self._handler.transport is not None:
            self._handler.transport.abort()
        if self._sock is not None:
            self._sock.close()
        task, session = self._task, self._session
        self._task = self._session = self._sock = None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        if session is not None:
            self._sender.spawn(session.close())

    @property
    def _received(self) -> int:
        return self._count

    def _describe(self, attempt: Attempt) -> None:
        attempt.received = self._count  # status, size and pod were filled in as they came

    # ------------------------------------------------------------ what passes by

    def saw_bytes(self, count: int) -> None:
        """Bytes of an answer came, or some that nobody asked for."""
        attempt = self._attempt
        if attempt is None:
            self._fail(Cause.GARBAGE, 0)
            return
        if attempt.first_byte == ABSENT:
            attempt.first_byte = self._now()
        self._count += count

    def saw_end(self, cause: Cause, number: int) -> None:
        """The peer ended the connection, or said something else than HTTP; what is seen first counts."""
        if self._end is None:
            self._end = (cause, number)

    def saw_lost(self) -> None:
        """The socket is gone; a request under way notices by itself."""
        if self._attempt is None and self._end is not None:
            self._fail(*self._end)

    # ------------------------------------------------------------ one request

    def _new_session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=1, keepalive_timeout=None, socket_factory=self._take_socket)
        # There is no public way to see what happens on the socket.
        connector._factory = self._new_handler  # type: ignore[assignment]  # noqa: SLF001 - the same reason
        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(self._began_to_write)
        trace.on_request_chunk_sent.append(self._began_to_write)
        session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_NOT_ADDED,
            auto_decompress=False,
            trace_configs=[trace],
            max_line_size=MOST_HEAD,
            max_field_size=MOST_HEAD,
            max_headers=MOST_HEAD // 4,
        )
        session._retry_connection = False  # noqa: SLF001 - there is no public switch (aiohttp#10790)
        return session

    def _take_socket(self, _: object) -> socket.socket:
        if self._sock is None:  # the pool found its connection dead, and would quietly make another one
            raise OSError(errno.EPIPE, "this connection gets no second socket")
        sock, self._sock = self._sock, None
        return sock

    def _new_handler(self) -> NotingHandler:
        self._handler = NotingHandler(asyncio.get_running_loop(), self)
        return self._handler

    async def _began_to_write(self, *_: object) -> None:
        if self._attempt is not None and self._attempt.first_byte == ABSENT:
            self._attempt.written = self._now()

    async def _request(self, attempt: Attempt) -> None:
        body = bytearray()
        try:
            async with self._exchange(attempt) as response:
                attempt.status = response.status
                attempt.pod = self._endpoint.names.index(response.headers.get(self._endpoint.pods.header.decode(), ""))
                async for chunk in response.content.iter_any():
                    attempt.size += len(chunk)
                    if self._endpoint.keep_body and len(body) < MOST_KEPT_BODY:
                        body += chunk
                if self._end is not None and self._end[0] is not Cause.EOF and _lasts_until_close(response):
                    raise aiohttp.ClientPayloadError  # to aiohttp, a reset is as good an end as any
        except (aiohttp.ClientError, OSError) as error:
            if self._attempt is attempt:
                self._fail(*self._why(error))
            return
        if self._attempt is attempt:
            handler = self._handler
            peer_ends = handler is None or handler.should_close or not handler.is_connected()
            self._finish(attempt, bytes(body[:MOST_KEPT_BODY]), peer_ends=peer_ends, we_end=False)

    def _exchange(self, attempt: Attempt) -> Any:
        plan, dial, session = self._sender.plan, self._dial, self._session
        assert dial is not None
        assert session is not None
        headers = list(self._sender.headers)
        given = {name.lower() for name, _ in headers}
        if plan.request_id and REQUEST_ID.lower() not in given:
            headers.append((REQUEST_ID, f"{plan.run_id}-{attempt.seq}"))
        if self.lane is Lane.NEW and "connection" not in given:
            headers.append(("Connection", "close"))
        url = URL(f"http://{dial.peer}{self._endpoint.target.path}", encoded=True)
        data = io.BytesIO(plan.body) if plan.body else None  # it warns of large bytes
        return session.request(plan.method, url, headers=headers, data=data, allow_redirects=False)

    def _why(self, error: Exception) -> tuple[Cause, int]:
        """What ended the request: what was seen on the socket, and only where nothing was, what aiohttp makes of it."""
        if self._end is not None:
            return self._end
        if isinstance(error, OSError) and error.errno:
            return cause_of_errno(error.errno), error.errno
        return Cause.GARBAGE, 0


def _lasts_until_close(response: aiohttp.ClientResponse) -> bool:
    """Whether only the end of the connection ends this answer."""
    headers = response.headers
    framed = "Content-Length" in headers or headers.get("Transfer-Encoding", "").lower().endswith("chunked")
    return not framed and response.method != "HEAD" and response.status not in BODILESS
