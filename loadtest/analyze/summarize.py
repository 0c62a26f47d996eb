"""Counts, windows, pods' lives and the rollout's times as the result tells them. Seconds from here on."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Mapping, Sequence

from loadtest.analyze.diagnose import LOADED, Diagnosed
from loadtest.analyze.exposure import PodUse
from loadtest.analyze.pods import ClusterView, PodLife
from loadtest.analyze.statistics import quantiles, rate_bounds
from loadtest.analyze.stops import NEVER, WATCH_LATENCY_NS, Stop
from loadtest.analyze.tally import FailedRow, Phases, PodTally, Tally
from loadtest.columns import ABSENT, CLOSED_BY
from loadtest.model import (
    LANE_NAMES,
    FailedCount,
    FailedRequest,
    Interval,
    Lane,
    LaneCount,
    LaneExposure,
    LaneTimes,
    Phase,
    PodReport,
    Rollout,
    StoredRun,
    Summary,
    Window,
)

_BY_PEER = frozenset({CLOSED_BY.index("peer-fin"), CLOSED_BY.index("peer-reset")})


def seconds(at: int | None) -> float | None:
    """Nanoseconds as seconds with microseconds; absent stays absent."""
    return None if at is None or at == ABSENT else round(at / 1e9, 6)


def summary(run: StoredRun, tally: Tally, due: int, lost: int, longest_outage_ms: float) -> Summary:
    """Counts over the whole run."""
    dropped = Counter(str(drop.reason) for drop in run.drops)
    failed = tally.sent - tally.ok
    loaded_sent = sum(tally.windows_sent[phase, lane] for phase in LOADED for lane in Lane)
    loaded_failed = sum(tally.windows_failed[phase, lane] for phase in LOADED for lane in Lane)
    low, high = rate_bounds(loaded_failed, loaded_sent)
    return Summary(
        due=due,
        sent=tally.sent,
        dropped=dict(sorted(dropped.items())),
        open=len(run.open),
        lost=lost,
        ok=tally.ok,
        failed=failed,
        codes={str(code): count for code, count in sorted(tally.statuses.items())},
        failures={str(kind): count for kind, count in sorted(tally.kinds.items())},
        lanes={
            name: LaneCount(sent=tally.lanes_sent[lane], failed=tally.lanes_failed[lane]) for lane, name in enumerate(LANE_NAMES)
        },
        masked_by_retry={"at_most": tally.masked_by_retry},
        saved_by_tcp=tally.saved_by_tcp,
        longest_outage_ms=longest_outage_ms,
        failure_rate_95=(round(low, 6), round(high, 6)),
        latency_ms=quantiles((value for samples in tally.latency.values() for value in samples), 1e6),
        connect_ms=quantiles(tally.connect, 1e6),
        lateness_us=quantiles(tally.lateness, 1e3),
    )


def longest_outage_ns(tally: Tally, begin: int, end: int) -> int:
    """The longest time for which a user got nothing: from when a failed request was due to the next answer to anybody.

    Only failures due from `begin` on; the last one is counted to `end` when no answer came any more.
    """
    answered = sorted(tally.ok_ended)
    longest = 0
    for row in tally.failed:
        if row.due >= begin:
            after = bisect.bisect_left(answered, row.due)
            longest = max(longest, (answered[after] if after < len(answered) else max(end, row.ended)) - row.due)
    return longest


def windows(tally: Tally, phases: Phases) -> tuple[Window, ...]:
    """The phases with their requests."""
    found = []
    for phase in Phase:
        span = phases.span(phase)
        if span is None:
            continue
        lanes = {
            name: LaneCount(sent=tally.windows_sent[phase, lane], failed=tally.windows_failed[phase, lane])
            for lane, name in enumerate(LANE_NAMES)
        }
        found.append(
            Window(
                name=str(phase),
                start=round(span[0] / 1e9, 6),
                end=round(span[1] / 1e9, 6),
                sent=sum(lane.sent for lane in lanes.values()),
                failed=sum(lane.failed for lane in lanes.values()),
                lanes=lanes,
                latency_ms=quantiles(tally.latency[phase], 1e6),
            )
        )
    return tuple(found)


def ready_endpoints(view: ClusterView, begin: int, end: int) -> tuple[int | None, float]:
    """The lowest number of ready endpoints in a span, and the seconds in it at which there was none."""
    start, stop = begin / 1e9, end / 1e9
    lowest: int | None = None
    none_for = 0.0
    for number, step in enumerate(view.ready_steps):
        until = view.ready_steps[number + 1].at if number + 1 < len(view.ready_steps) else stop
        low, high = max(step.at, start), min(until, stop)
        if high <= low:
            continue
        lowest = step.value if lowest is None else min(lowest, step.value)
        none_for += high - low if step.value == 0 else 0.0
    return lowest, round(none_for, 6)


def rollout(run: StoredRun, view: ClusterView, phases: Phases, message: str) -> Rollout:
    """The rollout's times; what was not seen stays None."""
    marks = {mark.name: mark.at for mark in run.marks}
    span = phases.span(Phase.ROLLOUT)
    lowest, none_for = ready_endpoints(view, span[0], phases.end) if span else (None, 0.0)
    return Rollout(
        trigger=run.info.trigger,
        started=seconds(marks.get("trigger-sent", marks.get("trigger"))),
        completed=seconds(marks.get("completed")),
        old_pods_gone=seconds(marks.get("old-pods-gone")),
        min_ready_endpoints=lowest,
        no_ready_endpoint_s=none_for,
        message=message,
        undo_command=run.info.undo_command,
    )


def kept_connections(run: StoredRun, view: ClusterView) -> tuple[dict[str, int], dict[str, int], int]:
    """Kept connections open when each pod was deleted, and when its container ended.

    Returns:
        Pod name to those open at its deletion; pod name to those that its end closed; how many kept ones there were in all.
    """
    at_deletion: Counter[str] = Counter()
    at_end: Counter[str] = Counter()
    total = 0
    lives = view.by_name
    for block in run.connections:
        columns = block.columns
        rows = zip(*(columns[name] for name in ("opened", "closed", "pod", "lane", "closed_by")), strict=True)
        for opened, closed, pod, lane, closed_by in rows:
            if lane != Lane.REUSED:
                continue
            total += 1
            name = run.pod_names.get((block.worker, pod), "") if pod else ""
            life = lives.get(name)
            if life is None or life.deletion is None or opened > life.deletion:
                continue
            # A deletion arrives late, at times after the app has acted on it: what the pod itself closed just before, it closed
            # because of it.
            asked = life.deletion - (WATCH_LATENCY_NS if closed_by in _BY_PEER else 0)
            if closed == ABSENT or closed >= asked:
                at_deletion[name] += 1
                # The end's arrival is late by the watch; what closed from half a second before it on, closed with it.
                if life.ended is not None and (closed == ABSENT or closed >= life.ended - 500_000_000):
                    at_end[name] += 1
    return dict(at_deletion), dict(at_end), total


def pod_reports(
    view: ClusterView,
    tally: Tally,
    stops: Sequence[Stop],
    diagnosed: Sequence[Diagnosed],
    used: Mapping[str, PodUse],
    kept: Mapping[str, int],
) -> tuple[PodReport, ...]:
    """Every pod that was seen: old ones by deletion, then new ones by creation."""
    sure: Counter[str] = Counter()
    at_most: Counter[str] = Counter()
    for one in diagnosed:
        names = one.one.attribution.pods
        at_most.update(names)
        sure.update(names if len(names) == 1 else ())
    by_uid = {stop.pod.uid: stop for stop in stops}
    old = list(view.old)
    new = sorted((pod for pod in view.pods.values() if pod.revision == "new"), key=lambda pod: (pod.created or 0, pod.name))
    found = []
    for pod in (*old, *new):
        answers, use = tally.pods.get(pod.name, PodTally()), used.get(pod.name, PodUse())
        exposure = LaneExposure(new=use.fresh, reused=kept.get(pod.name, 0))
        failed = FailedCount(sure=sure[pod.name], at_most=at_most[pod.name])
        found.append(_pod_report(pod, answers, use, by_uid.get(pod.uid), failed, exposure))
    return tuple(found)


def _pod_report(
    pod: PodLife, answers: PodTally, use: PodUse, stop: Stop | None, failed: FailedCount, exposure: LaneExposure
) -> PodReport:
    def after_deletion(at: int | None) -> float | None:
        return None if at is None or pod.deletion is None else round((at - pod.deletion) / 1e9, 6)

    stopped = Interval(earliest=None, latest=None)
    if stop is not None:
        stopped = Interval(earliest=seconds(stop.earliest), latest=seconds(stop.latest) if stop.latest < NEVER else None)
    return PodReport(
        name=pod.name,
        uid=pod.uid,
        revision=pod.revision,
        address=pod.address,
        node=pod.node,
        created=seconds(pod.created),
        started=seconds(pod.started),
        ready=seconds(pod.ready),
        deletion=seconds(pod.deletion),
        endpoint_not_ready=seconds(pod.not_ready),
        endpoint_removed=seconds(pod.removed),
        ended=seconds(pod.ended),
        gone=seconds(pod.gone),
        stopped_listening=stopped,
        first_request=seconds(answers.first),
        last_request=LaneTimes(new=after_deletion(use.last_new), reused=after_deletion(use.last_reused)),
        exposure=exposure,
        served=answers.served,
        failed=failed,
        exit_code=pod.exit_code,
        reason=pod.reason,
        node_finished_at=pod.finished_at,
        restarts=pod.restarts,
        grace_s=pod.deletion_grace_s if pod.deletion_grace_s is not None else pod.grace_s,
        prestop=pod.prestop,
    )


def failed_requests(diagnosed: Sequence[Diagnosed]) -> tuple[FailedRequest, ...]:
    """The failed requests with all that is known, in the order in which they were sent."""
    return tuple(_failed_request(one) for one in diagnosed)


def _failed_request(one: Diagnosed) -> FailedRequest:
    row: FailedRow = one.one.row
    return FailedRequest(
        worker=row.worker,
        seq=row.seq,
        due=round(row.due / 1e9, 6),
        started=round(row.started / 1e9, 6),
        written=seconds(row.written),
        first_byte=seconds(row.first_byte),
        ended=round(row.ended / 1e9, 6),
        lane=row.lane.label,
        reused=row.answers_before > 0,
        kind=row.kind,
        status=row.status,
        port=row.port,
        connection=row.connection,
        connect_s=seconds(row.connect),
        received=row.detail.received,
        errno=row.detail.errno,
        answers_before=row.answers_before,
        phase=str(row.phase),
        attribution=one.one.attribution,
        no_listener=one.one.no_listener,
        cause=one.code,
        echo=one.echo,
        message=row.detail.message,
    )
