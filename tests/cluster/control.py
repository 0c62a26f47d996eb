"""Talks to the two processes that hold the cluster: the watchdog (lock, down, detach) and the keeper (programs)."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.cluster.layout import LOCK, Layout
from tests.cluster.trouble import ClusterError

PROJECT = Path(__file__).parents[2]
ALREADY_UP = "a cluster is already up on this machine (take it down: python -m tests.cluster down)"


def start_watchdog(layout: Layout) -> subprocess.Popen[bytes]:
    """Starts the watchdog, with this process as the owner, and returns it when the keeper answers.

    Raises ClusterError when another cluster is up, or when the namespaces cannot be made.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server, tempfile.TemporaryFile("w+") as said:
        try:
            server.bind(LOCK)
        except OSError as error:
            raise ClusterError(ALREADY_UP) from error
        server.listen()
        owner = os.pidfd_open(os.getpid())
        try:
            watchdog = subprocess.Popen(
                [sys.executable, "-m", "tests.cluster.watchdog", str(layout.folder), str(owner), str(server.fileno())],
                cwd=PROJECT,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                pass_fds=(owner, server.fileno()),
                start_new_session=True,
            )
        finally:
            os.close(owner)
        try:
            until = time.monotonic() + 15
            while not answers(layout):
                if watchdog.poll() is not None or time.monotonic() > until:
                    said.seek(0)
                    raise ClusterError(f"the namespaces cannot be made: {said.read().strip()[-1500:]}")
                time.sleep(0.01)
        except BaseException:
            watchdog.terminate()
            watchdog.wait(timeout=20)
            raise
        return watchdog


def answers(layout: Layout) -> bool:
    """Whether the keeper is there."""
    try:
        ask_keeper(layout, {"do": "list"})
    except (ClusterError, OSError):
        return False
    return True


def tell_watchdog(word: str, patience: float = 30.0) -> str:
    """Sends `down`, `detach` or `status` and returns the answer: `gone`, `detached` or `owned`; `` if none is there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(patience)
        try:
            client.connect(LOCK)
        except ConnectionRefusedError:
            return ""
        try:
            client.sendall(word.encode())
            return client.recv(16).decode()
        except TimeoutError as error:
            raise ClusterError(f"the watchdog did not answer {word!r} within {patience:.0f} s") from error
        except OSError:
            return ""  # it ended meanwhile, and it does so only when all is gone


def take_down() -> bool:
    """Takes down whatever cluster is up; returns when its last process has ended. False if there was none."""
    pid = tell_watchdog("pid")
    if not pid:
        return False
    try:
        ended = os.pidfd_open(int(pid))
    except ProcessLookupError:
        return True
    try:
        tell_watchdog("down")
        if not select.select([ended], [], [], 20)[0]:
            raise ClusterError(f"the watchdog, process {pid}, does not end")
    finally:
        os.close(ended)
    return True


def ask_keeper(layout: Layout, request: dict[str, Any], patience: float = 60.0) -> dict[str, Any]:
    """One request to the keeper. Raises ClusterError when it is not there or says that it could not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(patience)
        try:
            client.connect(str(layout.keeper_socket))
            client.sendall(json.dumps(request).encode() + b"\n")
            with client.makefile() as reader:
                answer: dict[str, Any] = json.loads(reader.readline() or "{}")
        except OSError as error:
            raise ClusterError(f"the cluster does not answer: {error}") from error
    if "error" in answer or not answer:
        raise ClusterError(f"{request.get('name') or request['do']}: {answer.get('error', 'no answer')}")
    return answer
