"""Reads kube-proxy's log: when each sync of its rules began and ended. That end is when the kernel knows."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

LINE = re.compile(r'^I(\d\d)(\d\d) (\d\d:\d\d:\d\d\.\d{6})\s.*"(Syncing iptables rules|SyncProxyRules complete)".*IPv4')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProxySync:
    """One sync of the IPv4 rules, in Unix seconds with microseconds."""

    started: float
    ended: float


def read_proxy_log(path: Path) -> list[ProxySync]:
    """Every sync that the log (of verbosity 2, in UTC) shows from beginning to end."""
    text = path.read_text(errors="replace") if path.exists() else ""
    return parse(text.splitlines(), datetime.now(UTC))


def parse(lines: Iterable[str], now: datetime) -> list[ProxySync]:
    """The log's stamps have no year: each is taken to be the last such moment before `now`."""
    syncs: list[ProxySync] = []
    started: float | None = None
    for line in lines:
        found = LINE.match(line)
        if not found:
            continue
        month, day, clock, words = found.groups()
        year = now.year if (int(month), int(day)) <= (now.month, now.day) else now.year - 1
        moment = datetime.fromisoformat(f"{year}-{month}-{day}T{clock}+00:00").timestamp()
        if words.startswith("Syncing"):
            started = moment
        elif started is not None:
            syncs.append(ProxySync(started=started, ended=moment))
            started = None
    return syncs


def applied(syncs: Iterable[ProxySync], written: float) -> float | None:
    """X: the end of the first sync that started after a slice update was written (Unix seconds); None if not yet."""
    return next((sync.ended for sync in syncs if sync.started >= written), None)
