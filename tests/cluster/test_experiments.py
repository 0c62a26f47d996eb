"""The first founding experiments on the real cluster, each against witnesses that are not ours.

The app's own log says by request id what it answered; the API server's audit log when a pod's deletion came in; kube-proxy's
log when the kernel knew of it.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from loadtest.model import FailureKind, Outcome, RunResult
from tests.cluster import tool
from tests.cluster.cluster import Cluster
from tests.cluster.manifests import web
from tests.cluster.proxy_log import applied
from tests.cluster.tool import QUICK, Ran
from tests.cluster.witness import Witness

LOAD = ("--qps", "32", "-c", "16")
SECRET = ("-H", "Authorization: Bearer planted-secret")
HANDLER = ("--delay", "500ms")
SETUP = {FailureKind.CONNECT_REFUSED, FailureKind.CONNECT_TIMEOUT, FailureKind.UNREACHABLE}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


@pytest.fixture
def figures(record_property: object, capsys: pytest.CaptureFixture[str]) -> object:
    """Prints a line of figures, seen with -rP or -s."""

    def tell(*words: object) -> None:
        with capsys.disabled():
            print("\n   ", *words)

    return tell


def codes(result: RunResult) -> dict[str, int]:
    return {finding.code: finding.requests for finding in result.findings}


def ids_of(ran: Ran, *, failed: bool) -> set[str]:
    run = ran.run
    return {
        f"{run.info.run_id}-{seq}"
        for block in run.requests
        for seq, kind in zip(block.columns["seq"], block.columns["kind"], strict=True)
        if bool(kind) == failed
    }


def assert_server_agrees(ran: Ran, witness: Witness) -> None:
    """Law 3, and more: nothing was sent twice, and what a pod says it answered is what we call ok."""
    run_id = ran.run.info.run_id
    seen = witness.ids(run_id)
    assert [one for one, count in seen.items() if count > 1] == []
    assert set(seen) <= ids_of(ran, failed=False) | ids_of(ran, failed=True)
    assert witness.answered(run_id) == ids_of(ran, failed=False)
    assert witness.unanswered(run_id) <= ids_of(ran, failed=True)


def assert_cluster_agrees(ran: Ran, result: RunResult, cluster: Cluster, figures: object) -> None:
    """Deletions arrive shortly after the API server got them, and no fresh request reaches a pod after kube-proxy's sync."""
    sample = ran.run.clock[0]
    assert callable(figures)

    def unix(seconds: float) -> float:
        return seconds + (sample.wall_ns - sample.at) / 1e9

    syncs = [sync for node in cluster.nodes[:1] for sync in cluster.proxy_syncs(node)]
    audit = cluster.audit_log
    for pod in result.pods:
        if pod.revision != "old" or pod.deletion is None:
            continue
        deletion, lost_ready = audit.deletion_of(pod.name), audit.lost_ready(pod.name)
        assert deletion is not None
        assert lost_ready is not None
        late = unix(pod.deletion) - deletion.received
        assert 0 <= late < 0.5, f"the deletion of {pod.name} arrived {late:.3f} s after the API server got it"
        # A sync that starts just after the slice was written may not have heard of it yet: seen with 7 ms between them,
        # and traffic then went on until the next one. So the first sync after its arrival at our own watch counts.
        heard = lost_ready.written if pod.endpoint_not_ready is None else max(lost_ready.written, unix(pod.endpoint_not_ready))
        moved = applied(syncs, heard)
        assert moved is not None
        tied = [
            unix(request.started)
            for request in result.failed_requests
            if request.attribution.pods == (pod.name,) and request.kind in SETUP and not request.echo
        ]
        answered = [unix(pod.deletion + pod.last_request.new)] if pod.last_request.new is not None else []
        last = max(tied + answered, default=None)
        figures(
            f"{pod.name}: D→arrival {late * 1e3:.0f} ms, E1 {1e3 * (lost_ready.written - deletion.received):.0f} ms, "
            f"X {1e3 * (moved - deletion.received):.0f} ms, last fresh request "
            f"{1e3 * (last - deletion.received):.0f} ms after D"
            if last is not None
            else f"{pod.name}: no fresh request"
        )
        if last is not None and result.rollout.min_ready_endpoints:
            assert last <= moved + 0.02, f"a fresh request is tied to {pod.name} after kube-proxy had dropped it"


def test_an_app_that_exits_at_once_fails_and_each_request_is_tied_to_an_old_pod(
    cluster: Cluster, namespace: str, tmp_path: Path, logs: Path, figures: object
) -> None:
    """Experiment A1, with fortio beside us on the same Service."""
    assert callable(figures)
    port = cluster.deploy(web(args=[*HANDLER, "--on-term", "default"], share_process_namespace=True), namespace)
    with Witness(cluster, namespace, logs) as witness:
        process = tool.start(cluster.limited_kubeconfig(namespace), tmp_path / "run", *LOAD, *QUICK)
        fortio = fortio_beside(cluster, port, 16)
        ran = tool.finish(process, tmp_path / "run")
    result = ran.result
    assert ran.code == 1
    assert result.outcome is Outcome.FAIL
    assert set(codes(result)) == {"exits-at-once"}
    assert result.summary.failed > 0
    old = {pod.name for pod in result.pods if pod.revision == "old"}
    assert len(old) == 2
    for request in result.failed_requests:
        assert request.attribution.pods, request
        assert set(request.attribution.pods) <= old
    for pod in result.pods:
        if pod.revision == "old":
            assert (pod.exit_code, pod.reason) == (143, "Error")
            assert pod.deletion is not None
            assert pod.ended is not None
            assert pod.ended - pod.deletion < 2
    assert "preStop" in result.findings[0].fix_yaml
    assert_server_agrees(ran, witness)
    assert_cluster_agrees(ran, result, cluster, figures)
    told = [line for line in fortio.stderr.splitlines() + fortio.stdout.splitlines() if line.startswith("Code ")]
    dead = fortio.stderr.count("Closing dead socket")
    figures(f"A1: {result.summary.failed} of {result.summary.sent} failed, by kind {dict(result.summary.failures)}")
    figures(f"fortio told {told}; sent {dead} more (dead sockets); masked_by_retry {dict(result.summary.masked_by_retry)}")
    for name in sorted(old):
        deletion = cluster.audit_log.deletion_of(name)
        assert deletion is not None
        after = [round(at - deletion.received, 3) for at in fortio_failures(fortio.stderr)]
        figures(f"fortio's failures, seconds after D of {name}: {[at for at in after if -1 < at < 5]}")
    assert fortio.returncode == 0, fortio.stderr


def test_a_wait_alone_leaves_kept_connections_to_be_cut(
    cluster: Cluster, namespace: str, tmp_path: Path, logs: Path, figures: object
) -> None:
    """A1's app with a preStop wait of 5 s: fresh connections lose nothing, kept ones die with the pod."""
    assert callable(figures)
    port = cluster.deploy(web(args=[*HANDLER, "--on-term", "default"], share_process_namespace=True, prestop_sleep=5), namespace)
    with Witness(cluster, namespace, logs) as witness:
        process = tool.start(cluster.limited_kubeconfig(namespace), tmp_path / "run", *LOAD, *QUICK)
        fortio = fortio_beside(cluster, port, 20)
        ran = tool.finish(process, tmp_path / "run")
    result = ran.result
    assert ran.code == 1
    assert set(codes(result)) == {"kept-connections-cut"}
    assert result.summary.lanes["new"].failed == 0
    assert result.summary.lanes["reused"].failed > 0
    assert {pod.exit_code for pod in result.pods if pod.revision == "old"} == {143}
    assert_server_agrees(ran, witness)
    assert_cluster_agrees(ran, result, cluster, figures)
    told = [line for line in fortio.stderr.splitlines() + fortio.stdout.splitlines() if line.startswith("Code ")]
    dead = fortio.stderr.count("Closing dead socket")
    figures(f"A1 with a wait: {result.summary.failed} cut; fortio told {told} and had {dead} dead sockets")


def test_an_app_that_drains_behind_a_wait_passes_without_a_finding(
    cluster: Cluster, namespace: str, tmp_path: Path, logs: Path, figures: object
) -> None:
    """Experiment A3, rolled by another image."""
    cluster.deploy(web(args=[*HANDLER, "--on-term", "drain"], prestop_sleep=5), namespace)
    with Witness(cluster, namespace, logs) as witness:
        flags = (*LOAD, *QUICK, "--set-image", "localhost/loadtest-demo:2")
        ran = tool.run(cluster.limited_kubeconfig(namespace), tmp_path / "run", *flags)
    result = ran.result
    assert (ran.code, result.outcome) == (0, Outcome.PASS), result.reason
    assert result.summary.failed == 0
    assert result.findings == ()
    assert result.summary.codes == {"200": result.summary.sent}
    for pod in result.pods:
        if pod.revision == "old":
            assert pod.exposure.new > 0
            assert pod.exposure.reused > 0
            assert pod.exit_code == 0
    assert_server_agrees(ran, witness)
    assert set(witness.ids(ran.run.info.run_id)) == ids_of(ran, failed=False)
    assert_cluster_agrees(ran, result, cluster, figures)


def test_one_replica_without_surge_is_an_outage_that_too_few_ready_pods_explain(
    cluster: Cluster, namespace: str, tmp_path: Path, logs: Path, figures: object
) -> None:
    """maxUnavailable 1, an app that boots for 3 s and closes its listener at SIGTERM: everything after that is lost.

    The first refusal proves that the listener was closed: whatever is sent after it is the outage's. `exits-at-once` is
    costless, but for requests sent in the moment before: on connections in the backlog, which closing a listener resets, or
    on kept ones whose close had not reached us yet.
    """
    assert callable(figures)
    args = ["--delay", "100ms", "--boot", "3s", "--on-term", "close"]
    cluster.deploy(web(args=args, replicas=1, max_unavailable=1, max_surge=0), namespace)
    with Witness(cluster, namespace, logs) as witness:
        ran = tool.run(cluster.limited_kubeconfig(namespace), tmp_path / "run", *LOAD, *QUICK)
    result = ran.result
    assert ran.code == 1
    found = codes(result)
    refused = min(request.ended for request in result.failed_requests if request.kind in SETUP)
    before = [request for request in result.failed_requests if request.cause == "exits-at-once"]
    assert found.pop("exits-at-once") == len(before)
    assert all(request.written is not None and request.started <= refused for request in before)
    assert found == {"too-few-ready": result.summary.failed - len(before)}
    assert result.summary.failed - len(before) > 20
    assert result.rollout.min_ready_endpoints == 0
    assert 3.0 <= result.rollout.no_ready_endpoint_s <= 5.5
    figures(
        f"no ready endpoint for {result.rollout.no_ready_endpoint_s:.2f} s, "
        f"longest time without an answer {result.summary.longest_outage_ms / 1e3:.2f} s, {result.summary.failed} failed, "
        f"saved by TCP {result.summary.saved_by_tcp}"
    )
    assert_server_agrees(ran, witness)


def test_one_replica_that_waits_and_boots_at_once_passes_and_says_what_could_have_been(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """The terminating pod carries the traffic while no endpoint is ready. Run with the least rights, from outside."""
    args = ["--delay", "100ms", "--on-term", "drain"]
    cluster.deploy(web(args=args, replicas=1, max_unavailable=1, max_surge=0, prestop_sleep=5), namespace)
    kubeconfig = cluster.limited_kubeconfig(namespace, events=False, logs=False)
    ready = tmp_path / "ready"
    process = tool.start(
        kubeconfig, tmp_path / "run", *LOAD, *QUICK, "--trigger", "external", "--ready-file", str(ready), *SECRET
    )
    wait_for(ready)
    cluster.kubectl("-n", namespace, "rollout", "restart", "deployment/web")
    ran = tool.finish(process, tmp_path / "run")
    result = ran.result
    assert "ready: start the rollout now" in ran.stderr
    token = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]
    written = [file.read_bytes() for file in ran.folder.iterdir()] + [ran.stdout.encode(), ran.stderr.encode()]
    for secret in ("planted-secret", token):
        assert not any(secret.encode() in content for content in written), "a secret reached a file of the run"
    assert (ran.code, result.outcome) == (0, Outcome.PASS), result.reason
    assert codes(result) == {"too-few-ready": 0}
    assert {"list events", "watch events", "get pods/log"} <= set(result.cluster["missing_rights"])
    assert any("events" in limit for limit in result.limits)


def test_failures_that_were_there_before_are_not_the_rollouts(
    cluster: Cluster, namespace: str, tmp_path: Path, logs: Path
) -> None:
    """Every 20th answer is a 503, before, during and after."""
    args = ["--delay", "100ms", "--fail-every", "20", "--on-term", "drain"]
    cluster.deploy(web(args=args, prestop_sleep=5), namespace)
    with Witness(cluster, namespace, logs) as witness:
        ran = tool.run(cluster.limited_kubeconfig(namespace), tmp_path / "run", *LOAD, "--baseline", "8s", *QUICK[:2], *QUICK[4:])
    result = ran.result
    assert (ran.code, result.outcome) == (0, Outcome.PASS), result.reason
    assert codes(result) == {"not-the-rollout": result.summary.failed}
    assert result.summary.codes["503"] == result.summary.failed > 5
    assert witness.answered(ran.run.info.run_id) == ids_of(ran, failed=False) | ids_of(ran, failed=True)


def fortio_beside(cluster: Cluster, port: int, seconds: int) -> subprocess.CompletedProcess[str]:
    """The author's own command line on the same Service, for a bounded time."""
    url = f"http://{cluster.node_addresses[0]}:{port}/"
    words = ["load", "-qps", "32", "-c", "8", "-t", f"{seconds}s", "-allow-initial-errors", url]
    return subprocess.run([str(cluster.binaries.fortio), *words], capture_output=True, text=True, timeout=60, check=False)


def fortio_failures(log: str) -> list[float]:
    """Unix times of fortio's own lines about requests without an answer."""
    found = []
    for line in log.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if entry.get("level") in {"err", "error", "warn"} and "err" in entry:
            found.append(float(entry["ts"]))
    return found


def wait_for(file: Path, seconds: float = 60.0) -> None:
    """Until a file is there."""
    end = time.monotonic() + seconds
    while not file.exists():
        assert time.monotonic() < end, f"{file.name} did not come to be"
        time.sleep(0.05)
