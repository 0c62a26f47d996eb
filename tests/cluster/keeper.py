"""The first process in the cluster's namespaces: starts its programs, reaps orphans. `python -m tests.cluster.keeper`.

It gives the namespaces a private look of the file system (nothing that the programs write outside the cluster's folder
reaches the host) and then does what clients of its socket ask, one JSON object per connection:

    {"do": "start", "name": "etcd", "argv": [...], "log": path}   ->  {"pid": 12}
    {"do": "kill", "name": "etcd"}                                ->  {"status": -9}
    {"do": "run", "argv": [...], "stdin": ""}                     ->  {"status": 0, "output": "..."}
    {"do": "list"}                                                ->  {"running": ["etcd"], "ended": {"kubelet": 1}}

It decides nothing. Its own end is the end of every process in the namespaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.cluster import cgroups
from tests.cluster.layout import Layout

PRIVATE_TREES = ("/var/lib", "/var/log", "/opt")
"""Fixed places that kubelet, containerd and CNI write to; an overlay keeps the host's own content readable."""

KERNEL_SETTINGS = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
)  # fmt: skip
"""The kubelet insists on setting these for the whole machine. It gets plain files to write to instead."""


class Keeper:
    """The processes by name. Exit statuses come from one reaping thread: as first process we inherit orphans too."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.pids: dict[str, int] = {}
        self.statuses: dict[int, int] = {}

    def reap(self) -> None:
        """Collects every child that ends, for ever."""
        while True:
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(-1, 0)
                with self.changed:
                    self.statuses[pid] = os.waitstatus_to_exitcode(status)
                    self.changed.notify_all()
                continue
            threading.Event().wait(0.02)

    def spawn(self, argv: list[str], files: dict[int, int]) -> int:
        actions = [(os.POSIX_SPAWN_DUP2, source, target) for target, source in files.items()]
        with self.changed:
            pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions, setsid=True)
            self.statuses.pop(pid, None)  # an orphan's that had the same number long ago
        return pid

    def wait(self, pid: int) -> int:
        with self.changed:
            self.changed.wait_for(lambda: pid in self.statuses)
            return self.statuses.pop(pid)

    def start(self, name: str, argv: list[str], log: str) -> dict[str, Any]:
        with Path(os.devnull).open() as nothing, Path(log).open("ab") as output:
            pid = self.spawn(argv, {0: nothing.fileno(), 1: output.fileno(), 2: output.fileno()})
        self.pids[name] = pid
        return {"pid": pid}

    def kill(self, name: str) -> dict[str, Any]:
        pid = self.pids.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return {"status": self.wait(pid)}

    def run(self, argv: list[str], stdin: str) -> dict[str, Any]:
        reading, writing = os.pipe()
        feed, fed = os.pipe()
        pid = self.spawn(argv, {0: feed, 1: writing, 2: writing})
        os.close(writing)
        os.close(feed)
        with contextlib.suppress(BrokenPipeError), os.fdopen(fed, "w") as pipe:
            pipe.write(stdin)
        with os.fdopen(reading, errors="replace") as pipe:
            output = pipe.read()
        return {"status": self.wait(pid), "output": output}

    def list(self) -> dict[str, Any]:
        with self.changed:
            ended = {name: self.statuses[pid] for name, pid in self.pids.items() if pid in self.statuses}
        return {"running": [name for name in self.pids if name not in ended], "ended": ended}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Does what a client asks; trouble becomes an answer too."""
        try:
            match request:
                case {"do": "start", "name": str(name), "argv": list(argv), "log": str(log)}:
                    return self.start(name, argv, log)
                case {"do": "kill", "name": str(name)}:
                    return self.kill(name)
                case {"do": "run", "argv": list(argv), "stdin": str(stdin)}:
                    return self.run(argv, stdin)
                case {"do": "list"}:
                    return self.list()
        except (OSError, KeyError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {"error": f"unknown request: {request}"}


def make_private(layout: Layout) -> None:
    """Hides from the host, and from its file system, what the programs write outside the cluster's folder."""
    mount("-t", "tmpfs", "private", str(layout.private))
    mount("-t", "tmpfs", "run", "/run")
    for tree in PRIVATE_TREES:
        upper, work = (layout.private / part / tree.strip("/").replace("/", "-") for part in ("upper", "work"))
        upper.mkdir(parents=True)
        work.mkdir(parents=True)
        if Path(tree).is_dir():
            mount("-t", "overlay", "private", "-o", f"lowerdir={tree},upperdir={upper},workdir={work}", tree)
    settings = layout.private / "settings"
    settings.mkdir()
    for name in KERNEL_SETTINGS:
        real, copy = Path("/proc/sys") / name, settings / name.replace("/", "-")
        if real.exists():
            copy.write_text(real.read_text())
            mount("--bind", str(copy), str(real))


def make_cgroup_root() -> None:
    """Mounts the cgroup trees anew, so that the root seen here is the cgroup that we are in."""
    trees = cgroups.hierarchies()
    subprocess.run(["umount", "--recursive", "--lazy", "/sys/fs/cgroup"], check=True)
    if trees[0].controllers:
        mount("-t", "tmpfs", "-o", "mode=755", "cgroup", "/sys/fs/cgroup")
    for tree in trees:
        if not tree.controllers:
            mount("-t", "cgroup2", "cgroup", "/sys/fs/cgroup")
            continue
        tree.mount.mkdir()
        options = f"none,{tree.controllers}" if tree.controllers.startswith("name=") else tree.controllers
        mount("-t", "cgroup", "-o", options, "cgroup", str(tree.mount))
        for name in tree.controllers.removeprefix("name=").split(","):
            with contextlib.suppress(FileExistsError):
                (tree.mount.parent / name).symlink_to(tree.mount.name)


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def main(arguments: list[str]) -> int:
    """`FOLDER`: prepares the namespaces and serves until killed."""
    layout = Layout(folder=Path(arguments[0]))
    for folder in layout.folders():
        folder.mkdir(mode=0o700, exist_ok=True)
    make_private(layout)
    make_cgroup_root()
    keeper = Keeper()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            answer = keeper.answer(json.loads(self.rfile.readline()))
            self.wfile.write(json.dumps(answer).encode() + b"\n")

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True

    threading.Thread(target=keeper.reap, daemon=True).start()
    with Server(str(layout.keeper_socket), Handler) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
