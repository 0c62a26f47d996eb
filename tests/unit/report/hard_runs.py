"""Runs that make a report hard: many pods, many failures, hostile names."""

from __future__ import annotations

from dataclasses import replace

from loadtest.model import (
    Attribution,
    Check,
    FailedCount,
    FailureKind,
    FindingPod,
    HowKnown,
    Moment,
    Outcome,
    ResultGap,
    RunResult,
    Step,
)
from tests.unit.report.results import bins_of, exits_at_once, failure, pod, quantiles, windows_of
from tests.unit.report.runs import PHASES, REFUSE, SILENCE, a_run, failed_run, graceful


def large_run(failures_: int = 5_000, pods: int = 24) -> RunResult:
    """Many pods, several kinds, more failures than are listed, and requests that were never sent."""
    kinds = (SILENCE, FailureKind.RESET_MID_RESPONSE, FailureKind.HTTP_5XX, REFUSE)
    old = [
        replace(
            graceful(pod(f"checkout-service-7d9c5b8f6d-{index:05x}", "old", address=f"10.244.1.{index}"), 5 + index * 0.7),
            first_request=0.2,
            served=400,
            failed=FailedCount(sure=failures_ // pods * 2, at_most=failures_ // pods * 2 + 40)
            if index % 2
            else FailedCount(sure=0, at_most=0),
        )
        for index in range(pods)
    ]
    new = [
        pod(
            f"checkout-service-65794778f7-{index:05x}",
            "new",
            created=4.4 + index * 0.7,
            started=4.8 + index * 0.7,
            ready=5 + index * 0.7,
            first_request=5.2 + index * 0.7,
            served=500,
        )
        for index in range(pods)
    ]
    found = []
    for index in range(failures_):
        owner = old[(index * 7 % pods) // 2 * 2 + 1]
        at = (owner.deletion or 0.0) + (index % 100) / 90
        kind = kinds[index % 4]
        names = [owner.name] if index % 50 else [one.name for one in old[: 3 + index % 3]]
        found.append(
            failure(
                10_000 + index,
                kind,
                names,
                due=round(at - 0.001, 6),
                started=round(at, 6),
                ended=round(at + 0.4, 6),
                no_listener=kind in (SILENCE, REFUSE),
                status=503 if kind is FailureKind.HTTP_5XX else 0,
                cause="exits-at-once" if index % 3 else "drops-connections",
            )
        )
    found.sort(key=lambda one: one.started)
    first = sum(one.cause == "exits-at-once" for one in found)
    finding = replace(
        exits_at_once(first, 0), pods=tuple(FindingPod(name=one.name, sure=9, at_most=12) for one in old if one.failed.sure)
    )
    other = replace(
        finding,
        code="drops-connections",
        title="The app ends although requests are unfinished",
        requests=failures_ - first,
        fix="Wait for open requests before the process ends",
        fix_yaml="",
    )
    sent = 40_000
    run = a_run(
        outcome=Outcome.FAIL,
        reason="requests failed",
        sent=sent,
        failed_requests=tuple(found),
        findings=(finding, other),
        pods=(*old, *new),
        windows=windows_of(found, (0.0, 3.0, 5.0, 24.0, 40.0), PHASES, 1000, sent),
    )
    steps = [Step(at=0.0, value=pods), *(Step(at=5 + index * 0.35, value=pods + index % 2) for index in range(pods * 2))]
    drawing = replace(
        run.drawing,
        duration=40.0,
        bins=bins_of(found, sent=sent, qps=1000),
        ready_endpoints=tuple(steps),
        answering={},
    )
    summary = replace(run.summary, dropped={"all-busy": 212}, due=sent + 212, lateness_us=quantiles(sent, 900, 30_000))
    return replace(run, drawing=drawing, summary=summary)


EVIL = "\x1b[31m</text><script>alert(1)</script>&amp;\u202e[bold]'\"\x00\ud800]]>\n::error::x"


def hostile_run() -> RunResult:
    """Every text that may come from outside is an attack."""
    run = failed_run()
    bad = tuple(replace(one, name=EVIL + one.name, node=EVIL, address=EVIL, reason=EVIL, prestop=EVIL) for one in run.pods)
    names = {one.name: EVIL + one.name for one in run.pods}
    failed = tuple(
        replace(
            one,
            message=EVIL,
            attribution=Attribution(
                how=HowKnown.CANDIDATES, pods=tuple(names[name] for name in one.attribution.pods), missing=EVIL
            ),
        )
        for one in run.failed_requests
    )
    finding = replace(
        run.findings[0],
        title=EVIL,
        explanation=EVIL,
        fix=EVIL,
        fix_yaml=EVIL,
        ruled_out=(EVIL,),
        evidence=tuple(replace(item, text=EVIL) for item in run.findings[0].evidence),
        pods=tuple(replace(one, name=names[one.name]) for one in run.findings[0].pods),
    )
    return replace(
        run,
        name=EVIL,
        reason=EVIL,
        scenario={"target": {"workload": EVIL}, EVIL: EVIL},
        cluster={"server_version": EVIL, "url": EVIL},
        command=EVIL,
        pods=bad,
        failed_requests=failed,
        findings=(finding, replace(finding, code="late-endpoints", requests=0, echoes=0)),
        limits=(EVIL,),
        gaps=(ResultGap(start=6.0, end=6.4, resource=EVIL, reason=EVIL),),
        checks=(Check(name=EVIL, expected=EVIL, actual=EVIL, passed=False),),
        rollout=replace(run.rollout, trigger=EVIL, message=EVIL, undo_command=EVIL),
        drawing=replace(
            run.drawing,
            answering={names[name]: spans for name, spans in run.drawing.answering.items()},
            moments=tuple(
                Moment(at=6.0 + index / 10, kind=kind, subject=EVIL, text=EVIL)
                for index, kind in enumerate(("event", "log", "mark"))
            ),
        ),
    )
