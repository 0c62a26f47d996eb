"""Reads HTTP/1.1 answers from bytes: one reader for each connection, no socket.

Decides: when an answer is whole, when it is garbage, whether the connection may be used again. The body is counted, and kept
(up to 64 KiB) only where the pod's name or an expected text is looked for in it. Around httptools' habits:

- an answer to HEAD, a 204 and a 304 have no body whatever their headers say; the parser would wait for one, so the answer ends
  with its headers and the next one gets a parser of its own;
- a body that lasts until the connection closes never completes by itself: `end_of_stream` says whether it was whole;
- 1xx answers are passed over, but 101: nobody asked for an upgrade;
- trailers come through `on_header`: what comes after the head is ignored;
- what comes after a whole answer does not touch that answer, but ends the connection;
- the head is not bounded by it: 256 KiB.
"""

from __future__ import annotations

from enum import Enum

import httptools

from loadtest.load.podname import PodNames, PodReader

MOST_HEAD = 256 * 1024
MOST_KEPT_BODY = 64 * 1024
BODILESS = frozenset({204, 304})


class Fed(Enum):
    """What the bytes so far amount to."""

    MORE = 0
    WHOLE = 1
    GARBAGE = 2


class AnswerReader:
    """Reads the answers of one connection, one after the other. Call `begin` before each."""

    __slots__ = (
        "_bodiless", "_done", "_framed", "_head_done", "_keep_body", "_kept", "_names", "_new_parser", "_parser", "_pod_header",
        "_raw_close", "keep_alive", "pod", "received", "size", "status",
    )  # fmt: skip

    def __init__(self, reader: PodReader, names: PodNames, *, head: bool, keep_body: bool) -> None:
        self._names = names
        self._pod_header = reader.header
        self._keep_body = keep_body
        self._bodiless = head
        self._new_parser = True
        self._parser: httptools.HttpResponseParser | None = None
        self._kept: list[bytes] = []
        self._done = True
        self._head_done = False
        self._framed = False
        self._raw_close = False
        self.status = 0
        self.received = 0
        self.size = 0
        self.pod = 0
        self.keep_alive = False

    def begin(self) -> None:
        """The next bytes belong to a new answer."""
        if self._new_parser:
            self._parser = httptools.HttpResponseParser(self)
            self._new_parser = False
        self._done = False
        self._head_done = False
        self._framed = False
        self._raw_close = False
        self.status = 0
        self.received = 0
        self.size = 0
        self.pod = 0
        self.keep_alive = False
        if self._kept:
            self._kept.clear()

    def feed(self, data: bytes) -> Fed:
        """Takes what arrived."""
        self.received += len(data)
        try:
            assert self._parser is not None
            self._parser.feed_data(data)
        except (httptools.HttpParserUpgrade, httptools.HttpParserError):
            # 101, or not HTTP; after a whole answer it is only junk behind it.
            self.keep_alive = False
            return Fed.WHOLE if self._done else Fed.GARBAGE
        if self._done:
            return Fed.WHOLE
        if not self._head_done and self.received > MOST_HEAD:
            return Fed.GARBAGE
        return Fed.MORE

    def end_of_stream(self) -> bool:
        """The peer sends no more: whether the answer is whole by that."""
        self.keep_alive = False
        return self._done or (self._head_done and not self._framed)

    def release(self) -> None:
        """Lets go of the parser, which holds this object: no cycle is left for the garbage collector."""
        self._parser = None
        self._new_parser = True

    @property
    def body(self) -> bytes:
        """The body, or its first 64 KiB, where it was to be kept."""
        return b"".join(self._kept)[:MOST_KEPT_BODY]

    # ------------------------------------------------------------ httptools calls these

    def on_message_begin(self) -> None:
        """A second answer to one request is junk."""
        if self._done:
            self.keep_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Also called for trailers."""
        if self._head_done:
            return
        name = name.lower()
        if name == b"content-length":
            self._framed = True
        elif name == self._pod_header:
            self.pod = self._names.index_of_header(value)
        elif name == b"transfer-encoding":
            # A coding other than chunked at the end lasts until close (RFC 9112, 6.3).
            self._framed = value.rstrip().lower().endswith(b"chunked")
        elif name == b"connection":
            self._raw_close = b"close" in value.lower()

    def on_headers_complete(self) -> None:
        """The head of an answer, or of an interim one."""
        if self._done:
            return
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 200:
            self._framed = self._raw_close = False
            self.pod = 0
            return
        self.status = status
        self._head_done = True
        if self._bodiless or status in BODILESS:
            # `should_keep_alive` is right only in `on_message_complete`, which may never come here.
            self.keep_alive = not self._raw_close and self._parser.get_http_version() != "1.0"
            self._done = self._new_parser = True

    def on_body(self, data: bytes) -> None:
        """A part of the body."""
        if self._done:
            self.keep_alive = False
            return
        if self._keep_body and self.size < MOST_KEPT_BODY:
            self._kept.append(data)
        self.size += len(data)

    def on_message_complete(self) -> None:
        """The end of an answer, or of an interim one."""
        if self._done or not self._head_done:
            return
        assert self._parser is not None
        self._done = True
        self.keep_alive = self._parser.should_keep_alive()
