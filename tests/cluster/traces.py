"""Everything on this machine that a cluster could leave behind, as a set of words to compare before and after."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

from tests.cluster.build import cache_folder
from tests.cluster.keeper import KERNEL_SETTINGS, PRIVATE_TREES
from tests.cluster.layout import standard_layout

FOLDERS = ("/run", "/run/netns", "/run/containerd", "/etc/cni", "/etc/cni/net.d", *PRIVATE_TREES, "/var/lib/kubelet")
COMMANDS = (
    ["ip", "-o", "link", "show"],
    ["ip", "-o", "address", "show"],
    ["ip", "route", "show", "table", "all"],
    ["iptables-save"],
    ["ip6tables-save"],
)


def traces() -> set[str]:
    """Processes of ours, mounts, cgroups, network settings, packet filter, kernel settings, folders."""
    found = processes()
    found |= {f"mount {line}" for line in Path("/proc/self/mounts").read_text().splitlines()}
    found |= {f"cgroup {path}" for path, _, _ in os.walk("/sys/fs/cgroup")}
    for command in COMMANDS:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        found |= {f"{command[0]} {line}" for line in said.splitlines() if line.startswith(("-", "*")) or command[0] == "ip"}
    for name in (*KERNEL_SETTINGS, "net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet"):
        found.add(f"setting {name} {(Path('/proc/sys') / name).read_text().strip()}")
    for folder in FOLDERS:
        with contextlib.suppress(OSError):
            found |= {f"file {entry.path}" for entry in os.scandir(folder)}
    found |= {f"file {path}" for path in (standard_layout().folder,) if path.exists()}
    return found


def processes() -> set[str]:
    """Every process that runs a program of the test bed or one of our modules, or a container's."""
    mine = (str(cache_folder()), "tests.cluster.keeper", "tests.cluster.watchdog", "/app/demo_app.py", "/pause")
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_text().split("\0")
                if any(word.startswith(mine) for word in words):
                    found.add(f"process {folder.name} {' '.join(words)[:100]}")
    return found
