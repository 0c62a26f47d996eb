"""An HTTP server that fails on purpose: one thread for each connection, so that nothing here disturbs the loop under test."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Pod-Name: web-1\r\n\r\nhello"


@dataclass(frozen=True, slots=True)
class Request:
    """What came. `number`: from 0, on its connection; `total`: from 0, over all connections."""

    number: int
    total: int
    head: bytes
    body: bytes = b""

    @property
    def id(self) -> str:
        """Its X-Request-Id, or ""."""
        found = re.search(rb"X-Request-Id: (\S+)", self.head)
        return found[1].decode() if found else ""


class Wire:
    """A connection as the server holds it."""

    def __init__(self, sock: socket.socket, stopping: threading.Event) -> None:
        self._sock = sock
        self._stopping = stopping
        self.open = True

    def send(self, data: bytes) -> None:
        """Sends all of it."""
        self._sock.sendall(data)

    def fin(self) -> None:
        """Closes in order."""
        self.open = False
        self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def rst(self) -> None:
        """Closes with a reset."""
        self.open = False
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()

    def wait(self, seconds: float) -> None:
        """Lets time pass, unless the server stops."""
        self._stopping.wait(seconds)


Behaviour = Callable[[Wire, Request], None]


def well(wire: Wire, request: Request) -> None:
    """Answers as a healthy pod does."""
    wire.send(OK)
    if b"\r\nConnection: close" in request.head:
        wire.fin()


@dataclass
class Server:
    """Answers each request by `behave`, a context manager.

    Attributes:
        requests: what came, in order.
        connections: how many were accepted.
        url: where it listens, or listened.
    """

    behave: Behaviour = well
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    url: str = ""

    def __enter__(self) -> Self:
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._socks: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for sock in self._socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()

    def ids(self) -> list[str]:
        """The request ids that came, in order."""
        with self._lock:
            return [request.id for request in self.requests]

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            self._socks.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        wire = Wire(sock, self._stopping)
        number = 0
        data = b""
        with sock, contextlib.suppress(OSError):
            while wire.open:
                while b"\r\n\r\n" not in data:
                    came = sock.recv(65536)
                    if not came:
                        return
                    data += came
                head, _, data = data.partition(b"\r\n\r\n")
                found = re.search(rb"(?i)content-length: (\d+)", head)
                length = int(found[1]) if found else 0
                while len(data) < length:
                    data += sock.recv(65536)
                body, data = data[:length], data[length:]
                with self._lock:
                    request = Request(number, len(self.requests), head, body)
                    self.requests.append(request)
                number += 1
                self.behave(wire, request)


@contextlib.contextmanager
def nobody_listens() -> Iterator[str]:
    """A URL whose port refuses."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/"


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """A URL that answers no SYN: the listener's queue is full and nobody accepts."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
