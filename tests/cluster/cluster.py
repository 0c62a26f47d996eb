"""The cluster as tests and the command line use it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cluster import bring_up, build, components, control, credentials, requirements
from tests.cluster.audit import AuditLog, read_audit_log
from tests.cluster.build import Binaries
from tests.cluster.layout import NODES, Layout, Node, standard_layout
from tests.cluster.network import in_node
from tests.cluster.proxy_log import ProxySync, applied, read_proxy_log
from tests.cluster.rights import limited_role
from tests.cluster.trouble import ClusterError


class Cluster:
    """A running cluster. As a context manager it goes down at the end, whatever happens."""

    def __init__(self, binaries: Binaries, layout: Layout, watchdog: subprocess.Popen[bytes] | None = None) -> None:
        self.binaries = binaries
        self.layout = layout
        self._watchdog = watchdog
        self._names = itertools.count(1)

    @classmethod
    def up(cls, report: Callable[[str], None] = lambda line: None) -> Self:
        """Builds what is missing and starts a cluster that goes down when this process ends, unless `detach` is called.

        Raises CannotRunError when the machine lacks something, ClusterError when another cluster is up or this one
        does not come up; then nothing of it is left.
        """
        requirements.check()
        binaries = build.binaries(report)
        layout = standard_layout()
        cluster = cls(binaries, layout, control.start_watchdog(layout))
        try:
            bring_up.bring_up(binaries, cluster.layout, report)
            cluster.layout.up_marker.write_text(str(os.getpid()))
        except BaseException:
            cluster.down()
            raise
        return cluster

    @classmethod
    def attach(cls) -> Self:
        """The cluster that is up already. Raises ClusterError if there is none."""
        layout = standard_layout()
        if not control.tell_watchdog("status") or not layout.up_marker.exists():
            raise ClusterError("no cluster is up (start one: python -m tests.cluster up)")
        return cls(build.binaries(), layout)

    @classmethod
    def usable(cls) -> bool:
        """Whether a cluster is up that this process may use: started by hand, or by itself."""
        state = control.tell_watchdog("status")
        marker = standard_layout().up_marker
        return bool(state) and marker.exists() and (state == "detached" or marker.read_text() == str(os.getpid()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.down()

    def detach(self) -> None:
        """From now on the cluster stays when this process ends."""
        control.tell_watchdog("detach")

    def down(self) -> None:
        """Takes everything down; returns when all is gone."""
        control.take_down()
        if self._watchdog is not None:
            self._watchdog.wait(timeout=10)

    @property
    def admin_kubeconfig(self) -> Path:
        return self.layout.kubeconfig("admin")

    @property
    def nodes(self) -> tuple[Node, ...]:
        return NODES

    @property
    def node_addresses(self) -> tuple[str, ...]:
        """The IP addresses of node-1 and node-2, reachable from the host; every NodePort answers on both."""
        return tuple(node.address for node in NODES)

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True, timeout: float = 120.0) -> str:
        """Runs kubectl as administrator and returns its standard output.

        Raises ClusterError with kubectl's own words when it fails; with check=False returns both its outputs instead.
        """
        command = [str(self.binaries.kubectl), f"--kubeconfig={self.admin_kubeconfig}", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
        if done.returncode != 0 and check:
            raise ClusterError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout if check else done.stdout + done.stderr

    def get(self, *arguments: str) -> dict[str, Any]:
        """`kubectl get ... -o json`, parsed."""
        parsed: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return parsed

    def apply(self, manifests: str, namespace: str = "default") -> None:
        """Applies YAML text."""
        self.kubectl("-n", namespace, "apply", "-f", "-", stdin=manifests)

    def deploy(self, manifests: str, namespace: str, name: str = "web") -> int:
        """Applies manifests, waits for the Deployment and until both nodes know its pods; the Service's NodePort.

        A rollout that is complete is not yet in the kernel: the proxies sync up to a second later.
        """
        self.apply(manifests, namespace)
        self.kubectl("-n", namespace, "rollout", "status", f"deployment/{name}", "--timeout=90s")
        self.wait_for_proxies(namespace)
        return int(self.get("-n", namespace, "service", name)["spec"]["ports"][0]["nodePort"])

    def wait_for_restarts(self, namespace: str, restarts: int, patience: float = 30.0) -> None:
        """Returns when the containers of that namespace have been started anew that many times in all."""
        until = time.monotonic() + patience
        while True:
            pods = self.get("-n", namespace, "pods")["items"]
            counts = [s["restartCount"] for pod in pods for s in pod["status"].get("containerStatuses", [])]
            if sum(counts) >= restarts:
                return
            if time.monotonic() > until:
                raise ClusterError(f"{sum(counts)} restarts in {namespace} within {patience:.0f} s, not {restarts}")
            time.sleep(0.1)

    def wait_for_proxies(self, namespace: str, patience: float = 10.0) -> None:
        """Returns when every node's proxy has applied all slice writes of that namespace up to now."""
        written = max((w.written for w in self.audit_log.slice_writes if w.namespace == namespace), default=0.0)
        until = time.monotonic() + patience
        while any(applied(self.proxy_syncs(node), written) is None for node in NODES):
            if time.monotonic() > until:
                raise ClusterError(f"a proxy has not applied what happened in {namespace} within {patience:.0f} s")
            time.sleep(0.05)

    def create_namespace(self, prefix: str = "test") -> str:
        """A new namespace that takes pods at once; its name is unique as long as the cluster lives."""
        name = f"{prefix}-{os.getpid()}-{next(self._names)}"
        self.kubectl("create", "namespace", name)
        until = time.monotonic() + 20
        while "default" not in self.kubectl("-n", name, "get", "serviceaccount", "default", check=False).split():
            if time.monotonic() > until:
                raise ClusterError(f"namespace {name} got no default ServiceAccount within 20 s")
            time.sleep(0.05)
        return name

    def delete_namespace(self, name: str, wait: bool = False) -> None:
        """Deletes a namespace and all in it; its pods do not get their grace."""
        everything = ("deployments,replicasets,jobs,pods", "--all", "--force", "--grace-period=0", "--ignore-not-found")
        self.kubectl("-n", name, "delete", *everything, "--wait=false", check=False)
        self.kubectl("delete", "namespace", name, "--ignore-not-found", f"--wait={str(wait).lower()}")

    @contextlib.contextmanager
    def namespace(self, prefix: str = "test") -> Iterator[str]:
        """A new namespace that is deleted at the end."""
        name = self.create_namespace(prefix)
        try:
            yield name
        finally:
            self.delete_namespace(name)

    def limited_kubeconfig(self, namespace: str, *, events: bool = True, logs: bool = True) -> Path:
        """A kubeconfig of a new ServiceAccount of that namespace with exactly the rights of `limited_role`.

        Its context has the namespace set. The token is good for a day.
        """
        account = f"loadtest-{next(self._names)}"
        self.apply(limited_role(account, namespace, events=events, logs=logs), namespace)
        token = self.kubectl("-n", namespace, "create", "token", account, "--duration=24h").strip()
        return credentials.write_kubeconfig(self.layout, f"{namespace}-{account}", token, namespace)

    def import_image(self, archive: Path) -> None:
        """Gives both nodes the images of an OCI archive."""
        for node in NODES:
            bring_up.import_images(self.binaries, self.layout, node, [archive])

    def run(self, *argv: str, node: Node | None = None, stdin: str = "") -> str:
        """Runs a command in the cluster's namespaces: in a node's network, or the control plane's. Its output."""
        return bring_up.run(self.layout, in_node(node, *argv) if node else list(argv), stdin)

    def flush_conntrack(self) -> None:
        """Forgets every tracked connection on both nodes: a later connection meets no dead pod by its source port."""
        for node in NODES:
            self.run("conntrack", "-F", node=node)

    def stop_apiserver(self) -> None:
        """Ends the API server by SIGKILL: every watch breaks off."""
        control.ask_keeper(self.layout, {"do": "kill", "name": "kube-apiserver"})

    def start_apiserver(self) -> None:
        """Starts the API server again and returns when it is ready."""
        bring_up.start(self.layout, "kube-apiserver", components.apiserver(self.binaries, self.layout))
        bring_up.wait_for_api(self.binaries, self.layout)

    @property
    def audit_log(self) -> AuditLog:
        """What the API server has recorded until now: deletions, evictions and slice writes."""
        return read_audit_log(self.layout.log("audit"))

    def proxy_syncs(self, node: Node) -> list[ProxySync]:
        """Every sync of that node's kube-proxy until now, in order."""
        return read_proxy_log(self.layout.log(f"kube-proxy-{node.name}"))
