"""Names and places of a running cluster: folders, addresses, namespaces. Fixed, so that a later run finds them.

There is one cluster at a time on a machine, so nothing here needs a number of its own.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

NAME = "rollout-loadtest"
"""The name of our cgroup in every hierarchy."""

LOCK = "\0rollout-loadtest-cluster"
"""The watchdog's socket, in Linux' abstract name space: the kernel gives it to one process and takes it back when that
process ends, however it ends. So it is the lock as well."""

SUBNET = "172.31.250"
HOST_ADDRESS = f"{SUBNET}.1"
CONTROL_ADDRESS = f"{SUBNET}.2"
HOST_LINK = "loadtest0"
API_PORT = 6443
SERVICE_RANGE = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"
POD_RANGE = "10.244.0.0/16"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node: `name` is also the name of its network namespace (inside the cluster's own /run/netns)."""

    name: str
    address: str
    pods: str
    """The range of its pods' addresses."""


NODES = (
    Node(name="node-1", address=f"{SUBNET}.11", pods="10.244.0.0/24"),
    Node(name="node-2", address=f"{SUBNET}.12", pods="10.244.1.0/24"),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The folder of a running cluster. All of it goes when the cluster goes down."""

    folder: Path

    @property
    def private(self) -> Path:
        """A tmpfs that only the cluster's own mount namespace sees: etcd's, containerd's and kubelet's data."""
        return self.folder / "private"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def certificates(self) -> Path:
        return self.folder / "certificates"

    @property
    def kubeconfigs(self) -> Path:
        return self.folder / "kubeconfigs"

    @property
    def configs(self) -> Path:
        return self.folder / "configs"

    @property
    def keeper_socket(self) -> Path:
        return self.folder / "keeper.sock"

    @property
    def up_marker(self) -> Path:
        """Exists once the cluster is completely up; holds the process number of the one that started it."""
        return self.folder / "up"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def kubeconfig(self, name: str) -> Path:
        return self.kubeconfigs / f"{name}.yaml"

    def containerd_socket(self, node: Node) -> Path:
        return self.folder / f"containerd-{node.name}.sock"

    def folders(self) -> tuple[Path, ...]:
        return (self.folder, self.private, self.logs, self.certificates, self.kubeconfigs, self.configs)


def standard_layout() -> Layout:
    """The one place where a cluster lives on this machine."""
    return Layout(folder=Path(tempfile.gettempdir()) / "rollout-loadtest-cluster")
