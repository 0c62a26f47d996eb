"""Looks whether this machine can run the cluster, before anything is started or built."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from pathlib import Path

from tests.cluster import cgroups
from tests.cluster.layout import HOST_LINK, SUBNET
from tests.cluster.trouble import CannotRunError

CNI_PLUGINS = Path("/usr/lib/cni")
PROGRAMS = {
    "runc": "runc",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ipset": "ipset",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
    "openssl": "openssl",
    "busybox": "busybox-static",
}
"""Program to Debian package."""


def check() -> None:
    """Raises CannotRunError, one line that names everything missing, unless the cluster can run here."""
    if sys.platform != "linux":
        raise CannotRunError(f"the test cluster needs Linux (this is {sys.platform})")
    if os.geteuid() != 0:
        raise CannotRunError("the test cluster needs root (namespaces, mounts, cgroups)")
    lacking = [f"{program} (Debian package {package})" for program, package in PROGRAMS.items() if not found(program)]
    lacking += [
        f"CNI plugin {plugin} (Debian package containernetworking-plugins)"
        for plugin in ("bridge", "host-local", "portmap", "loopback")
        if not (CNI_PLUGINS / plugin).is_file()
    ]
    lacking += cgroups.lacking()
    if "overlay" not in Path("/proc/filesystems").read_text():
        lacking.append("overlay file system in the kernel")
    if lacking:
        raise CannotRunError("the test cluster lacks " + ", ".join(lacking))
    if address_in_use():
        raise CannotRunError(f"the test cluster needs the network {SUBNET}.0/24, which this machine already uses")


def found(program: str) -> bool:
    """Whether the program is there, also where the administrator's folders are not in PATH."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is not None


def address_in_use() -> bool:
    """Whether a route of this machine, other than the default one, leads to our addresses already.

    An interface left by our own crashed run is no obstacle: the next `up` removes it.
    """
    prefix = socket.inet_aton(f"{SUBNET}.0")[::-1].hex().upper()
    rows = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    return any(row[1] == prefix and row[0] != HOST_LINK for row in rows)
