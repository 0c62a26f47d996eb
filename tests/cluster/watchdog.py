"""The process that takes the cluster down, started before anything else: `python -m tests.cluster.watchdog`.

What it watches over lies in namespaces of its own: processes, mounts, network, cgroups. Their first process is the
keeper, and when that one is killed the kernel ends every other process, mount and interface in them. The chain holds
whatever dies first:

- the owner (pytest, or the command `up`) ends without having handed over: the watchdog kills the keeper;
- the watchdog is killed: the kernel kills `unshare` (parent death signal), which takes the keeper with it;
- the keeper dies: all is gone but empty cgroups and a folder, which the watchdog removes, or else the next `up`.

It listens on an abstract socket, which is the lock too. A client sends one word: `down` (answered when all is gone),
`detach` (the owner may end from now on), `status` or `pid`.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

from tests.cluster import cgroups
from tests.cluster.layout import HOST_ADDRESS, HOST_LINK, NODES, POD_RANGE, SERVICE_RANGE, Layout

ADMINISTRATORS_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def main(arguments: list[str]) -> int:
    """`FOLDER OWNER_FD SOCKET_FD`: serves until the cluster is to go, clears it away and returns 0."""
    layout = Layout(folder=Path(arguments[0]))
    owner, server = int(arguments[1]), socket.socket(fileno=int(arguments[2]))
    os.set_inheritable(owner, False)
    server.set_inheritable(False)
    wakeup, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    clear(layout)
    waiting: list[socket.socket] = []
    namespaces: subprocess.Popen[bytes] | None = None
    try:
        namespaces = start_keeper(layout)
        waiting = watch(owner, server, wakeup, namespaces.pid)
    finally:
        if namespaces is not None:
            kill_keeper(namespaces)
        clear(layout)
        for client in waiting:
            with contextlib.suppress(OSError):
                client.sendall(b"gone")
    return 0


def watch(owner: int, server: socket.socket, wakeup: int, keeper: int) -> list[socket.socket]:
    """Waits until the cluster has to go: asked to, a signal, the owner's or the keeper's end.

    Returns the clients that want to hear when all is gone.
    """
    poll = select.poll()
    for descriptor in (owner, server.fileno(), wakeup, os.pidfd_open(keeper)):
        poll.register(descriptor, select.POLLIN)
    detached = False
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if ready - {owner, server.fileno()} or (owner in ready and not detached):
            return []
        if owner in ready:
            poll.unregister(owner)
        if server.fileno() in ready:
            client, _ = server.accept()
            word = ask(client)
            if word == "down":
                return [client]
            detached = detached or word == "detach"
            answer = str(os.getpid()) if word == "pid" else "detached" if detached else "owned"
            with contextlib.suppress(OSError):
                client.sendall(answer.encode())
            client.close()


def ask(client: socket.socket) -> str:
    """The client's word, if the client is root: anyone may connect to an abstract socket."""
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    client.settimeout(1.0)
    try:
        return client.recv(16).decode() if user == 0 else ""
    except OSError:
        return ""


def start_keeper(layout: Layout) -> subprocess.Popen[bytes]:
    """Enters our cgroups, then new namespaces, and runs the keeper as their first process; links the host to them."""
    joins = " ".join(str(file) for file in cgroups.create())
    command = [
        "sh", "-c", f'for group in {joins}; do echo 0 > "$group"; done; exec "$@"', "sh",
        "setpriv", "--pdeathsig", "KILL",
        "unshare", "--pid", "--fork", "--kill-child=KILL", "--mount", "--propagation", "private", "--net", "--ipc",
        "--cgroup", "--mount-proc",
        sys.executable, "-m", "tests.cluster.keeper", str(layout.folder),
    ]  # fmt: skip
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{ADMINISTRATORS_PATH}", "TZ": "UTC"}
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
    own = Path("/proc/self/ns/net").readlink()
    while process.poll() is None and Path(f"/proc/{process.pid}/ns/net").readlink() == own:
        time.sleep(0.005)
    host_link = ["type", "veth", "peer", "name", "uplink", "netns", str(process.pid)]
    for words in (
        ["link", "add", HOST_LINK, *host_link],
        ["address", "add", f"{HOST_ADDRESS}/24", "dev", HOST_LINK],
        ["link", "set", HOST_LINK, "up"],
        # Pods and Services lead into the cluster and nowhere else; these routes vanish with the link.
        ["route", "add", SERVICE_RANGE, "via", NODES[0].address, "dev", HOST_LINK],
        ["route", "add", POD_RANGE, "via", NODES[0].address, "dev", HOST_LINK],
    ):
        subprocess.run(["ip", *words], check=True, env=environment)
    cgroups.make_leaf()
    return process


def kill_keeper(namespaces: subprocess.Popen[bytes]) -> None:
    """Kills the first process of the namespaces; returns when the kernel has ended every other one in them."""
    with contextlib.suppress(OSError, ValueError):
        children = Path(f"/proc/{namespaces.pid}/task/{namespaces.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        namespaces.wait(timeout=10)
    namespaces.kill()
    namespaces.wait()


def clear(layout: Layout) -> None:
    """Removes what a cluster leaves on the host once its processes are gone. Nothing to do is fine."""
    subprocess.run(["ip", "link", "delete", HOST_LINK], stderr=subprocess.DEVNULL, check=False)
    cgroups.remove()
    shutil.rmtree(layout.folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
