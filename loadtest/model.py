"""Every value that two rooms exchange: frozen, slotted, keyword-only; no behaviour beyond small properties.

Units: a name that ends in `_ns` is nanoseconds; `_s`, and every time in a result, is seconds; plain times of requests and
sightings (`due`, `seen`, …) are nanoseconds since the run's start on the conductor's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from loadtest.columns import Block

# ---------------------------------------------------------------- load


class Lane(IntEnum):
    """What was asked for: a fresh connection, or a kept one."""

    NEW = 0
    REUSED = 1

    @property
    def label(self) -> str:
        """The name in flags and files."""
        return LANE_NAMES[self]


LANE_NAMES = ("new", "reused")


class FailureKind(StrEnum):
    """How a request failed, as `contract.md` names it."""

    DNS = "dns"
    CONNECT_REFUSED = "connect-refused"
    CONNECT_TIMEOUT = "connect-timeout"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    RESET_BEFORE_RESPONSE = "reset-before-response"
    CLOSED_BEFORE_RESPONSE = "closed-before-response"
    RESET_MID_RESPONSE = "reset-mid-response"
    TRUNCATED = "truncated"
    RESPONSE_TIMEOUT = "response-timeout"
    BAD_RESPONSE = "bad-response"
    HTTP_3XX = "http-3xx"
    HTTP_4XX = "http-4xx"
    HTTP_5XX = "http-5xx"
    WRONG_BODY = "wrong-body"


FAILURE_KINDS: tuple[FailureKind, ...] = tuple(FailureKind)
"""The order is part of the schema of `run.db`: the packed `kind` is 1 + an index into this."""

WHOLE_ANSWER_KINDS = frozenset({FailureKind.HTTP_3XX, FailureKind.HTTP_4XX, FailureKind.HTTP_5XX, FailureKind.WRONG_BODY})
"""Kinds whose answer arrived whole, so that their HTTP status is their code; all others count as code -1."""


class DropReason(StrEnum):
    """Why a tick of the schedule never became a request."""

    ALL_BUSY = "all-busy"  # every allowed connection waits on the target
    LOCAL = "local"  # no port, no descriptor, no memory of our own
    LATE_LOOP = "late-loop"  # our own loop stood still too long for the tick to mean anything


class PodSource(StrEnum):
    """Where in an answer the pod's name is."""

    HEADER = "header"
    JSON = "json"
    BODY = "body"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFrom:
    """How answers name their pod. `value`: a header, a JSON pointer (`/node_id`) or a regular expression with one group."""

    source: PodSource
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """All that a worker needs to know. Travels to it as JSON over its standard input (headers may hold secrets: never argv).

    Attributes:
        run_id: begins each request's `X-Request-Id: <run_id>-<seq>`.
        epoch_ns: the run's start on the monotonic clock; every time that the worker reports counts from it.
        url: absolute http(s) URL without user information.
        qps: ticks a second of the whole schedule.
        start_ns: monotonic time of tick 0.
        total: number of ticks, or 0: until told to stop.
        lanes: which lanes take turns, in this order.
        connections: kept connections opened in the warm-up.
        max_connections: limit over both lanes; beyond it a tick is dropped as `all-busy`.
        reuse: (min, max) requests on one kept connection, redrawn for each; (0, 0): no limit.
        headers: sent as given, in addition to Host, User-Agent and X-Request-Id.
        expect_status: statuses that are ok; empty: 200 to 299.
        worker, workers: this worker takes ticks with `seq % workers == worker`.
        sender: "own" or "aiohttp".
        seed: of the worker's random numbers.
    """

    run_id: str
    epoch_ns: int
    url: str
    qps: float
    start_ns: int
    total: int = 0
    lanes: tuple[Lane, ...] = (Lane.NEW, Lane.REUSED)
    connections: int = 8
    max_connections: int = 80
    reuse: tuple[int, int] = (0, 0)
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    user_agent: str = "rollout-loadtest"
    body: bytes = b""
    timeout_ns: int = 5_000_000_000
    request_id: bool = True
    pod_from: PodFrom | None = PodFrom(source=PodSource.HEADER, value="X-Pod-Name")
    expect_status: tuple[int, ...] = ()
    expect_body: str = ""
    worker: int = 0
    workers: int = 1
    sender: str = "own"
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The plain row beside the packed one that each failed request has.

    Attributes:
        errno: of the operating system, or 0.
        received: bytes of the answer (head and body) that came.
        connection_age_ns: from its connect to this failure; 0 where it never connected.
        connection_pod: the pod that earlier answers on this connection named, or "".
        peer: "address:port" that was dialled, or "".
        message: one line for people, without anything the server sent.
    """

    worker: int
    seq: int
    kind: FailureKind
    errno: int = 0
    received: int = 0
    answers_before: int = 0
    connection_age_ns: int = 0
    connection_pod: str = ""
    peer: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """A tick that was due and never sent. `due`: ns since the run's start."""

    worker: int
    seq: int
    due: int
    reason: DropReason


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """A request that was started and had no end when the load was cut off (Ctrl-C)."""

    worker: int
    seq: int
    due: int
    started: int
    lane: Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadEnd:
    """A worker's own account at its end, for law 1.

    Attributes:
        last_due: highest sequence number of this worker that was due, or -1.
        sent, dropped, open: how many of them became what.
        cut: the load was cut off rather than left to finish.
        cpu_s: seconds of processor time the worker used.
    """

    worker: int
    last_due: int
    sent: int
    dropped: int
    open: int
    cut: bool = False
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A worker's counts so far, about once a second.

    Attributes:
        at: ns since the run's start.
        sent, ok, failed, dropped: totals since the load began.
        kept: kept connections open at this moment.
        worst_lateness_ns: the latest `started - due` since the last report.
        last_failure: kind of the newest failure, or "".
    """

    worker: int
    at: int
    sent: int
    ok: int
    failed: int
    dropped: int
    kept: int
    worst_lateness_ns: int = 0
    last_failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodName:
    """What an index in the `pod` columns of a worker stands for; comes before the first row that uses it. 0 is: none."""

    worker: int
    index: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLost:
    """A worker died before its `LoadEnd`: its ticks above what was handed over are lost.

    Attributes:
        status: exit status, or minus the signal's number.
        last_seq: highest sequence number of which anything was heard, or -1.
    """

    worker: int
    status: int
    last_seq: int


# ---------------------------------------------------------------- cluster


class Resource(StrEnum):
    """The kinds that a run watches, by their plural names in the API."""

    DEPLOYMENTS = "deployments"
    REPLICASETS = "replicasets"
    PODS = "pods"
    ENDPOINTSLICES = "endpointslices"
    SERVICES = "services"
    EVENTS = "events"


class Sighting(StrEnum):
    """How an object came to us."""

    LISTED = "LISTED"  # was there when we began, or changed while we could not look
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    VANISHED = "VANISHED"  # gone at a relist: nobody saw it go


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One object as it arrived, trimmed of everything that may not be stored.

    Attributes:
        seen: ns since the run's start at which it arrived: late by the watch's latency, never early.
        object: the JSON object. Keys kept out: env values, last-applied annotations, managedFields' content.
    """

    seen: int
    resource: Resource
    sighting: Sighting
    object: Mapping[str, Any]

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return str(self.object.get("metadata", {}).get("name", ""))

    @property
    def uid(self) -> str:
        """`metadata.uid`."""
        return str(self.object.get("metadata", {}).get("uid", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of a container's log. `stamp`: the node's own RFC 3339 time of it."""

    seen: int
    pod: str
    uid: str
    container: str
    stamp: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A time in which changes of a resource could not be seen when they happened. `start`, `end`: ns since the run's start."""

    start: int
    end: int
    resource: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is rolled and how it is reached.

    Attributes:
        url: the URL that load goes to.
        path_from: how the URL was found: "flag", "load-balancer", "node-port", "loopback-node-port", "cluster-ip".
        selector: the Deployment's label selector, as a query string.
    """

    namespace: str
    deployment: str
    service: str
    selector: str
    url: str
    path_from: str
    session_affinity: bool = False
    port: str = ""


# ---------------------------------------------------------------- what was asked for


class TriggerKind(StrEnum):
    """What starts a rollout."""

    RESTART = "restart"
    SET_IMAGE = "set-image"
    EXTERNAL = "external"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A run as the user asked for it, every word already understood.

    Attributes:
        namespace: None: the context's own.
        deployment: its name.
        service, port: of the Service; "": found by its selector, the only one it has.
        url: given by the user, or "".
        headers: as given; values may be secret and are stored nowhere.
        max_connections: None: the larger of 10 x connections and qps x timeout + connections.
        image: for `set-image`: `CONTAINER=IMAGE` or `IMAGE`.
        rollout_timeout_ns: None: progressDeadlineSeconds + grace + 60 s.
        wait: wait for a Deployment that is still moving, instead of refusing it.
    """

    deployment: str
    name: str = ""
    namespace: str | None = None
    service: str = ""
    port: str = ""
    path: str = "/"
    url: str = ""
    qps: float = 50.0
    connections: int = 8
    max_connections: int | None = None
    timeout_ns: int = 5_000_000_000
    lanes: tuple[Lane, ...] = (Lane.NEW, Lane.REUSED)
    reuse: tuple[int, int] = (0, 0)
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    request_id: bool = True
    pod_from: PodFrom | None = PodFrom(source=PodSource.HEADER, value="X-Pod-Name")
    expect_status: tuple[int, ...] = ()
    expect_body: str = ""
    warmup_ns: int = 3_000_000_000
    baseline_ns: int = 20_000_000_000
    settle_ns: int | None = None
    trigger: TriggerKind = TriggerKind.RESTART
    image: str = ""
    ready_file: str = ""
    wait_for_rollout_ns: int = 600_000_000_000
    rollout_timeout_ns: int | None = None
    wait: bool = False
    logs: bool = True
    min_exposure: int = 1
    accept_luck: bool = False
    assume_path: bool = False
    sender: str = "own"

    @property
    def most_connections(self) -> int:
        """The limit over both lanes."""
        if self.max_connections is not None:
            return self.max_connections
        return max(10 * self.connections, int(self.qps * self.timeout_ns / 1e9) + self.connections)

    @property
    def settle(self) -> int:
        """How long load goes on after the last old pod is gone: max(10 s, timeout + 2 s) unless given."""
        return self.settle_ns if self.settle_ns is not None else max(10_000_000_000, self.timeout_ns + 2_000_000_000)


# ---------------------------------------------------------------- a run, as stored


class Phase(StrEnum):
    """Parts of a run, each from its mark to the next."""

    WARMUP = "warmup"
    BASELINE = "baseline"
    ROLLOUT = "rollout"
    SETTLE = "settle"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What is known when a run begins. Stored first, so that a killed run can still be told apart.

    Attributes:
        started_wall_ns: UTC of the run's start.
        scenario: the scenario in words that may be stored (no header values).
        cluster: server version, context name, whether it is the sandbox.
        missing_rights: optional rights that were not there, such as "list events".
        command: the command line to run it again, without secrets.
    """

    run_id: str
    tool_version: str
    started_wall_ns: int
    name: str
    scenario: Mapping[str, Any]
    target: Target
    trigger: str
    trigger_detail: str
    cluster: Mapping[str, Any]
    missing_rights: tuple[str, ...] = ()
    command: str = ""
    undo_command: str = ""
    rules: tuple[str, ...] = ("failed == 0",)
    min_exposure: int = 1
    accept_luck: bool = False
    assume_path: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment of the conductor.

    `name` is a phase's begin or one of "trigger" (about to be sent), "trigger-sent" (answered), "completed", "old-pods-gone",
    "stop", "interrupted", "end".
    """

    name: str
    at: int
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSample:
    """Wall time beside monotonic time. `at`: ns since the run's start; `wall_ns`: UTC."""

    at: int
    wall_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run as its file tells it, whole or not.

    Attributes:
        closed: the file has its closing record; without it the run is never a pass.
        requests, connections: packed blocks; each iteration reads them anew.
        pod_names: (worker, index) to the name an answer gave.
        notes: what the conductor wants said, such as "worker 0 died".
    """

    info: RunInfo
    closed: bool
    requests: Iterable[Block]
    connections: Iterable[Block]
    pod_names: Mapping[tuple[int, int], str]
    failures: tuple[Failure, ...]
    drops: tuple[Drop, ...]
    open: tuple[OpenRequest, ...]
    ends: tuple[LoadEnd, ...]
    seen: tuple[Seen, ...]
    logs: tuple[LogLine, ...]
    gaps: tuple[Gap, ...]
    marks: tuple[Mark, ...]
    clock: tuple[ClockSample, ...]
    notes: tuple[str, ...]


# ---------------------------------------------------------------- result (seconds since the run's start from here on)


class Outcome(StrEnum):
    """The run's word."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class HowKnown(StrEnum):
    """How the pod of a failed request is known, surest first."""

    HEADER = "header"  # this very answer named it
    CONNECTION = "connection"  # earlier answers on the same connection did
    ONLY_CANDIDATE = "only-candidate"  # no other pod could have got it
    CANDIDATES = "candidates"  # one of several
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Which pod a failed request belongs to.

    `pods`: names; one, several, or none when unknown. `missing`: what would make it known.
    """

    how: HowKnown
    pods: tuple[str, ...] = ()
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRequest:
    """A failed request with all that is known of it. Times in seconds, None where the moment never came."""

    worker: int
    seq: int
    due: float
    started: float
    written: float | None
    first_byte: float | None
    ended: float
    lane: str
    reused: bool
    kind: FailureKind
    status: int
    port: int
    connection: int
    connect_s: float | None
    received: int
    errno: int
    answers_before: int
    phase: str
    attribution: Attribution
    no_listener: bool
    cause: str
    echo: bool = False
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One rule and what came of it."""

    name: str
    expected: str
    actual: str
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Milliseconds (or microseconds, by the key they stand under) of a set of requests; all None when it is empty."""

    count: int
    p50: float | None
    p90: float | None
    p99: float | None
    p99_9: float | None
    max: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneCount:
    """Requests of a lane."""

    sent: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Counts over the whole run; they add up: due = sent + dropped + open + lost."""

    due: int
    sent: int
    dropped: Mapping[str, int]
    open: int
    lost: int
    ok: int
    failed: int
    codes: Mapping[str, int]
    failures: Mapping[str, int]
    lanes: Mapping[str, LaneCount]
    masked_by_retry: Mapping[str, int]
    saved_by_tcp: int
    longest_outage_ms: float
    failure_rate_95: tuple[float, float]
    latency_ms: Quantiles
    connect_ms: Quantiles
    lateness_us: Quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A phase and its requests, counted by when they were due."""

    name: str
    start: float
    end: float
    sent: int
    failed: int
    lanes: Mapping[str, LaneCount]
    latency_ms: Quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """The rollout as the watch saw it; None where a moment was not seen."""

    trigger: str
    started: float | None
    completed: float | None
    old_pods_gone: float | None
    min_ready_endpoints: int | None
    no_ready_endpoint_s: float
    message: str
    undo_command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A moment that is only known to lie in [earliest, latest]; None: open on that side."""

    earliest: float | None
    latest: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTimes:
    """The last request of each lane, in seconds after the pod's deletion was seen (negative: before); None: none."""

    new: float | None
    reused: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneExposure:
    """How a pod was in use when it ended.

    `new`: fresh connections opened to it while it terminated; `reused`: kept ones open to it at its deletion.
    """

    new: int
    reused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCount:
    """Failures of a pod: surely its own, and at most, with those that may be another candidate's."""

    sure: int
    at_most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReport:
    """One pod's life. Times are arrivals at the watch, in seconds; None: not seen (before the run, or not yet).

    Attributes:
        revision: "old" or "new".
        started: the container's start was seen.
        ready: Ready was first seen true (at the begin of the run for pods that were there).
        deletion: the deletion was first seen.
        stopped_listening: when it stopped accepting; earliest and latest.
        endpoint_not_ready: its slice entry lost `ready`.
        endpoint_removed: it left the slice.
        ended: the container's end was seen.
        gone: the object was gone.
        last_request: seconds after `deletion` of the last request it answered or got.
        served: answers that named it.
        node_finished_at: the node's own RFC 3339 stamp of the end (one second of resolution).
        prestop: in words, "" when the spec has none.
    """

    name: str
    uid: str
    revision: str
    address: str
    node: str
    created: float | None
    started: float | None
    ready: float | None
    deletion: float | None
    endpoint_not_ready: float | None
    endpoint_removed: float | None
    ended: float | None
    gone: float | None
    stopped_listening: Interval
    first_request: float | None
    last_request: LaneTimes
    exposure: LaneExposure
    served: int
    failed: FailedCount
    exit_code: int | None
    reason: str
    node_finished_at: str
    restarts: int
    grace_s: int | None
    prestop: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingPod:
    """A pod's share of a finding."""

    name: str
    sure: int
    at_most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One thing a doubting reader can check. `certainty`: proven, by elimination, consistent with, unknown."""

    certainty: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A cause, with what it cost. `requests` 0: the fault was there and cost nothing."""

    code: str
    title: str
    explanation: str
    fix: str
    fix_yaml: str
    requests: int
    echoes: int
    pods: tuple[FindingPod, ...]
    window: Interval
    evidence: tuple[Evidence, ...]
    ruled_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultGap:
    """A blind time in seconds."""

    start: float
    end: float
    resource: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An Event, a log line or a mark of ours, for the time axis. `kind`: "event", "log" or "mark"."""

    at: float
    kind: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Requests by due time in a slice of the axis, for drawing; `failed` by kind."""

    start: float
    end: float
    lane: str
    ok: int
    dropped: int
    failed: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A value that holds from `at` until the next step."""

    at: float
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """What the page draws beside the findings; not part of `result.json`.

    Attributes:
        bins: requests, in both lanes, over the whole run.
        ready_endpoints: how many addresses the slices call ready.
        answering: spans in which each pod answered (pod name to (first, last) spans at the bins' resolution).
        moments: Events, log lines and marks in order.
    """

    duration: float
    bins: tuple[Bin, ...]
    ready_endpoints: tuple[Step, ...]
    answering: Mapping[str, tuple[tuple[float, float], ...]]
    moments: tuple[Moment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The conclusion: what `result.json` holds, and beside it what only the page needs."""

    schema: int
    run_id: str
    tool_version: str
    started_at: str
    name: str
    scenario: Mapping[str, Any]
    cluster: Mapping[str, Any]
    outcome: Outcome
    reason: str
    checks: tuple[Check, ...]
    summary: Summary
    windows: tuple[Window, ...]
    rollout: Rollout
    pods: tuple[PodReport, ...]
    findings: tuple[Finding, ...]
    gaps: tuple[ResultGap, ...]
    limits: tuple[str, ...]
    failed_requests: tuple[FailedRequest, ...]
    complete: bool = True
    interrupted: bool = False
    command: str = ""
    drawing: Drawing = field(default=Drawing(duration=0.0, bins=(), ready_endpoints=(), answering={}, moments=()), compare=False)
