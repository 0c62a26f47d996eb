"""Runs the tool against the cluster, as a user would: as a program, with the rights it says it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from loadtest.analyze.conclude import conclude
from loadtest.model import RunResult, StoredRun
from loadtest.store import read_run
from tests.laws import assert_laws

ROOT = Path(__file__).parents[2]
QUICK = ("--warmup", "2s", "--baseline", "4s", "--settle", "7s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A finished run of the tool."""

    code: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def run(self) -> StoredRun:
        """What it stored."""
        return read_run(self.folder)

    @property
    def result(self) -> RunResult:
        """What it concluded, and the laws with it."""
        run = self.run
        result = conclude(run)
        assert_laws(run, result)
        return result


def command(kubeconfig: Path, folder: Path, *flags: str, workload: str = "deployment/web") -> list[str]:
    """The command line of a run on `deployment/web`."""
    words = ["run", workload, "--kubeconfig", str(kubeconfig), "--yes", "--out", str(folder), *flags]
    return [sys.executable, "-m", "loadtest", *words]


def start(kubeconfig: Path, folder: Path, *flags: str) -> subprocess.Popen[str]:
    """Starts a run in a process group of its own."""
    return subprocess.Popen(
        command(kubeconfig, folder, *flags),
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], folder: Path, timeout: float = 180.0) -> Ran:
    """Waits for a run."""
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    return Ran(code=process.returncode, stdout=stdout, stderr=stderr, folder=folder)


def run(kubeconfig: Path, folder: Path, *flags: str, timeout: float = 180.0) -> Ran:
    """A whole run."""
    return finish(start(kubeconfig, folder, *flags), folder, timeout)


def call(*words: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Any command of the tool."""
    return subprocess.run(
        [sys.executable, "-m", "loadtest", *words],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def environment() -> dict[str, str]:
    """Ours, without a kubeconfig of somebody else."""
    return {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
