"""Law 1: every tick of the schedule that was due has exactly one record."""

from __future__ import annotations

from collections.abc import Iterable

from loadtest.columns import Block
from loadtest.model import StoredRun


def unaccounted(run: StoredRun, requests: Iterable[Block]) -> tuple[int, int, tuple[str, ...]]:
    """Law 1: what became of every sequence number up to the last one due.

    Returns:
        How many were due, how many of them have no record (lost with a worker), and what contradicts the law in words.
    """
    marks = bytearray()
    twice = 0

    def mark(seq: int) -> None:
        nonlocal twice
        if seq >= len(marks):
            marks.extend(bytes(max(seq + 1 - len(marks), len(marks) // 2)))
        twice += marks[seq]
        marks[seq] = 1

    last = max((end.last_due for end in run.ends), default=-1)
    for block in requests:
        for seq in block.columns["seq"]:
            mark(seq)
        last = max(last, *block.columns["seq"]) if block.columns["seq"] else last
    for seq in (*(drop.seq for drop in run.drops), *(request.seq for request in run.open)):
        mark(seq)
        last = max(last, seq)
    known = sum(marks[: last + 1])
    wrong = (f"{twice} sequence numbers have more than one record",) if twice else ()
    return last + 1, last + 1 - known, wrong
