"""One pass over the packed requests: counts, samples and the rows of failures. Judges nothing.

The pass reads columns and makes a value only of a request that failed (`design.md`, decision 6).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from loadtest.columns import ABSENT, Block
from loadtest.model import (
    FAILURE_KINDS,
    WHOLE_ANSWER_KINDS,
    Failure,
    FailureKind,
    Lane,
    Phase,
    StoredRun,
)

LATE_TICK_NS = 500_000_000
SAVED_BY_TCP_NS = 900_000_000  # the kernel sends a SYN again after 1 s (measured: 1.0, 2.0, 3.1, 4.1 s)
FINEST_BIN_NS = 20_000_000
MOST_BINS = 6_000
"""Per lane: two minutes at the finest."""

_COLUMNS = (
    "seq",
    "due",
    "started",
    "written",
    "first_byte",
    "ended",
    "connect",
    "connection",
    "answers_before",
    "port",
    "status",
    "pod",
    "lane",
    "kind",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """Begin of each phase in ns since the run's start, in order; the last one ends at `end`.

    A request belongs to the phase in which it was due, but the baseline holds only what had ended before the trigger was
    sent (`contract.md`, Outcome).
    """

    begins: tuple[tuple[Phase, int], ...]
    end: int

    @property
    def trigger(self) -> int | None:
        """When the trigger was about to be sent."""
        return next((at for phase, at in self.begins if phase is Phase.ROLLOUT), None)

    def of(self, due: int, ended: int) -> Phase:
        """The phase of a request."""
        found = self.begins[0][0] if self.begins else Phase.WARMUP
        for phase, at in self.begins:
            if due >= at:
                found = phase
        if found in (Phase.WARMUP, Phase.BASELINE):
            trigger = self.trigger
            if trigger is not None and ended >= trigger:
                return Phase.ROLLOUT
        return found

    def span(self, phase: Phase) -> tuple[int, int] | None:
        """Begin and end of a phase; None: the run never came to it."""
        for at, (name, begin) in enumerate(self.begins):
            if name is phase:
                return begin, self.begins[at + 1][1] if at + 1 < len(self.begins) else self.end
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRow:
    """A failed request as recorded; times in ns since the run's start, ABSENT where a moment never came."""

    worker: int
    seq: int
    due: int
    started: int
    written: int
    first_byte: int
    ended: int
    connect: int
    connection: int
    answers_before: int
    port: int
    status: int
    pod: str
    lane: Lane
    kind: FailureKind
    phase: Phase
    detail: Failure

    @property
    def connected(self) -> bool:
        """A connection existed when this request was written."""
        return self.written != ABSENT

    @property
    def code(self) -> int:
        """The HTTP status of an answer that arrived whole, else -1."""
        return self.status if self.kind in WHOLE_ANSWER_KINDS else -1


@dataclass(slots=True)
class PodTally:
    """What one pod's answers show. Times in ns; None: none."""

    served: int = 0
    first: int | None = None
    first_answer: int | None = None
    last_new: int | None = None
    last_reused: int | None = None
    last_connect: int | None = None  # start of the last connection that it accepted and answered
    new_after_deletion: int = 0
    spans: list[list[int]] = field(default_factory=list)  # [first, last] answers with no second of silence between


@dataclass(slots=True)
class Tally:
    """Counts and samples over the whole run."""

    sent: int = 0
    ok: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    kinds: Counter[FailureKind] = field(default_factory=Counter)
    lanes_sent: Counter[int] = field(default_factory=Counter)
    lanes_failed: Counter[int] = field(default_factory=Counter)
    windows_sent: Counter[tuple[Phase, int]] = field(default_factory=Counter)
    windows_failed: Counter[tuple[Phase, int]] = field(default_factory=Counter)
    latency: dict[Phase, array[int]] = field(default_factory=dict)
    connect: array[int] = field(default_factory=lambda: array("q"))
    lateness: array[int] = field(default_factory=lambda: array("q"))
    late_ticks: list[tuple[int, int]] = field(default_factory=list)  # (due, started - due) over half a second
    saved_by_tcp: int = 0
    masked_by_retry: int = 0
    pods: dict[str, PodTally] = field(default_factory=dict)
    failed: list[FailedRow] = field(default_factory=list)
    workers: set[int] = field(default_factory=set)
    bin_ns: int = FINEST_BIN_NS
    ok_bins: Counter[tuple[int, int]] = field(default_factory=Counter)
    ok_ended: array[int] = field(default_factory=lambda: array("q"))
    violations: Counter[str] = field(default_factory=Counter)  # of the laws; empty on every run
    fresh_times: list[int] = field(default_factory=list)  # starts of fresh connections since the trigger
    fresh_answers: dict[str, list[int]] = field(default_factory=dict)  # of those that each pod answered, in order
    named: int = 0
    on_kept: int = 0  # requests on a connection that had answered before


def tally(run: StoredRun, phases: Phases, deletions: Mapping[str, int]) -> Tally:
    """Reads all requests once.

    Args:
        run: the stored run.
        phases: the run's phases.
        deletions: pod name to the arrival of its deletion.
    """
    found = Tally(bin_ns=bin_width(phases.end))
    details = {(failure.worker, failure.seq): failure for failure in run.failures}
    for phase in Phase:
        found.latency[phase] = array("q")
    idempotent = str(run.info.scenario.get("method", "GET")) in {"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"}
    for block in run.requests:
        names = [""] + [
            run.pod_names.get((block.worker, number), "") for number in range(1, max(block.columns["pod"], default=0) + 1)
        ]
        found.workers.add(block.worker)
        _add_block(found, block, names, phases, deletions, details, idempotent=idempotent)
    for starts in found.fresh_answers.values():
        starts.sort()
    found.failed.sort(key=lambda row: (row.started, row.worker, row.seq))
    return found


def bin_width(length_ns: int) -> int:
    """The finest bins of which a run of this length has no more than `MOST_BINS` in a lane."""
    return FINEST_BIN_NS * max(1, -(-length_ns // (FINEST_BIN_NS * (MOST_BINS - 1))))


def _add_block(
    found: Tally,
    block: Block,
    names: list[str],
    phases: Phases,
    deletions: Mapping[str, int],
    details: Mapping[tuple[int, int], Failure],
    *,
    idempotent: bool,
) -> None:
    trigger = phases.trigger
    for row in zip(*(block.columns[name] for name in _COLUMNS), strict=True):
        seq, due, started, written, first_byte, ended, connect, connection, before, port, status, pod, lane, kind = row
        phase = phases.of(due, ended)
        found.sent += 1
        found.lanes_sent[lane] += 1
        found.on_kept += before > 0
        found.windows_sent[phase, lane] += 1
        lateness = started - due
        found.lateness.append(lateness)
        if lateness > LATE_TICK_NS:
            found.late_ticks.append((due, lateness))
        _check_order(found, due, started, written, first_byte, ended)
        if connect >= 0:
            found.connect.append(connect)
            if trigger is not None and started >= trigger:
                found.fresh_times.append(started)
            if connect > SAVED_BY_TCP_NS and written != ABSENT:
                found.saved_by_tcp += 1
        name = names[pod]
        if name:
            found.named += 1
            # A connection whose first SYNs died reached its pod when it was there.
            reached = started + connect if connect > 0 else started
            _add_answer(found, name, reached, ended, before, lane, deletions)
            if before == 0 and trigger is not None and started >= trigger:
                found.fresh_answers.setdefault(name, []).append(started)
        if kind == 0:
            found.ok += 1
            found.statuses[status] += 1
            found.latency[phase].append(ended - due)
            found.ok_bins[due // found.bin_ns, lane] += 1
            found.ok_ended.append(ended)
            continue
        failure = FAILURE_KINDS[kind - 1]
        found.kinds[failure] += 1
        found.lanes_failed[lane] += 1
        found.windows_failed[phase, lane] += 1
        found.statuses[status if failure in WHOLE_ANSWER_KINDS else -1] += 1
        if idempotent and before > 0 and first_byte == ABSENT:
            found.masked_by_retry += 1
        found.failed.append(
            FailedRow(
                worker=block.worker,
                seq=seq,
                due=due,
                started=started,
                written=written,
                first_byte=first_byte,
                ended=ended,
                connect=connect,
                connection=connection,
                answers_before=before,
                port=port,
                status=status,
                pod=name,
                lane=Lane(lane),
                kind=failure,
                phase=phase,
                # A run killed between the two rows of a failure has the packed one alone.
                detail=details.get((block.worker, seq)) or Failure(worker=block.worker, seq=seq, kind=failure),
            )
        )


def _check_order(found: Tally, due: int, started: int, written: int, first_byte: int, ended: int) -> None:
    """Law 2: due ≤ started ≤ written ≤ first byte ≤ ended, where present."""
    last = due
    for moment in (started, written, first_byte, ended):
        if moment == ABSENT:
            continue
        if moment < last:
            found.violations["order"] += 1
            return
        last = moment


def _add_answer(found: Tally, name: str, started: int, ended: int, before: int, lane: int, deletions: Mapping[str, int]) -> None:
    pod = found.pods.get(name)
    if pod is None:
        pod = found.pods[name] = PodTally()
    pod.served += 1
    if pod.first is None or started < pod.first:
        pod.first = started
    if pod.first_answer is None or ended < pod.first_answer:
        pod.first_answer = ended
    if before == 0 and (pod.last_connect is None or started > pod.last_connect):
        pod.last_connect = started
    if lane == Lane.NEW:
        if pod.last_new is None or started > pod.last_new:
            pod.last_new = started
        deleted = deletions.get(name)
        if deleted is not None and started >= deleted:
            pod.new_after_deletion += 1
    elif pod.last_reused is None or started > pod.last_reused:
        pod.last_reused = started
    spans = pod.spans
    if spans and ended - spans[-1][1] <= 1_000_000_000:
        spans[-1][1] = max(spans[-1][1], ended)
        spans[-1][0] = min(spans[-1][0], ended)
    else:
        spans.append([ended, ended])
