"""Writes to the conductor in a thread of its own, so that a slow reader never delays a request.

What waits is bounded by bytes. A conductor that has let tens of megabytes pile up (most of a million requests) is not reading
any more: then the load has no one to report to and ends, rather than growing or losing rows in silence.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

MOST_WAITING = 128 * 1024 * 1024


class Outbox:
    """A queue of frames towards a file descriptor.

    Args:
        on_broken: called once, in the writing thread, when the reader is gone.
    """

    def __init__(self, fd: int, on_broken: Callable[[], object]) -> None:
        self._fd = fd
        self._on_broken = on_broken
        self._queue: SimpleQueue[bytes] = SimpleQueue()
        self._put = 0
        self._written = 0
        self._broken = False
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    @property
    def full(self) -> bool:
        """The reader is so far behind that it must be taken for gone."""
        return self._put - self._written > MOST_WAITING

    def put(self, data: bytes) -> None:
        """Queues it; never blocks."""
        if not self._broken:
            self._put += len(data)
            self._queue.put(data)

    def close(self, timeout_s: float) -> None:
        """Writes what waits, for as long as that."""
        self._queue.put(b"")
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while data := self._queue.get():
            view = memoryview(data)
            while view:
                try:
                    sent = os.write(self._fd, view)
                except OSError:  # nobody reads any more
                    self._broken = True
                    self._on_broken()
                    return
                self._written += sent
                view = view[sent:]
