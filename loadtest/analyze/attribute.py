"""Which pod a failed request belongs to, and how that is known.

Surest first: its own answer named the pod; earlier answers on its connection did (a connection leads to one pod, because
the address translation is per connection); only one pod could have got it; one of several; unknown. What makes a pod a
candidate are facts with room for doubt on both sides: the span in which it no longer answered new connections while the
proxies could still send some, or in which it ended while this request was open.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadtest.analyze.pods import ClusterView, PodLife
from loadtest.analyze.stops import CRASH_SEEN_NS, LAG_NS, NEVER, WATCH_LATENCY_NS, Stop, began
from loadtest.analyze.tally import FailedRow, Tally
from loadtest.columns import ABSENT
from loadtest.model import Attribution, FailureKind, HowKnown

ECHO_NS = 130_000_000_000
"""A SYN that died leaves an entry for 120 s (`nf_conntrack_tcp_timeout_syn_sent`) that leads its port to the dead pod."""

RST_NS = 50_000_000
"""A refusal by an existing address comes at once; one by a packet filter may take seconds (measured: < 5 ms against 1 to 4 s)."""

MISSED = 0.01
"""So small a chance that a pod still in use was missed by every fresh connection counts as none."""

SETUP_KINDS = frozenset({FailureKind.CONNECT_REFUSED, FailureKind.CONNECT_TIMEOUT, FailureKind.UNREACHABLE})
SILENT_KINDS = frozenset({FailureKind.CONNECT_TIMEOUT, FailureKind.UNREACHABLE})
CUT_KINDS = frozenset(
    {
        FailureKind.RESET_BEFORE_RESPONSE,
        FailureKind.CLOSED_BEFORE_RESPONSE,
        FailureKind.RESET_MID_RESPONSE,
        FailureKind.TRUNCATED,
    }
)
GATEWAY_STATUSES = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributed:
    """A failed request and what is known of where it went.

    Attributes:
        in_transition: a pod that may have got it was ending, gone or not up yet.
        echo_of: the earlier failure with the same source port whose connection-tracking entry caught this one.
        stale: nothing was in transition, but a pod's address had vanished less than 130 s before.
    """

    row: FailedRow
    attribution: Attribution
    no_listener: bool
    in_transition: bool
    echo_of: FailedRow | None = None
    stale: bool = False


def attribute(
    view: ClusterView, tally: Tally, all_stops: Sequence[Stop], *, direct: bool, even: bool = True
) -> tuple[Attributed, ...]:
    """Each failed request with exactly one attribution (law 4), in the order in which they were sent.

    Args:
        view: the pods' lives.
        tally: the requests.
        all_stops: what `stops` gives.
        direct: connections are translated by the kernel on their way to a pod, so that whoever accepted one was the pod. A
            proxy that accepts before it dials turns a refusal into a close, and silence into a time-out.
        even: each fresh connection is as likely to go to any endpoint (no session affinity).
    """
    known_pods = view.by_name
    named = tally.named > 0
    alive = _alive_until(view, tally, all_stops, direct=direct)
    first_by_port: dict[tuple[int, int], FailedRow] = {}
    last_on = {name: pod.last_connect for name, pod in tally.pods.items() if pod.last_connect is not None}
    found = []
    for row in tally.failed:
        candidates = _candidates(row, view, tally, all_stops, named=named, direct=direct)
        if row.kind in SILENT_KINDS:
            candidates = tuple(pod for pod in candidates if row.started > alive.get(pod.name, -1))
        if direct and even and not row.connected and len(candidates) > 1:
            candidates = tuple(pod for pod in candidates if not _left(pod.name, row, view, tally, last_on)) or candidates
        attributed = _attribute_one(
            row, view, known_pods, candidates, all_stops, named=named, earlier=_earlier(row, first_by_port)
        )
        found.append(attributed)
        if attributed.attribution.how is HowKnown.ONLY_CANDIDATE and attributed.echo_of is None:
            (name,) = attributed.attribution.pods
            last_on[name] = max(last_on.get(name, 0), row.started)
        if row.kind in SETUP_KINDS and row.port:
            # The newest one: its entry is the one that still lives.
            first_by_port[row.worker, row.port] = attributed.echo_of or row
    by_row = {(a.row.worker, a.row.seq): a for a in found}
    return tuple(_follow_echo(one, by_row) for one in found)


def _alive_until(view: ClusterView, tally: Tally, all_stops: Sequence[Stop], *, direct: bool) -> dict[str, int]:
    """Until when each pod's address surely existed: its last refusal at once. What met silence before that went elsewhere."""
    found: dict[str, int] = {}
    for row in tally.failed:
        if row.kind is FailureKind.CONNECT_REFUSED and 0 <= row.connect < RST_NS:
            candidates = _candidates(row, view, tally, all_stops, named=tally.named > 0, direct=direct)
            if len(candidates) == 1:
                found[candidates[0].name] = row.started
    return found


def _left(name: str, row: FailedRow, view: ClusterView, tally: Tally, last_on: Mapping[str, int]) -> bool:
    """Fresh traffic had left this pod: since the last connection to it so many went elsewhere that one would have met it.

    kube-proxy picks an endpoint for each connection with equal chance (iptables `statistic --mode random`), so with k endpoints
    n connections all miss one of them with chance (1 - 1/k)^n.
    """
    since = last_on.get(name)
    if since is None:
        return False
    elsewhere = sum(
        bisect.bisect_left(starts, row.started) - bisect.bisect_right(starts, since)
        for other, starts in tally.fresh_answers.items()
        if other != name
    )
    begin, end = (since - LAG_NS) / 1e9, row.started / 1e9
    endpoints = max((step.value for step in view.serving_steps if begin <= step.at <= end), default=0)
    before = [step.value for step in view.serving_steps if step.at < begin][-1:]
    most = max([endpoints, *before])
    return most > 0 and (1 - 1 / most) ** elsewhere < MISSED


def _earlier(row: FailedRow, by_port: Mapping[tuple[int, int], FailedRow]) -> FailedRow | None:
    found = by_port.get((row.worker, row.port))
    return found if found is not None and row.started - found.ended < ECHO_NS else None


def _follow_echo(one: Attributed, by_row: Mapping[tuple[int, int], Attributed]) -> Attributed:
    """An echo belongs to the pod of the failure that it repeats."""
    if one.echo_of is None:
        return one
    first = by_row[one.echo_of.worker, one.echo_of.seq]
    return Attributed(
        row=one.row,
        attribution=first.attribution,
        no_listener=one.no_listener,
        in_transition=False,
        echo_of=one.echo_of,
        stale=one.stale,
    )


def _attribute_one(
    row: FailedRow,
    view: ClusterView,
    known_pods: Mapping[str, PodLife],
    candidates: Sequence[PodLife],
    all_stops: Sequence[Stop],
    *,
    named: bool,
    earlier: FailedRow | None,
) -> Attributed:
    if row.pod:
        pod = known_pods.get(row.pod)
        return Attributed(
            row=row,
            attribution=Attribution(how=HowKnown.HEADER, pods=(row.pod,)),
            no_listener=False,
            in_transition=pod is not None and _touches(row, pod),
        )
    if row.detail.connection_pod:
        pod = known_pods.get(row.detail.connection_pod)
        return Attributed(
            row=row,
            attribution=Attribution(how=HowKnown.CONNECTION, pods=(row.detail.connection_pod,)),
            no_listener=False,
            in_transition=pod is not None and _touches(row, pod),
        )
    moving = bool(candidates) or _nothing_ready(view, row)
    silent = _is_silent(row, named=named)
    if not moving and row.kind in SETUP_KINDS:
        stale = any(stop.latest < row.started < stop.latest + ECHO_NS for stop in all_stops if stop.latest < NEVER)
        return Attributed(
            row=row,
            attribution=Attribution(how=HowKnown.UNKNOWN, missing="no pod was in transition when it was sent"),
            no_listener=False,
            in_transition=False,
            echo_of=earlier,
            stale=stale or earlier is not None,
        )
    return Attributed(row=row, attribution=_word(candidates, row), no_listener=silent and moving, in_transition=moving)


def _word(candidates: Sequence[PodLife], row: FailedRow) -> Attribution:
    names = tuple(pod.name for pod in candidates)
    if len(names) == 1:
        return Attribution(how=HowKnown.ONLY_CANDIDATE, pods=names)
    if names:
        return Attribution(
            how=HowKnown.CANDIDATES, pods=names, missing="a probe of each pod's own address would tell which of them"
        )
    if row.kind in SETUP_KINDS:
        return Attribution(how=HowKnown.UNKNOWN, missing="no pod was listening: there was nobody to get it")
    return Attribution(how=HowKnown.UNKNOWN, missing="answers that name their pod (--pod-from)")


def _is_silent(row: FailedRow, *, named: bool) -> bool:
    """The shape of "nothing listened there" (`contract.md`, derived kind `no-listener`), before any pod is looked at."""
    if row.kind in SETUP_KINDS:
        return True
    first = row.answers_before == 0
    if first and row.first_byte == ABSENT and row.kind in CUT_KINDS | {FailureKind.RESPONSE_TIMEOUT}:
        return True
    return named and row.kind is FailureKind.HTTP_5XX and row.status in GATEWAY_STATUSES


def _touches(row: FailedRow, pod: PodLife) -> bool:
    """The request was open while this pod was ending, or was sent after it."""
    if any(row.ended >= at - CRASH_SEEN_NS and row.started <= back for at, back in pod.downs):
        return True
    ending = min((at for at in (pod.deletion, pod.ended) if at is not None), default=None)
    return ending is not None and row.ended >= began(pod, ending, ())


def _candidates(
    row: FailedRow, view: ClusterView, tally: Tally, all_stops: Sequence[Stop], *, named: bool, direct: bool
) -> tuple[PodLife, ...]:
    """Pods that can have got a request whose connection never answered.

    Only where the shape itself says that something stopped: a whole answer, or silence on an accepted connection, may come
    from a healthy pod as well. Behind a proxy that accepts by itself, silence and 502 to 504 do say so.
    """
    found: list[PodLife] = []
    if row.kind not in SETUP_KINDS | CUT_KINDS and (direct or not _is_silent(row, named=named)):
        return ()
    for stop in all_stops:
        pod = stop.pod
        if row.connected and row.kind not in SETUP_KINDS:
            # It was accepted, and then cut or left without an answer: by a pod that was ending meanwhile.
            last = stop.latest + WATCH_LATENCY_NS
            if not direct:
                last = max(last, stop.sent_until)
            when = row.ended if direct and row.kind in CUT_KINDS else row.started
            if stop.began <= row.ended and when <= last:
                found.append(pod)
            continue
        if not stop.earliest <= row.started <= stop.sent_until:
            continue
        refused_at_once = row.kind is FailureKind.CONNECT_REFUSED and 0 <= row.connect < RST_NS
        if refused_at_once and pod.gone is not None and row.started > pod.gone:
            continue  # only an address that exists refuses at once
        found.append(pod)
    found.extend(pod for pod in view.pods.values() if _not_up_yet(pod, row, tally))
    return tuple({pod.uid: pod for pod in found}.values())


def _not_up_yet(pod: PodLife, row: FailedRow, tally: Tally) -> bool:
    """In the slice as ready without a probe that shows it listens, and it had not answered yet."""
    if pod.has_readiness_probe or pod.listed or pod.in_slice is None or row.kind not in SETUP_KINDS or not tally.named:
        return False
    answers = tally.pods.get(pod.name)
    first = answers.first_answer if answers is not None and answers.first_answer is not None else NEVER
    end = pod.deletion if pod.deletion is not None else NEVER
    return pod.in_slice - WATCH_LATENCY_NS <= row.started <= min(first, end)


def _nothing_ready(view: ClusterView, row: FailedRow) -> bool:
    """At some moment between 3 s before it was sent and its end, the slices held no endpoint that could serve."""
    start, end = (row.started - LAG_NS) / 1e9, row.ended / 1e9
    value = None
    for step in view.serving_steps:
        if step.at > end:
            break
        if step.at <= start:
            value = step.value
            continue
        if value == 0 or step.value == 0:
            return True
        value = step.value
    return value == 0
