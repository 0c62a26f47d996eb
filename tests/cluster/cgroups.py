"""One cgroup per hierarchy that holds the cluster and all its containers; both cgroup versions.

The cluster lives in a cgroup namespace, so that kubelet and runc take our cgroup for the root of the tree. Whatever
they make lies below it, and clearing up is removing one tree.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.cluster.layout import NAME
from tests.cluster.trouble import ClusterError

NEEDED = ("cpu", "memory", "pids")
COMPONENTS = "components"
"""Version 2: a group with children that have controllers may hold no process itself, so ours live in this leaf."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """A mounted tree: `controllers` as in its mount options (`name=systemd` has none), empty for version 2."""

    mount: Path
    controllers: str

    @property
    def ours(self) -> Path:
        return self.mount / NAME


def hierarchies() -> list[Hierarchy]:
    """All trees of version 1, or the single one of version 2.

    Named ones too: a container in a tree that is mounted nowhere makes containerd's shim blind to memory kills.
    """
    first: list[Hierarchy] = []
    second: list[Hierarchy] = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, options, *_ = line.split()
        if kind == "cgroup2":
            second.append(Hierarchy(mount=Path(mount), controllers=""))
        elif kind == "cgroup":
            names = [o for o in options.split(",") if o not in {"rw", "ro", "xattr", "clone_children"}]
            names = [o for o in names if not o.endswith("atime") and not o.startswith(("no", "release_agent"))]
            first.append(Hierarchy(mount=Path(mount), controllers=",".join(names)))
    return first or second


def lacking() -> list[str]:
    """What the kernel would have to offer, in words."""
    trees = hierarchies()
    if not trees:
        return ["a cgroup file system under /sys/fs/cgroup"]
    if trees[0].controllers:
        present = {name for tree in trees for name in tree.controllers.split(",")}
    else:
        present = set((trees[0].mount / "cgroup.controllers").read_text().split())
    return [f"cgroup controller {name}" for name in NEEDED if name not in present]


def create() -> list[Path]:
    """Makes our groups; a process that writes `0` into each of the returned files is in them."""
    files = []
    for tree in hierarchies():
        if not tree.controllers:
            enable(tree.mount, NEEDED)
        tree.ours.mkdir(exist_ok=True)
        if "cpuset" in tree.controllers.split(","):  # a new group of version 1 has no CPU to run on
            for name in ("cpuset.cpus", "cpuset.mems"):
                (tree.ours / name).write_text((tree.mount / name).read_text())
        files.append(tree.ours / "cgroup.procs")
    return files


def enable(group: Path, controllers: Iterable[str]) -> None:
    """Version 2: lets the children of `group` have these controllers."""
    enabled = (group / "cgroup.subtree_control").read_text().split()
    missing = [f"+{name}" for name in controllers if name not in enabled]
    if missing:
        try:
            (group / "cgroup.subtree_control").write_text(" ".join(missing))
        except OSError as error:
            raise ClusterError(f"cannot enable cgroup controllers in {group}: {error.strerror}") from error


def make_leaf() -> None:
    """Version 2: moves every process of our group into a leaf and enables controllers for containers beside it."""
    for tree in hierarchies():
        if tree.controllers:
            continue
        leaf = tree.ours / COMPONENTS
        leaf.mkdir(exist_ok=True)
        while pids := (tree.ours / "cgroup.procs").read_text().split():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    (leaf / "cgroup.procs").write_text(pid)
        enable(tree.ours, (tree.ours / "cgroup.controllers").read_text().split())


def folders() -> Iterator[Path]:
    """Our groups, in every hierarchy, children before parents."""
    for tree in hierarchies():
        for path, _, _ in os.walk(tree.ours, topdown=False):
            yield Path(path)


def processes() -> set[int]:
    """Every process in our groups. They are ours by that alone."""
    pids: set[int] = set()
    for folder in folders():
        with contextlib.suppress(OSError):
            pids.update(int(pid) for pid in (folder / "cgroup.procs").read_text().split())
    return pids


def remove(patience: float = 5.0) -> None:
    """Ends what is still in our groups and removes them. Nothing to do is fine.

    Raises ClusterError when a group is still there after `patience` seconds.
    """
    until = time.monotonic() + patience
    while left := list(folders()):
        for pid in processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for folder in left:
            with contextlib.suppress(OSError):
                folder.rmdir()
        if time.monotonic() > until:
            raise ClusterError(f"cannot remove the cgroup {left[-1]}")
        time.sleep(0.02)
