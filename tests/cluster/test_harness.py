"""The cluster itself: that it comes up, does what tests will ask of it, and leaves nothing behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.cluster import cgroups, control, manifests, requirements
from tests.cluster.__main__ import main
from tests.cluster.cluster import Cluster
from tests.cluster.layout import standard_layout
from tests.cluster.proxy_log import applied
from tests.cluster.traces import traces
from tests.cluster.trouble import CannotRunError, ClusterError

PROJECT = Path(__file__).parents[2]
OWNER = """
import sys, time
from tests.cluster.cluster import Cluster
with Cluster.up():
    print("up", flush=True)
    time.sleep(120)
"""


def start_owner() -> subprocess.Popen[str]:
    """A process that owns a cluster and prints `up` once it has it."""
    command = [sys.executable, "-c", OWNER]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, start_new_session=True)


def end(owner: subprocess.Popen[str], number: signal.Signals) -> None:
    """Ends the owner by that signal and waits until the watchdog has ended too."""
    watchdog = os.pidfd_open(int(control.tell_watchdog("pid")))
    os.kill(owner.pid, number)
    owner.communicate(timeout=20)
    assert select.select([watchdog], [], [], 20)[0], "the watchdog is still there"
    os.close(watchdog)


def wait_for(path: Path, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, f"no {path}"
        time.sleep(0.01)


def open_url(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return str(answer.headers["X-Pod-Name"])


@pytest.mark.usefixtures("no_cluster")
def test_nothing_is_left_when_the_owner_is_killed_half_way_up() -> None:
    before = traces()
    with start_owner() as owner:
        wait_for(standard_layout().log("kube-apiserver"))
        end(owner, signal.SIGKILL)
    assert traces() - before == set()


@pytest.mark.usefixtures("no_cluster")
def test_nothing_is_left_when_the_owner_is_interrupted_half_way_up() -> None:
    before = traces()
    with start_owner() as owner:
        wait_for(standard_layout().log("etcd"))
        end(owner, signal.SIGINT)
    assert traces() - before == set()


@pytest.mark.usefixtures("no_cluster")
def test_nothing_is_left_when_the_owner_is_killed_with_pods_running() -> None:
    before = traces()
    with start_owner() as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        cluster = Cluster.attach()
        cluster.apply(manifests.web(replicas=2))
        cluster.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        end(owner, signal.SIGKILL)
    assert traces() - before == set()


@pytest.mark.usefixtures("no_cluster")
def test_what_even_a_killed_watchdog_leaves_is_cleared_by_the_next_up_and_nothing_is_left_after_down() -> None:
    before = traces()
    with start_owner() as owner:
        wait_for(standard_layout().log("etcd"))
        watchdog = int(control.tell_watchdog("pid"))
        os.kill(owner.pid, signal.SIGSTOP)  # else it would clear up itself
        os.kill(watchdog, signal.SIGKILL)
        os.kill(owner.pid, signal.SIGKILL)
        owner.communicate(timeout=20)
    with Cluster.up() as cluster:
        assert len(cluster.get("nodes")["items"]) == 2
        with pytest.raises(ClusterError, match="already up"):
            Cluster.up()
    assert traces() - before == set()


def test_a_machine_that_lacks_something_is_told_what_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "CNI_PLUGINS", Path("/nowhere"))
    monkeypatch.setattr(cgroups, "lacking", lambda: ["cgroup controller memory"])
    with pytest.raises(CannotRunError) as caught:
        requirements.check()
    assert "CNI plugin bridge (Debian package containernetworking-plugins)" in str(caught.value)
    assert "cgroup controller memory" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_ends_with_2_on_a_machine_that_cannot_run_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["up"]) == 2
    assert capsys.readouterr().err == "error: the test cluster needs root (namespaces, mounts, cgroups)\n"


def test_both_nodes_are_ready_and_run_pods_that_both_node_addresses_reach(cluster: Cluster, namespace: str) -> None:
    port = cluster.deploy(manifests.web(replicas=2, spread=True), namespace)
    pods = cluster.get("-n", namespace, "pods")["items"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node-1", "node-2"}
    for address in cluster.node_addresses:
        reached = {open_url(f"http://{address}:{port}/") for _ in range(40)}
        assert reached == {pod["metadata"]["name"] for pod in pods}


def test_pod_logs_come_from_both_nodes(cluster: Cluster, namespace: str) -> None:
    cluster.deploy(manifests.web(replicas=2, spread=True), namespace)
    for pod in cluster.get("-n", namespace, "pods")["items"]:
        assert "listening" in cluster.kubectl("-n", namespace, "logs", pod["metadata"]["name"])


def test_the_limited_account_may_do_what_a_run_needs_and_nothing_else(cluster: Cluster, namespace: str) -> None:
    kubeconfig = cluster.limited_kubeconfig(namespace)

    def may(*words: str) -> bool:
        return cluster.kubectl(f"--kubeconfig={kubeconfig}", "auth", "can-i", *words, check=False).startswith("yes")

    looks: list[tuple[str, ...]] = [
        (verb, kind) for verb in ("get", "list", "watch") for kind in ("pods", "services", "events", "replicasets.apps")
    ]
    looks += [("list", "endpointslices.discovery.k8s.io"), ("get", "pods", "--subresource=log")]
    looks += [("patch", "deployments.apps")]
    assert [words for words in looks if not may(*words)] == []
    denied: list[tuple[str, ...]] = [
        ("delete", "pods"),
        ("create", "pods"),
        ("get", "secrets"),
        ("list", "nodes"),
        ("update", "deployments.apps"),
    ]
    denied += [("patch", "deployments.apps", "--subresource=scale"), ("list", "configmaps")]
    denied += [("create", "pods", "--subresource=eviction"), ("create", "pods", "--subresource=exec")]
    assert [words for words in denied if may(*words)] == []
    assert not may("list", "pods", "-n", "kube-system")


def test_events_and_logs_can_be_left_out_of_the_limited_account(cluster: Cluster, namespace: str) -> None:
    kubeconfig = cluster.limited_kubeconfig(namespace, events=False, logs=False)
    for words in (("list", "events"), ("get", "pods", "--subresource=log")):
        assert cluster.kubectl(f"--kubeconfig={kubeconfig}", "auth", "can-i", *words, check=False).startswith("no")


def test_the_witnesses_tell_the_order_of_one_termination(cluster: Cluster, namespace: str) -> None:
    cluster.deploy(manifests.web(replicas=1, prestop_sleep=2, args=["--on-term", "exit"]), namespace)
    (old,) = (pod["metadata"]["name"] for pod in cluster.get("-n", namespace, "pods")["items"])
    cluster.kubectl("-n", namespace, "set", "image", "deployment/web", "app=localhost/loadtest-demo:2")
    cluster.kubectl("-n", namespace, "rollout", "status", "deployment/web", "--timeout=60s")
    cluster.kubectl("-n", namespace, "wait", "--for=delete", f"pod/{old}", "--timeout=30s")
    cluster.wait_for_proxies(namespace)
    audit = cluster.audit_log
    deletion, lost_ready, left = audit.deletion_of(old), audit.lost_ready(old), audit.left_slice(old)
    assert deletion is not None
    assert lost_ready is not None
    assert left is not None
    assert 0 < lost_ready.written - deletion.received < 1
    assert left.written - deletion.received > 1.5
    for node in cluster.nodes:
        end_of_sync = applied(cluster.proxy_syncs(node), lost_ready.written)
        assert end_of_sync is not None
        assert 0 < end_of_sync - lost_ready.written < 2


def test_a_container_over_its_memory_limit_is_killed_and_says_so(cluster: Cluster, namespace: str) -> None:
    port = cluster.deploy(manifests.web(replicas=1, memory="64Mi"), namespace)
    with pytest.raises(OSError, match=r"closed|reset"):
        open_url(f"http://{cluster.node_addresses[0]}:{port}/oom")
    cluster.wait_for_restarts(namespace, 1)
    (pod,) = cluster.get("-n", namespace, "pods")["items"]
    (status,) = pod["status"]["containerStatuses"]
    ended = status["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_the_api_server_can_vanish_and_come_back(cluster: Cluster) -> None:
    cluster.stop_apiserver()
    assert "refused" in cluster.kubectl("get", "nodes", check=False)
    cluster.start_apiserver()
    assert len(cluster.get("nodes")["items"]) == 2


def test_tracked_connections_can_be_forgotten(cluster: Cluster, namespace: str) -> None:
    port = cluster.deploy(manifests.web(replicas=1), namespace)
    open_url(f"http://{cluster.node_addresses[0]}:{port}/")
    (first, _) = cluster.nodes
    assert f"dport={port} " in cluster.run("conntrack", "-L", node=first)
    cluster.flush_conntrack()
    assert f"dport={port} " not in cluster.run("conntrack", "-L", node=first)
