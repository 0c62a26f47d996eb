from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from loadtest.analyze.conclude import conclude
from loadtest.analyze.drawing import LOG_LINES
from loadtest.model import FailureKind, Gap, Lane, LogLine, Mark, OpenRequest, Outcome, StoredRun
from loadtest.report.result_json import render
from tests.laws import assert_laws
from tests.unit.analyze.builders import (
    Pod,
    Traffic,
    cluster,
    healthy_run,
    healthy_traffic,
    in_use,
    info,
    marks,
    new_pods,
    ns,
    old_pods,
    quick_use,
    run,
    target,
)
from tests.unit.analyze.recorded import recorded_run

REFUSED, SILENCE = FailureKind.CONNECT_REFUSED, FailureKind.CONNECT_TIMEOUT


def every_kind_of_failure() -> StoredRun:
    traffic = Traffic().steady(quick_use)
    for number, kind in enumerate(FailureKind):
        for at in (2.0, 5.9, 6.1, 7.2, 14.0):
            traffic.add(at + number / 50, kind=kind, took=0.3, lane=Lane(number % 2), port=number + 1, status=500)
    return run(traffic, cluster(old_pods(ended=6.3, gone=6.6, prestop=None) + new_pods()))


RUNS = {
    "healthy": healthy_run(),
    "every kind of failure": every_kind_of_failure(),
    "nothing": run(Traffic(), (), marks=(), closed=False, ends=()),
    "cut off": replace(healthy_run(), marks=(*marks("settle", "end"), Mark(name="interrupted", at=ns(13))), closed=False),
    "blind": replace(healthy_run(), gaps=(Gap(start=ns(5), end=ns(9), resource="pods", reason="410"),)),
    "d0-nosleep": recorded_run("d0-nosleep"),
    "d3-recreate": recorded_run("d3-recreate", lanes=("new",)),
    "d0-healthy": recorded_run("d0-healthy", lanes=("new",)),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_same_run_gives_the_same_result_byte_for_byte(name: str) -> None:
    assert render(conclude(RUNS[name])) == render(conclude(RUNS[name]))


@pytest.mark.parametrize("name", RUNS)
def test_the_laws_hold(name: str) -> None:
    if not any(True for block in RUNS[name].requests for _ in block.columns["seq"]):
        assert conclude(RUNS[name]).summary.due == 0
        return
    assert_laws(RUNS[name], conclude(RUNS[name]))


@pytest.mark.parametrize("name", RUNS)
def test_a_finding_of_every_failure_and_a_share_for_each_pod(name: str) -> None:
    result = conclude(RUNS[name])
    assert sum(finding.requests for finding in result.findings) == len(result.failed_requests)
    for finding in result.findings:
        assert all(0 <= pod.sure <= pod.at_most <= finding.requests for pod in finding.pods)
        assert finding.title
        assert finding.fix
    sure = Counter(one.attribution.pods[0] for one in result.failed_requests if len(one.attribution.pods) == 1)
    assert {pod.name: pod.failed.sure for pod in result.pods if pod.failed.sure} == {
        name: count for name, count in sure.items() if name in {pod.name for pod in result.pods}
    }


def test_bins_are_20_ms_and_hold_every_request() -> None:
    result = conclude(healthy_run())
    assert {round(one.end - one.start, 6) for one in result.drawing.bins} == {0.02}
    assert sum(one.ok for one in result.drawing.bins) == result.summary.ok


def test_bins_of_a_long_run_are_coarser_and_bounded() -> None:
    traffic = Traffic().steady(lambda _: ["a"], 0, 1200, qps=50)
    made = run(traffic, (), marks=marks(stop=1200.0, end=1200.0))
    bins = conclude(made).drawing.bins
    for lane in ("new", "reused"):
        assert sum(one.lane == lane for one in bins) <= 6000
    assert sum(one.ok for one in bins) == 60_000
    assert bins[0].end - bins[0].start == pytest.approx(0.22, abs=0.03)


def test_the_last_lines_of_each_pods_log_are_drawn() -> None:
    def line(number: int, pod: str) -> LogLine:
        return LogLine(seen=ns(6 + number / 100), pod=pod, uid=pod, container="app", stamp="", text=f"{pod} {number}")

    logs = tuple(line(number, pod) for number in range(100) for pod in ("a", "b"))
    moments = [moment for moment in conclude(replace(healthy_run(), logs=logs)).drawing.moments if moment.kind == "log"]
    assert Counter(moment.subject for moment in moments) == {"a": LOG_LINES, "b": LOG_LINES}
    assert moments[0].text == "a 60"
    assert moments[-1].text == "b 99"


def test_a_run_without_an_end_ends_with_the_last_thing_seen() -> None:
    result = conclude(replace(healthy_run(), marks=marks("stop", "end"), closed=False))
    assert result.drawing.duration == pytest.approx(16.955)
    assert not result.complete


def test_due_is_sent_and_dropped_and_open_and_lost() -> None:
    made = healthy_run()
    (end,) = made.ends
    still = OpenRequest(worker=0, seq=end.last_due + 1, due=ns(16), started=ns(16), lane=Lane.NEW)
    summary = conclude(replace(made, open=(still,), ends=(replace(end, last_due=end.last_due + 4),))).summary
    assert (summary.open, summary.lost) == (1, 3)
    assert summary.due == summary.sent + 4


def test_the_longest_outage_is_from_a_failed_requests_due_time_to_the_next_answer() -> None:
    traffic = Traffic().steady(lambda at: ["a"] if at < 6 or at >= 8 else [])
    traffic.add(6.5, kind=SILENCE, took=5)
    assert conclude(run(traffic, cluster(old_pods() + new_pods()))).summary.longest_outage_ms == pytest.approx(1505)


def test_a_cluster_without_native_sleep_gets_the_exec_form() -> None:
    traffic = Traffic().steady(quick_use)
    traffic.add(6.1, kind=REFUSED, took=0.001)
    made = run(traffic, cluster(old_pods(ended=6.3, gone=6.6, prestop=None) + new_pods()))
    assert "sleep:" in conclude(made).findings[0].fix_yaml
    old = replace(made, info=info(cluster={"server_version": "v1.29.4"}))
    assert "exec:" in conclude(old).findings[0].fix_yaml


def test_limits_say_where_nothing_shows_when_a_pod_stopped_listening() -> None:
    silent = "When a stopped listening"
    slow = old_pods(prestop=None, ended=14.0, gone=14.3) + new_pods()
    assert any(silent in limit for limit in conclude(run(healthy_traffic(), cluster(slow))).limits)
    assert not any(silent in limit for limit in conclude(healthy_run()).limits)


def test_what_the_cluster_part_says_of_the_path() -> None:
    result = conclude(replace(healthy_run(), info=info(target=target(path_from="flag"))))
    assert result.cluster["path_proven"] is True
    assert result.cluster["path_from"] == "flag"


def test_two_pods_of_one_name_are_two_lives_and_one_report_each() -> None:
    """Not with a Deployment's own names, but a name given by hand may come again."""
    again = Pod(name="a", hash="new", born=12.0, ready_from=13.0)
    pods = [*old_pods(), *new_pods()]
    sightings = [*cluster(pods), *again.sightings()]
    for one in sightings[-2:]:
        one.object["metadata"]["uid"] = "a-2"
    made = run(Traffic().steady(in_use), sorted(sightings, key=lambda one: one.seen))
    result = conclude(made)
    assert [pod.uid for pod in result.pods if pod.name == "a"] == ["a", "a-2"]
    assert result.outcome is not Outcome.FAIL
