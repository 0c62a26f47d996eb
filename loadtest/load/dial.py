"""One attempt to connect, made here rather than by the loop so that its source port is known, also when it fails.

An attempt that dies in a stale conntrack entry can be told by its port alone, and once the socket is closed nobody knows it.
Both senders connect through this.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

from loadtest.columns import ABSENT
from loadtest.load.addresses import Address

_UNDER_WAY = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK})


class Dial:
    """Connects one non-blocking socket.

    Args:
        now: the monotonic clock.
        done: called once with the errno, or 0; possibly from within `start`, not after `abandon`.

    Attributes:
        peer: "address:port".
        port: our source port; 0 where none was given.
        took_ns: from the begin of the connect to its end, or ABSENT where it could not even be tried.
        sock: open until it has failed, been abandoned, or was taken over by whoever dialled.
    """

    def __init__(self, address: Address, now: Callable[[], int], done: Callable[[int], None]) -> None:
        self._family, self._where = address
        self._now = now
        self._done: Callable[[int], None] | None = done
        self._since = ABSENT
        self._waiting = False
        host, port = self._where
        self.peer = f"[{host}]:{port}" if self._family == socket.AF_INET6 else f"{host}:{port}"
        self.port = 0
        self.took_ns = ABSENT
        self.sock: socket.socket | None = None

    def start(self) -> None:
        """Begins."""
        try:
            self.sock = sock = socket.socket(self._family, socket.SOCK_STREAM)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._since = self._now()
            number = sock.connect_ex(self._where)
            self.port = sock.getsockname()[1]
        except OSError as error:
            self._end(error.errno or errno.EIO)
            return
        if number in _UNDER_WAY:
            self._waiting = True
            asyncio.get_running_loop().add_writer(sock.fileno(), self._writable)
        else:
            self._end(number)

    def abandon(self, now_ns: int) -> None:
        """Gives up; `took_ns` then is the time until now."""
        if self._waiting:
            self._stop_waiting()
            self.took_ns = now_ns - self._since
        self._done = None
        self._close()

    def _writable(self) -> None:
        self._stop_waiting()
        assert self.sock is not None
        self._end(self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def _stop_waiting(self) -> None:
        self._waiting = False
        assert self.sock is not None
        asyncio.get_running_loop().remove_writer(self.sock.fileno())

    def _end(self, number: int) -> None:
        if self._since != ABSENT:
            self.took_ns = self._now() - self._since
        if number:
            self._close()
        done, self._done = self._done, None  # it holds the connection, which holds this
        if done is not None:
            done(number)

    def _close(self) -> None:
        if self.sock is not None:
            self.sock.close()
            self.sock = None
