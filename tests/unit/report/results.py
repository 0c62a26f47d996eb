"""Results to report on: values like those that `analyze` makes, the first from a recorded rollout without a preStop wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from loadtest.model import (
    Attribution,
    Bin,
    Evidence,
    FailedCount,
    FailedRequest,
    FailureKind,
    Finding,
    FindingPod,
    HowKnown,
    Interval,
    LaneCount,
    LaneExposure,
    LaneTimes,
    Moment,
    PodReport,
    Quantiles,
    Summary,
    Window,
)

OLD_A, OLD_B = "web-8ffdf5d9-wj7pv", "web-8ffdf5d9-lns5h"
NEW_A, NEW_B = "web-65794778f7-srz9z", "web-65794778f7-km9fc"

# Sequence numbers of the recorded failures: even ones are fresh connections, tick 0 was due at 0.115 s, 100 a second.
REFUSED = (550, 552, 554, 558, 563, 564, 565, 568, 616)
SILENT_A = (574, 576, 578, 584, 585, 590, 592, 594, 596, 600, 606, 609, 610, 611, 612, 613, 614, 615)
EITHER = (617, 618, 619, 620, 621, 622, 623, 624, 625, 626, 628, 630, 632, 634, 636, 638, 640, 642, 644, 646, 648)
ECHOES = (2162, 2204, 2208, 2218, 2224, 2230, 2234)


def due_of(seq: int) -> float:
    return round(0.115 + seq / 100, 3)


def quantiles(count: int, p50: float = 2.4, top: float = 11.0) -> Quantiles:
    return Quantiles(count=count, p50=p50, p90=p50 * 1.3, p99=p50 * 2, p99_9=top * 0.9, max=top)


def failure(seq: int, kind: FailureKind, pods: Sequence[str], *, echo: bool = False, **more: Any) -> FailedRequest:
    due = due_of(seq)
    started = round(due + 0.001, 6)
    how = {0: HowKnown.UNKNOWN, 1: HowKnown.ONLY_CANDIDATE}.get(len(pods), HowKnown.CANDIDATES)
    values: dict[str, Any] = {
        "worker": 0,
        "seq": seq,
        "due": due,
        "started": started,
        "written": None,
        "first_byte": None,
        "ended": round(started + (0.0005 if kind is FailureKind.CONNECT_REFUSED else 5.0), 6),
        "lane": "reused" if seq % 2 else "new",
        "reused": False,
        "kind": kind,
        "status": 0,
        "port": 53_000 + seq % 8_000,
        "connection": seq,
        "connect_s": None,
        "received": 0,
        "errno": 111 if kind is FailureKind.CONNECT_REFUSED else 110,
        "answers_before": 0,
        "phase": "settle" if due > 6.974 else "rollout",
        "attribution": Attribution(how=how, pods=tuple(pods), missing="" if len(pods) == 1 else "no answer names the pod"),
        "no_listener": True,
        "cause": "exits-at-once",
        "echo": echo,
        "message": "connection refused" if kind is FailureKind.CONNECT_REFUSED else "no answer to the connect",
    }
    return FailedRequest(**{**values, **more})


def pod(name: str, revision: str, **more: Any) -> PodReport:
    values: dict[str, Any] = {
        "name": name,
        "uid": f"uid-{name}",
        "revision": revision,
        "address": "10.244.0.2",
        "node": "node-1",
        "created": None,
        "started": 0.0,
        "ready": 0.0,
        "deletion": None,
        "endpoint_not_ready": None,
        "endpoint_removed": None,
        "ended": None,
        "gone": None,
        "stopped_listening": Interval(earliest=None, latest=None),
        "first_request": None,
        "last_request": LaneTimes(new=None, reused=None),
        "exposure": LaneExposure(new=0, reused=0),
        "served": 0,
        "failed": FailedCount(sure=0, at_most=0),
        "exit_code": None,
        "reason": "",
        "node_finished_at": "",
        "restarts": 0,
        "grace_s": 30,
        "prestop": "",
    }
    return PodReport(**{**values, **more})


def old_pods() -> tuple[PodReport, PodReport]:
    first = pod(
        OLD_A,
        "old",
        deletion=5.571928,
        endpoint_not_ready=5.583158,
        endpoint_removed=5.882418,
        ended=5.876251,
        gone=6.254563,
        stopped_listening=Interval(earliest=5.576224, latest=5.599214),
        first_request=0.153134,
        last_request=LaneTimes(new=-0.016850, reused=0.003215),
        exposure=LaneExposure(new=26, reused=6),
        served=314,
        failed=FailedCount(sure=26, at_most=54),
        exit_code=0,
        reason="Completed",
        node_finished_at="2026-11-30T21:37:48Z",
    )
    second = pod(
        OLD_B,
        "old",
        address="10.244.0.3",
        deletion=6.176509,
        endpoint_not_ready=6.194780,
        endpoint_removed=6.353427,
        ended=6.349344,
        gone=6.974190,
        stopped_listening=Interval(earliest=6.199223, latest=6.206859),
        first_request=0.111829,
        last_request=LaneTimes(new=0.020549, reused=0.018464),
        exposure=LaneExposure(new=2, reused=9),
        served=276,
        failed=FailedCount(sure=1, at_most=29),
        exit_code=0,
        reason="Completed",
        node_finished_at="2026-11-30T21:37:49Z",
    )
    return first, second


def new_pods() -> tuple[PodReport, PodReport]:
    first = pod(
        NEW_A,
        "new",
        address="10.244.0.4",
        created=4.991976,
        started=5.528023,
        ready=5.556904,
        first_request=6.615142,
        served=977,
    )
    second = pod(
        NEW_B,
        "new",
        address="10.244.0.5",
        created=5.605175,
        started=6.132083,
        ready=6.165338,
        first_request=6.635870,
        served=1378,
    )
    return first, second


FIX_YAML = """\
spec:
  template:
    spec:
      terminationGracePeriodSeconds: 30
      containers:
        - name: app
          lifecycle:
            preStop:
              sleep:
                seconds: 5
"""


def exits_at_once(requests: int = 55, echoes: int = 7) -> Finding:
    return Finding(
        code="exits-at-once",
        title="The pod stops listening at once; traffic keeps coming for a second",
        explanation="The app closes its listener at SIGTERM, but new connections were still sent to it for up to 1.02 s.",
        fix="Let container app wait 5 s before it stops: a preStop sleep",
        fix_yaml=FIX_YAML,
        requests=requests,
        echoes=echoes,
        pods=(FindingPod(name=OLD_A, sure=26, at_most=54), FindingPod(name=OLD_B, sure=1, at_most=29)),
        window=Interval(earliest=5.616, latest=22.456),
        evidence=(
            Evidence(certainty="proven", text="The app logs “SIGTERM” and “listener closed”; the line arrived at 5.599 s."),
            Evidence(certainty="proven", text="The slice was in time: ready=false 11 and 18 ms after the deletion."),
            Evidence(certainty="by elimination", text="First 9 refused within 2 ms, then 39 silent for 5 s."),
        ),
        ruled_out=("Not too few ready pods: the slice never had fewer than 2 ready.", "Not a crash: exit 0, no restart."),
    )


def bins_of(failed: Sequence[FailedRequest], *, sent: int, qps: int = 100, width: float = 0.1) -> tuple[Bin, ...]:
    """Bins that add up to `sent` requests at `qps`, even ones fresh, minus the failed ones."""
    lost: dict[tuple[int, str], Counter[str]] = {}
    for one in failed:
        lost.setdefault((int((one.due + 1e-9) / width), one.lane), Counter())[one.kind.value] += 1
    total: Counter[tuple[int, str]] = Counter()
    for seq in range(sent):
        total[int((0.115 + seq / qps + 1e-9) / width), "reused" if seq % 2 else "new"] += 1
    return tuple(
        Bin(
            start=round(index * width, 6),
            end=round((index + 1) * width, 6),
            lane=lane,
            ok=number - sum(lost.get((index, lane), Counter()).values()),
            dropped=0,
            failed=dict(lost.get((index, lane), Counter())),
        )
        for (index, lane), number in sorted(total.items())
    )


def summary_of(failed: Sequence[FailedRequest], *, sent: int, **more: Any) -> Summary:
    by_lane = Counter(one.lane for one in failed)
    codes = Counter(str(one.status) if one.status else "-1" for one in failed)
    codes["200"] = sent - len(failed)
    rate = len(failed) / sent if sent else 0.0
    values: dict[str, Any] = {
        "due": sent,
        "sent": sent,
        "dropped": {},
        "open": 0,
        "lost": 0,
        "ok": sent - len(failed),
        "failed": len(failed),
        "codes": dict(codes),
        "failures": dict(Counter(one.kind.value for one in failed)),
        "lanes": {
            "new": LaneCount(sent=sent - sent // 2, failed=by_lane["new"]),
            "reused": LaneCount(sent=sent // 2, failed=by_lane["reused"]),
        },
        "masked_by_retry": {"at_most": 0},
        "saved_by_tcp": 0,
        "longest_outage_ms": 421.318 if failed else 31.2,
        "failure_rate_95": (round(rate * 0.75, 6), round(rate * 1.3 + (0.0 if failed else 3 / max(sent - 486, 100)), 6)),
        "latency_ms": quantiles(sent - len(failed)),
        "connect_ms": quantiles(sent // 2, 0.4, 5.9),
        "lateness_us": quantiles(sent, 310.0, 2900.0),
    }
    return Summary(**{**values, **more})


def windows_of(
    failed: Sequence[FailedRequest], edges: Sequence[float], names: Sequence[str], qps: int = 100, sent: int = 3000
) -> tuple[Window, ...]:
    found = []
    for name, start, end in zip(names, edges, edges[1:], strict=False):
        number = sum(start <= 0.115 + seq / qps < end for seq in range(sent))
        inside = [one for one in failed if start <= one.due < end]
        lanes = Counter(one.lane for one in inside)
        found.append(
            Window(
                name=name,
                start=start,
                end=end,
                sent=number,
                failed=len(inside),
                lanes={
                    "new": LaneCount(sent=number - number // 2, failed=lanes["new"]),
                    "reused": LaneCount(sent=number // 2, failed=lanes["reused"]),
                },
                latency_ms=quantiles(number - len(inside)),
            )
        )
    return tuple(found)


MOMENTS = (
    Moment(at=4.975, kind="mark", subject="loadtest", text="trigger sent: restart"),
    Moment(at=4.993, kind="event", subject="web", text="ScalingReplicaSet: Scaled up replica set web-65794778f7 from 0 to 1"),
    Moment(at=5.524, kind="event", subject="srz9z", text="Started: Container started"),
    Moment(at=5.566, kind="event", subject="web", text="ScalingReplicaSet: Scaled down replica set web-8ffdf5d9 from 2 to 1"),
    Moment(at=5.584, kind="event", subject="wj7pv", text="Killing: Stopping container app"),
    Moment(at=5.599, kind="log", subject="wj7pv", text="SIGTERM seen=743 open=0"),
    Moment(at=5.599, kind="log", subject="wj7pv", text="listener closed"),
    Moment(at=6.145, kind="event", subject="km9fc", text="Started: Container started"),
    Moment(at=6.184, kind="event", subject="web", text="ScalingReplicaSet: Scaled down replica set web-8ffdf5d9 from 1 to 0"),
    Moment(at=6.195, kind="event", subject="lns5h", text="Killing: Stopping container app"),
    Moment(at=6.207, kind="log", subject="lns5h", text="listener closed"),
)
READY = ((0.0, 2), (5.556904, 3), (5.583158, 2), (6.165338, 3), (6.194780, 2))
