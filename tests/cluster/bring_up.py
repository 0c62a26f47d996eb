"""Starts the programs in an order that wastes no time, and waits until both nodes are ready."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cluster import components, control, credentials, images, network
from tests.cluster.build import Binaries
from tests.cluster.layout import NODES, Layout, Node
from tests.cluster.trouble import ClusterError

PATIENCE = 60.0


def bring_up(binaries: Binaries, layout: Layout, report: Callable[[str], None]) -> None:
    """Network, keys, programs, images. The keeper is there already; on trouble the caller takes all down."""
    for argv in network.commands():
        run(layout, argv)
    credentials.make(layout)
    start(layout, "etcd", components.etcd(binaries, layout))
    start(layout, "kube-apiserver", components.apiserver(binaries, layout))
    for node in NODES:
        start(layout, f"containerd-{node.name}", components.containerd(binaries, layout, node))
    archives = images.archives(binaries)
    with ThreadPoolExecutor() as pool:
        imports = [pool.submit(import_images, binaries, layout, node, archives) for node in NODES]
        wait_for_api(binaries, layout)
        report("the API server is ready")
        start(layout, "kube-controller-manager", components.controller_manager(binaries, layout))
        start(layout, "kube-scheduler", components.scheduler(binaries, layout))
        for done, node in zip(imports, NODES, strict=True):
            done.result()
            start(layout, f"kubelet-{node.name}", components.kubelet(binaries, layout, node))
            start(layout, f"kube-proxy-{node.name}", components.proxy(binaries, layout, node))
    wait_for_nodes(binaries, layout)
    report("both nodes are ready")


def start(layout: Layout, name: str, argv: list[str]) -> None:
    control.ask_keeper(layout, {"do": "start", "name": name, "argv": argv, "log": str(layout.log(name))})


def run(layout: Layout, argv: list[str], stdin: str = "") -> str:
    """Runs a command inside the cluster's namespaces and returns what it prints."""
    answer = control.ask_keeper(layout, {"do": "run", "argv": argv, "stdin": stdin})
    if answer["status"] != 0:
        raise ClusterError(f"{' '.join(argv)}: {answer['output'].strip()}")
    return str(answer["output"])


def import_images(binaries: Binaries, layout: Layout, node: Node, archives: list[Path]) -> None:
    """Waits for the node's containerd and gives it the images."""
    address = ["-a", str(layout.containerd_socket(node)), "-n", "k8s.io"]
    wait_until(layout, f"containerd-{node.name}", lambda: succeeds([str(binaries.ctr), *address, "version"]))
    for archive in archives:
        command = [str(binaries.ctr), *address, "images", "import", "--no-unpack=false", str(archive)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ClusterError(f"import of {archive.name} into {node.name}: {done.stderr.strip()[-500:]}")


def wait_for_api(binaries: Binaries, layout: Layout) -> None:
    command = [str(binaries.kubectl), f"--kubeconfig={layout.kubeconfig('admin')}", "get", "--raw", "/readyz"]
    wait_until(layout, "kube-apiserver", lambda: succeeds(command))


def wait_for_nodes(binaries: Binaries, layout: Layout) -> None:
    """Both nodes ready, without taints, and the default ServiceAccount made."""
    kubectl = [str(binaries.kubectl), f"--kubeconfig={layout.kubeconfig('admin')}"]

    def ready() -> bool:
        done = subprocess.run([*kubectl, "get", "nodes", "-o", "json"], capture_output=True, check=False)
        items = json.loads(done.stdout)["items"] if done.returncode == 0 else []
        return sum(is_ready(item) for item in items) == len(NODES)

    wait_until(layout, f"kubelet-{NODES[0].name}", ready)
    account = [*kubectl, "get", "serviceaccount", "default"]
    wait_until(layout, "kube-controller-manager", lambda: succeeds(account))


def is_ready(node: dict[str, dict[str, list[dict[str, str]]]]) -> bool:
    conditions = {c["type"]: c["status"] for c in node["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")


def succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0


def wait_until(layout: Layout, program: str, holds: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Asks again and again. Raises ClusterError, with the end of the program's log, when it takes too long."""
    until = time.monotonic() + patience
    while not holds():
        ended = control.ask_keeper(layout, {"do": "list"})["ended"]
        if ended or time.monotonic() > until:
            culprit, status = next(iter(ended.items()), (program, None))
            kept = Path(shutil.copy(layout.log(culprit), f"{layout.folder}-{culprit}.log"))
            fate = "is not ready" if status is None else f"ended with {status}"
            last = kept.read_text(errors="replace")[-800:]
            raise ClusterError(f"{culprit} {fate} (its log: {kept}): ...{last}")
        time.sleep(0.05)
