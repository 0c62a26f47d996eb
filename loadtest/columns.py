"""Packed columns: how many requests travel and lie on disk as one block of bytes.

A row for each request would cost more than the request itself (`design.md`, decision 6), so the load process keeps one
array per fact, and hands over some thousands of rows at a time. Blocks are little-endian and carry their row count; the
list of columns belongs to the schema version of `run.db`.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

ABSENT = -1
"""In a time column: this moment never came."""

REQUEST_COLUMNS: tuple[tuple[str, str], ...] = (
    ("seq", "q"),  # number of the tick in the whole run's schedule, from 0
    ("due", "q"),  # ns since the run's start; so are the four after it
    ("started", "q"),  # connecting or writing began
    ("written", "q"),  # the last byte of the request was handed to the socket
    ("first_byte", "q"),  # the first byte of the answer came
    ("ended", "q"),  # the answer was whole, or the failure was known
    ("connect", "q"),  # ns the connect took, also a failed one; ABSENT where the request had an open connection
    ("size", "q"),  # bytes of the answer's body received
    ("connection", "I"),  # number of the connection in its worker, from 1; a failed connect has one as well
    ("answers_before", "I"),  # how many answers this connection had given before ("reused" is: more than none)
    ("port", "H"),  # our source port; 0 where none was ever given
    ("status", "H"),  # HTTP status of the answer; 0 where none came whole enough to be read
    ("pod", "H"),  # index into the worker's pod names; 0: this answer named none
    ("lane", "B"),  # Lane
    ("kind", "B"),  # 0: ok, else 1 + index into FAILURE_KINDS
)
CONNECTION_COLUMNS: tuple[tuple[str, str], ...] = (
    ("connection", "I"),
    ("opened", "q"),  # ns since the run's start: the connect was complete (one of the warm-up that failed: opened = closed)
    ("closed", "q"),  # ABSENT: still open when the load ended
    ("answers", "I"),
    ("port", "H"),
    ("pod", "H"),  # the pod that answered on it (a connection leads to one pod); 0: none named
    ("lane", "B"),
    ("closed_by", "B"),  # index into CLOSED_BY; "peer-fin" also where an answer on a kept connection said `Connection: close`
)
CLOSED_BY = ("open", "us", "peer-fin", "peer-reset", "timeout", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Rows of one kind from one worker.

    Attributes:
        worker: number of the worker, from 0.
        columns: column name to array, all of the same length.
    """

    worker: int
    columns: dict[str, array[int]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBlock(Block):
    """Rows of `REQUEST_COLUMNS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionBlock(Block):
    """Rows of `CONNECTION_COLUMNS`."""


def empty(layout: tuple[tuple[str, str], ...]) -> dict[str, array[int]]:
    """Columns without rows, to be appended to."""
    return {name: array(code) for name, code in layout}


def pack(columns: dict[str, array[int]], layout: tuple[tuple[str, str], ...]) -> bytes:
    """The columns one after the other, little-endian, in the order of the layout."""
    parts = []
    for name, code in layout:
        column = columns[name]
        if column.typecode != code:
            raise ValueError(f"column {name} has type {column.typecode}, expected {code}")
        if sys.byteorder == "big":
            column = array(code, column)
            column.byteswap()
        parts.append(column.tobytes())
    return b"".join(parts)


def unpack(data: bytes, count: int, layout: tuple[tuple[str, str], ...]) -> dict[str, array[int]]:
    """The reverse of `pack`.

    Raises:
        ValueError: the data is not `count` rows long.
    """
    view = memoryview(data)
    columns = {}
    at = 0
    for name, code in layout:
        column = array(code)
        size = column.itemsize * count
        column.frombytes(view[at : at + size])
        if len(column) != count:
            raise ValueError(f"column {name} ends early")
        if sys.byteorder == "big":
            column.byteswap()
        at += size
        columns[name] = column
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes too many")
    return columns


def rows(block: Block, *names: str) -> Iterator[tuple[int, ...]]:
    """The named columns of a block, row by row."""
    return zip(*(block.columns[name] for name in names), strict=True)
