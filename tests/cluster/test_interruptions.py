"""What a run that is broken off leaves behind: its reports, the rollout to finish, and nothing of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from loadtest.model import Outcome
from tests.cluster import tool
from tests.cluster.cluster import Cluster
from tests.cluster.manifests import web
from tests.cluster.tool import QUICK

LOAD = ("--qps", "32", "-c", "8")
APP = ["--delay", "100ms", "--on-term", "drain"]


def read_until(process: subprocess.Popen[str], words: str, seconds: float = 60.0) -> None:
    """Reads the tool's progress up to a line that holds these words."""
    assert process.stderr is not None
    end = time.monotonic() + seconds
    for line in process.stderr:
        if words in line:
            return
        assert time.monotonic() < end
    pytest.fail(f"the tool ended without saying {words!r}")


def children(pid: int) -> list[int]:
    """Processes that this one started."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    """Exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_writes_its_reports_and_leaves_the_rollout_to_finish(
    cluster: Cluster, namespace: str, tmp_path: Path, number: signal.Signals
) -> None:
    cluster.deploy(web(args=APP, prestop_sleep=5), namespace)
    folder = tmp_path / "run"
    process = tool.start(cluster.limited_kubeconfig(namespace), folder, *LOAD, *QUICK)
    read_until(process, "old replicas are pending termination")
    worker = children(process.pid)
    sent = time.monotonic()
    if number is signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does: the worker gets it too
    else:
        process.send_signal(number)
    ran = tool.finish(process, folder)
    assert time.monotonic() - sent < 5
    assert ran.code == 130
    assert not any(is_alive(pid) for pid in worker)
    result = ran.result
    assert result.interrupted
    assert result.outcome is Outcome.INCONCLUSIVE
    assert {"report.html", "result.json", "run.db"} <= {file.name for file in folder.iterdir()}
    assert "kubectl rollout undo deployment/web" in ran.stderr
    cluster.kubectl("-n", namespace, "rollout", "status", "deployment/web", "--timeout=60s")


def test_an_api_server_that_dies_in_the_middle_is_a_gap_and_the_run_goes_on(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    cluster.deploy(web(args=APP, prestop_sleep=5), namespace)
    folder = tmp_path / "run"
    process = tool.start(cluster.limited_kubeconfig(namespace), folder, *LOAD, *QUICK)
    read_until(process, "old replicas are pending termination")
    cluster.stop_apiserver()
    time.sleep(3)
    cluster.start_apiserver()
    ran = tool.finish(process, folder)
    result = ran.result
    document = json.loads((folder / "result.json").read_text())
    pods = [gap for gap in document["gaps"] if gap["resource"] == "pods"]
    assert max(gap["end"] - gap["start"] for gap in pods) >= 2.5, document["gaps"]
    assert result.summary.failed == 0
    assert result.summary.sent == result.summary.due
    assert result.rollout.old_pods_gone is not None
    assert result.outcome is Outcome.INCONCLUSIVE, result.reason
    assert "blind" in result.reason
    assert ran.code == 3


def test_reports_can_be_made_of_a_run_that_was_killed(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    cluster.deploy(web(args=["--delay", "300ms", "--on-term", "default"], share_process_namespace=True), namespace)
    folder = tmp_path / "run"
    process = tool.start(cluster.limited_kubeconfig(namespace), folder, *LOAD, "-c", "16", *QUICK)
    read_until(process, "rollout complete")
    worker = children(process.pid)
    time.sleep(1)
    process.kill()
    process.communicate()
    end = time.monotonic() + 5
    while any(is_alive(pid) for pid in worker) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(is_alive(pid) for pid in worker), "the load worker outlived its conductor"
    assert not (folder / "result.json").exists()
    made = tool.call("report", str(folder))
    assert made.returncode == 1, made.stderr
    document = json.loads((folder / "result.json").read_text())
    assert document["complete"] is False
    assert document["outcome"] == "fail"
    assert [finding["code"] for finding in document["findings"]] == ["exits-at-once"]
    assert "without its closing entry" in made.stdout


def test_a_load_worker_that_dies_ends_the_run_without_a_pass(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    cluster.deploy(web(args=APP, prestop_sleep=5), namespace)
    folder = tmp_path / "run"
    process = tool.start(cluster.limited_kubeconfig(namespace), folder, *LOAD, *QUICK)
    read_until(process, "old replicas are pending termination")
    (worker,) = children(process.pid)
    os.kill(worker, signal.SIGKILL)
    ran = tool.finish(process, folder)
    result = ran.result
    assert (ran.code, result.outcome) == (3, Outcome.INCONCLUSIVE), result.reason
    assert any("load worker died" in limit for limit in result.limits)
    assert result.summary.sent > 100


def test_a_trigger_that_is_refused_in_the_middle_keeps_what_was_seen(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    cluster.deploy(web(args=["--on-term", "exit"]), namespace)
    folder = tmp_path / "run"
    process = tool.start(cluster.limited_kubeconfig(namespace), folder, *LOAD, *QUICK)
    read_until(process, "baseline")
    cluster.kubectl("-n", namespace, "delete", "deployment", "web", "--cascade=orphan")
    ran = tool.finish(process, folder)
    assert ran.code == 4
    assert [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    assert ran.result.outcome is Outcome.INCONCLUSIVE
    assert ran.result.summary.sent > 50
    assert (folder / "report.html").exists()
