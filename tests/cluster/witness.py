"""A witness that is not ours: what the app in the pods counted, by request id, from logs that kubectl follows to their end."""

from __future__ import annotations

import re
import subprocess
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cluster.cluster import Cluster

_LINE = re.compile(r"^(?P<method>[A-Z]+) (?P<path>\S+) (?P<status>\d+|-) .*?\bid=(?P<id>\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A request as a pod's log has it. `status` None: it was never answered."""

    pod: str
    id: str
    status: int | None


class Witness:
    """Follows the log of every pod of `app=web` in a namespace, also of pods that are yet to come."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._folder = folder
        self._followers: dict[str, subprocess.Popen[bytes]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._look_once()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        for follower in self._followers.values():
            follower.terminate()
            follower.wait()

    def served(self) -> list[Served]:
        """Everything that the pods logged so far."""
        found = []
        for file in sorted(self._folder.glob("*.log")):
            for line in file.read_text(errors="replace").splitlines():
                match = _LINE.match(line)
                if match:
                    status = None if match["status"] == "-" else int(match["status"])
                    found.append(Served(pod=file.stem, id=match["id"], status=status))
        return found

    def ids(self, run_id: str) -> Counter[str]:
        """How often each id of a run was seen."""
        return Counter(one.id for one in self.served() if one.id.startswith(f"{run_id}-"))

    def answered(self, run_id: str) -> set[str]:
        """Ids that a pod says it answered."""
        return {one.id for one in self.served() if one.status is not None and one.id.startswith(f"{run_id}-")}

    def unanswered(self, run_id: str) -> set[str]:
        """Ids whose answer a pod says it never finished."""
        return {one.id for one in self.served() if one.status is None and one.id.startswith(f"{run_id}-")}

    def _look(self) -> None:
        while not self._over.wait(0.25):
            self._look_once()

    def _look_once(self) -> None:
        template = '{range .items[?(@.status.phase=="Running")]}{.metadata.name}{"\\n"}{end}'
        found = self._cluster.kubectl(
            "-n", self._namespace, "get", "pods", "-l", "app=web", "-o", f"jsonpath={template}", check=False
        )
        for name in found.split():
            if re.fullmatch(r"web-[a-z0-9-]+", name) and name not in self._followers:
                self._follow(name)

    def _follow(self, name: str) -> None:
        with (self._folder / f"{name}.log").open("wb") as file:
            self._followers[name] = subprocess.Popen(
                [
                    str(self._cluster.binaries.kubectl),
                    f"--kubeconfig={self._cluster.admin_kubeconfig}",
                    "-n",
                    self._namespace,
                    "logs",
                    "--follow",
                    name,
                ],
                stdout=file,
                stderr=subprocess.DEVNULL,
            )
