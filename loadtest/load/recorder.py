"""Keeps what happened, as packed columns and a few plain values, until it is handed over.

Decides: nothing but the form. Times become nanoseconds since the run's start here, and nowhere else. Input: attempts and
connections at their end.
"""

from __future__ import annotations

from collections.abc import Callable

from loadtest.columns import ABSENT, CONNECTION_COLUMNS, REQUEST_COLUMNS, ConnectionBlock, RequestBlock, empty
from loadtest.load.podname import PodNames
from loadtest.load.schedule import Tick
from loadtest.load.sender import Attempt, Connection
from loadtest.model import FAILURE_KINDS, Drop, DropReason, Failure, FailureKind, OpenRequest, PodName

FULL = 4096
"""Rows after which a block is handed over at once."""

Recorded = RequestBlock | ConnectionBlock | PodName | Failure | Drop | OpenRequest

_KIND_NUMBER: dict[FailureKind | None, int] = {None: 0} | {kind: 1 + at for at, kind in enumerate(FAILURE_KINDS)}


class Recorder:
    """The worker's memory.

    Args:
        deliver: takes what was recorded since its last call, in an order in which nothing refers to something later.
    """

    def __init__(self, worker: int, epoch_ns: int, names: PodNames, deliver: Callable[[list[Recorded]], None]) -> None:
        self._worker = worker
        self._epoch_ns = epoch_ns
        self._names = names
        self._deliver = deliver
        self._values: list[Recorded] = []
        self._begin_blocks()
        self.ok = 0
        self.failed = 0
        self.dropped = 0
        self.open = 0
        self.last_failure = ""

    def request(self, attempt: Attempt) -> None:
        """A request that ended."""
        epoch = self._epoch_ns
        columns = self._append_request
        kind = attempt.kind
        written, first_byte = attempt.written, attempt.first_byte
        columns[0](attempt.seq)
        columns[1](attempt.due - epoch)
        columns[2](attempt.started - epoch)
        columns[3](written - epoch if written != ABSENT else ABSENT)
        columns[4](first_byte - epoch if first_byte != ABSENT else ABSENT)
        columns[5](attempt.ended - epoch)
        columns[6](attempt.connect)
        columns[7](attempt.size)
        columns[8](attempt.connection)
        columns[9](attempt.answers_before)
        columns[10](attempt.port)
        columns[11](attempt.status)
        columns[12](attempt.pod)
        columns[13](attempt.lane)
        columns[14](_KIND_NUMBER[kind])
        if kind is None:
            self.ok += 1
        else:
            self.failed += 1
            self.last_failure = kind.value
            self._values.append(self._failure(attempt, kind))
        self._rows += 1
        if self._rows >= FULL:
            self.flush()

    def drop(self, tick: Tick, reason: DropReason) -> None:
        """A tick that became no request."""
        self.dropped += 1
        self._values.append(Drop(worker=self._worker, seq=tick.seq, due=tick.due_ns - self._epoch_ns, reason=reason))
        if len(self._values) >= FULL:
            self.flush()

    def cut(self, attempt: Attempt) -> None:
        """A request that was under way when the load was cut off."""
        self.open += 1
        self._values.append(
            OpenRequest(
                worker=self._worker,
                seq=attempt.seq,
                due=attempt.due - self._epoch_ns,
                started=attempt.started - self._epoch_ns,
                lane=attempt.lane,
            )
        )

    def connection(self, connection: Connection) -> None:
        """A connection that closed, that could not be opened, or that is still open at the end of the load."""
        epoch = self._epoch_ns
        opened, closed = connection.opened, connection.closed
        columns = self._connections
        columns["connection"].append(connection.number)
        # One that never opened has a life of no length, so that nothing can take it for open at any time.
        columns["opened"].append((opened if opened != ABSENT else closed) - epoch)
        columns["closed"].append(closed - epoch if closed != ABSENT else ABSENT)
        columns["answers"].append(connection.answers)
        columns["port"].append(connection.port)
        columns["pod"].append(connection.pod)
        columns["lane"].append(connection.lane)
        columns["closed_by"].append(connection.closed_by)

    def flush(self) -> None:
        """Hands over what there is."""
        out: list[Recorded] = [PodName(worker=self._worker, index=index, name=name) for index, name in self._names.new]
        self._names.new.clear()
        if self._rows:
            out.append(RequestBlock(worker=self._worker, columns=self._requests))
        if len(self._connections["connection"]):
            out.append(ConnectionBlock(worker=self._worker, columns=self._connections))
        out += self._values
        self._values = []
        self._begin_blocks()
        if out:
            self._deliver(out)

    def _begin_blocks(self) -> None:
        self._requests = empty(REQUEST_COLUMNS)
        self._connections = empty(CONNECTION_COLUMNS)
        self._append_request = [column.append for column in self._requests.values()]
        self._rows = 0

    def _failure(self, attempt: Attempt, kind: FailureKind) -> Failure:
        return Failure(
            worker=self._worker,
            seq=attempt.seq,
            kind=kind,
            errno=attempt.errno,
            received=attempt.received,
            answers_before=attempt.answers_before,
            connection_age_ns=attempt.connection_age,
            connection_pod=self._names.name(attempt.connection_pod),
            peer=attempt.peer,
            message=attempt.message,
        )
