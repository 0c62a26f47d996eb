"""Whole runs, one for each outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from loadtest.model import (
    Check,
    Drawing,
    FailedCount,
    FailedRequest,
    FailureKind,
    Interval,
    LaneExposure,
    LaneTimes,
    Moment,
    Outcome,
    PodReport,
    ResultGap,
    Rollout,
    RunResult,
    Step,
)
from tests.unit.report.results import (
    ECHOES,
    EITHER,
    MOMENTS,
    NEW_A,
    NEW_B,
    OLD_A,
    OLD_B,
    READY,
    REFUSED,
    SILENT_A,
    bins_of,
    exits_at_once,
    failure,
    new_pods,
    old_pods,
    pod,
    summary_of,
    windows_of,
)

REFUSE, SILENCE = FailureKind.CONNECT_REFUSED, FailureKind.CONNECT_TIMEOUT
EDGES = (0.0, 0.115, 4.975, 6.974, 31.2)
PHASES = ("warmup", "baseline", "rollout", "settle")


def failures() -> tuple[FailedRequest, ...]:
    found = [failure(seq, REFUSE, [OLD_B if seq == 616 else OLD_A]) for seq in REFUSED]
    found += [failure(seq, SILENCE, [OLD_A]) for seq in SILENT_A]
    found += [failure(seq, SILENCE, [OLD_A, OLD_B]) for seq in EITHER]
    found += [failure(seq, SILENCE, [OLD_A, OLD_B], echo=True) for seq in ECHOES]
    return tuple(sorted(found, key=lambda one: one.seq))


def a_run(**more: Any) -> RunResult:
    failed: tuple[FailedRequest, ...] = more.pop("failed_requests", ())
    sent = more.pop("sent", 3000)
    values: dict[str, Any] = {
        "schema": 1,
        "run_id": "20261130-213743-web",
        "tool_version": "0.1.0",
        "started_at": "2026-11-30T21:37:43Z",
        "name": "web",
        "scenario": {
            "target": {"workload": "deployment/web", "service": "web"},
            "load": {"qps": 100, "connections": 10, "timeout": "5s"},
        },
        "cluster": {
            "server_version": "v1.36.3",
            "sandbox": False,
            "url": "http://10.96.0.7/",
            "path_proven": True,
            "missing_rights": [],
        },
        "outcome": Outcome.PASS,
        "reason": "every rule holds",
        "checks": (Check(name="failed == 0", expected="0", actual=str(len(failed)), passed=not failed),),
        "summary": summary_of(failed, sent=sent),
        "windows": windows_of(failed, EDGES, PHASES),
        "rollout": Rollout(
            trigger="restart",
            started=4.992,
            completed=6.2,
            old_pods_gone=6.97419,
            min_ready_endpoints=2,
            no_ready_endpoint_s=0.0,
            message='deployment "web" successfully rolled out',
            undo_command="kubectl rollout undo deployment/web -n default",
        ),
        "pods": (*old_pods(), *new_pods()),
        "findings": (),
        "gaps": (),
        "limits": (
            "When the proxy switched over is in no API. It is bounded by the last lost request and the first answer.",
            "The loss rate of the next rollout: the same fault can cost 0 or more than this.",
            "Other ways in: an ingress or a cloud load balancer may take longer.",
        ),
        "failed_requests": failed,
        "command": "loadtest run deployment/web --qps 100 -c 10 --timeout 5s",
        "drawing": Drawing(
            duration=31.2,
            bins=bins_of(failed, sent=sent),
            ready_endpoints=tuple(Step(at=at, value=value) for at, value in READY),
            answering={
                OLD_A: ((0.153, 5.576),),
                OLD_B: ((0.112, 6.199),),
                NEW_A: ((6.615, 30.1),),
                NEW_B: ((6.636, 30.12),),
            },
            moments=MOMENTS,
        ),
    }
    return RunResult(**{**values, **more})


def failed_run() -> RunResult:
    """The recorded one: 48 lost on two old pods, 7 echoes 15 s later."""
    return a_run(
        outcome=Outcome.FAIL,
        reason="55 failed requests are tied to pods in transition",
        failed_requests=failures(),
        findings=(exits_at_once(),),
    )


def graceful(one: PodReport, deletion: float) -> PodReport:
    return replace(
        one,
        deletion=deletion,
        endpoint_not_ready=deletion + 0.012,
        stopped_listening=Interval(earliest=deletion + 1.2, latest=deletion + 5.03),
        ended=deletion + 5.2,
        endpoint_removed=deletion + 5.21,
        gone=deletion + 5.6,
        failed=FailedCount(sure=0, at_most=0),
        exposure=LaneExposure(new=7, reused=6),
        last_request=LaneTimes(new=0.94, reused=1.2),
        prestop="sleep 5 s",
    )


def passed_run() -> RunResult:
    """The same with a wait."""
    first, second = old_pods()
    fresh, other = new_pods()
    edges = (0.0, 0.115, 4.975, 12.4, 31.2)
    run = a_run(windows=windows_of((), edges, PHASES))
    pods = (
        graceful(first, 5.572),
        graceful(second, 6.177),
        replace(fresh, first_request=5.812),
        replace(other, first_request=6.466),
    )
    answering = {OLD_A: ((0.153, 6.77),), OLD_B: ((0.112, 7.38),), NEW_A: ((5.812, 30.1),), NEW_B: ((6.466, 30.1),)}
    return replace(run, pods=pods, drawing=replace(run.drawing, answering=answering))


def doubtful_run() -> RunResult:
    """Nothing failed, and no kept connection was on a pod that ended."""
    run = passed_run()
    pods = tuple(replace(one, exposure=LaneExposure(new=one.exposure.new, reused=0)) for one in run.pods)
    return replace(
        run,
        outcome=Outcome.INCONCLUSIVE,
        reason="no kept connection was open to a pod that ended, so its end was not tested in that lane",
        pods=pods,
        gaps=(ResultGap(start=7.9, end=9.4, resource="endpointslices", reason="410 Gone, listed again"),),
    )


def interrupted_run() -> RunResult:
    """Stopped in the baseline, before anything was rolled."""
    sent = 260
    run = a_run(sent=sent, windows=windows_of((), (0.0, 0.115, 2.9), PHASES, sent=sent))
    pods = tuple(replace(pod(one.name, "old", address=one.address), first_request=0.2, served=130) for one in (*old_pods(),))
    return replace(
        run,
        outcome=Outcome.INCONCLUSIVE,
        reason="the run was interrupted before the rollout",
        checks=(),
        pods=pods,
        rollout=Rollout(
            trigger="restart",
            started=None,
            completed=None,
            old_pods_gone=None,
            min_ready_endpoints=2,
            no_ready_endpoint_s=0.0,
            message="",
        ),
        interrupted=True,
        drawing=Drawing(
            duration=2.9,
            bins=bins_of((), sent=sent),
            ready_endpoints=(Step(at=0.0, value=2),),
            answering={OLD_A: ((0.2, 2.8),), OLD_B: ((0.2, 2.8),)},
            moments=(Moment(at=2.9, kind="mark", subject="loadtest", text="interrupted"),),
        ),
    )


def cut_off_run() -> RunResult:
    """Killed in the middle of a rollout that had already cost something."""
    run = failed_run()
    return replace(run, complete=False, limits=("What came after 31.2 s: the record ends there.", *run.limits))


def stuck_run() -> RunResult:
    """No request was lost, but the rollout never came to its end; a fault was there and cost nothing."""
    stuck = replace(
        exits_at_once(0, 0),
        code="rollout-stuck",
        title="The new pod never becomes ready; the rollout stops halfway",
        explanation="Pod srz9z restarts again and again: its readiness probe asks port 8081, where nothing listens.",
        fix="Point the readiness probe at port 8080",
        pods=(),
    )
    quiet = replace(exits_at_once(0, 0), title="The pod stops listening at once")
    return a_run(
        outcome=Outcome.FAIL,
        reason="the rollout got stuck: 1 of 2 updated after 90 s",
        checks=(Check(name="rollout", expected="completed", actual="1 of 2 updated", passed=False),),
        findings=(stuck, quiet),
    )


RUNS = {
    "failed": failed_run,
    "passed": passed_run,
    "doubtful": doubtful_run,
    "interrupted": interrupted_run,
    "cut-off": cut_off_run,
    "stuck": stuck_run,
}
