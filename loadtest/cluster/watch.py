"""Keeps looking at one kind of object, and owns up to every moment in which it could not.

List, then watch from the list's resourceVersion with bookmarks. A watch that the server ends in order is opened again where
it stopped: nothing is lost, so it is no gap. Everything else is: a cut connection, a silent one, an API server that is away,
a history that is too old (410), after which the list is compared with what was known. Gaps go to the same sink as sightings;
the one still open when the watch is cancelled goes there last.

Source: "Kubernetes API Concepts", efficient detection of changes, 410 Gone, watch bookmarks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from loadtest.clock import Clock
from loadtest.cluster import paths
from loadtest.cluster.api import LOST, SILENT, ClusterApi
from loadtest.cluster.trim import trim
from loadtest.errors import ApiError
from loadtest.model import Gap, Resource, Seen, Sighting

Sink = Callable[[Seen | Gap], None]

_SIGHTINGS = {"ADDED": Sighting.ADDED, "MODIFIED": Sighting.MODIFIED, "DELETED": Sighting.DELETED}
_START_OVER = frozenset({400, 410, 504})
"""Statuses of a watch that say its resourceVersion is of no use: too old, not understood, or from the future (a restored
or restarted server)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The times of a watch, in seconds.

    Attributes:
        server_timeout: after which the server ends a watch in order. It sends a bookmark two seconds before
            (apiserver `cache_watcher.go`, nextBookmarkTime), so this is also the longest silence of a living watch.
        read_timeout: silence after which the connection counts as dead; more than `server_timeout`.
        patience: how long after an orderly end the next watch may take to open without being a gap.
        back_off: (first, longest) wait between attempts; doubled in between.
    """

    server_timeout: int = 20
    read_timeout: float = 25.0
    patience: float = 1.0
    back_off: tuple[float, float] = (0.1, 1.0)


async def watch(
    api: ClusterApi,
    resource: Resource,
    namespace: str,
    *,
    clock: Clock,
    epoch_ns: int,
    sink: Sink,
    ready: asyncio.Event | None = None,
    selector: str = "",
    name: str = "",
    keep_listed: bool = True,
    pace: Pace | None = None,
) -> None:
    """Watches until it is cancelled.

    Args:
        api: the API server.
        resource: the kind.
        namespace: where.
        clock: of the run.
        epoch_ns: the run's start on that clock.
        sink: is given every sighting (trimmed) and every gap, in order; must not block.
        ready: is set when the first list has been given to the sink.
        selector: label selector. An object that stops matching is seen as DELETED.
        name: only the object of this name.
        keep_listed: False: what is there at the begin is not given to the sink (old Events).
        pace: its times; None: the defaults.

    Raises:
        ApiError: when the first list fails (403: no right to; 404: no such kind). Never later.
    """
    query = {"labelSelector": selector} if selector else {}
    if name:
        query["fieldSelector"] = f"metadata.name={name}"
    watching = _Watch(api, resource, namespace, query, clock, epoch_ns, sink, pace or Pace())
    await watching.look(quietly=not keep_listed)
    if ready is not None:
        ready.set()
    await watching.follow_on()


class _ExpiredError(Exception):
    """The server says that the watch cannot go on from where it was."""


class _Watch:
    """One watch: what it knows, how far it has come, since when it is blind."""

    def __init__(
        self,
        api: ClusterApi,
        resource: Resource,
        namespace: str,
        query: Mapping[str, str],
        clock: Clock,
        epoch_ns: int,
        sink: Sink,
        pace: Pace,
    ) -> None:
        self._api = api
        self._resource = resource
        self._path = paths.collection(resource, namespace)
        self._query = dict(query)
        self._clock = clock
        self._epoch_ns = epoch_ns
        self._sink = sink
        self._pace = pace
        self._known: dict[str, tuple[str, dict[str, Any]]] = {}  # uid to (resourceVersion, trimmed object)
        self._version = ""  # where to watch from; "": list first
        self._alive = 0  # last sign of life
        self._blind_since: int | None = None
        self._why = ""  # "" while the blindness is only the step from one watch to the next
        self._failures = 0
        self._started_over = False  # since the last watch that was of use

    def _now(self) -> int:
        return self._clock.monotonic_ns() - self._epoch_ns

    async def look(self, *, quietly: bool = False) -> None:
        """Lists, compares with what was known, and gives the sink what is new, changed or gone."""
        answer = await self._api.request("GET", self._path, query=self._query)
        seen = self._now()
        found: dict[str, tuple[str, dict[str, Any]]] = {}
        for item in answer.get("items") or ():
            uid, version = _identity(item)
            found[uid] = (version, trim(item))
        for uid, (_, obj) in self._known.items():
            if uid not in found:
                self._give(seen, Sighting.VANISHED, obj)
        for uid, (version, obj) in found.items():
            if not quietly and (uid not in self._known or self._known[uid][0] != version):
                self._give(seen, Sighting.LISTED, obj)
        self._known = found
        self._version = str((answer.get("metadata") or {}).get("resourceVersion") or "0")
        if self._blind_since is None:
            self._blind_since = seen

    async def follow_on(self) -> None:
        """Watches, and watches again, until cancelled."""
        try:
            while True:
                try:
                    if not self._version:
                        await self.look()
                    if await self._follow():
                        continue
                except _ExpiredError as error:
                    self._version = ""
                    self._why = str(error)
                    if not self._started_over:  # usual after a restart of the API server: no reason to wait
                        self._started_over = True
                        continue
                except ApiError as error:
                    self._lose(error)
                self._failures += 1
                first, longest = self._pace.back_off
                await self._clock.sleep(min(longest, first * 2 ** min(self._failures - 1, 10)))
        finally:
            self._see(self._now())

    async def _follow(self) -> bool:
        """One watch, to its orderly end. Returns whether the next may be opened at once."""
        query = self._query | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(self._pace.server_timeout),
        }
        async with self._api.stream(self._path, query=query, read_timeout_s=self._pace.read_timeout) as lines:
            was_blind_since = self._blind_since
            opened = self._alive = self._now()
            was_gap = self._see(opened)
            try:
                lived = await self._read(lines)
            except _ExpiredError:
                self._blind_since = self._now()
                if self._alive == opened:  # its first word: so it saw nothing at all since it was opened
                    self._blind_since = opened if was_gap or was_blind_since is None else was_blind_since
                raise
        self._blind_since, self._why = self._now(), ""
        if not lived and self._blind_since - opened < self._pace.back_off[1] * 1e9:
            return False  # a server that hangs up at once is not asked again at once
        self._failures, self._started_over = 0, False
        return True

    async def _read(self, lines: AsyncIterator[bytes]) -> bool:
        """Takes in events until the stream ends. Returns whether there were any."""
        lived = False
        async for line in lines:
            if not line.strip():
                continue
            seen = self._now()
            self._take(_parse(line), seen)
            self._alive, self._failures, self._started_over, lived = seen, 0, False, True
        return lived

    def _take(self, event: Mapping[str, Any], seen: int) -> None:
        kind, obj = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            raise _ExpiredError(f"the server ended the watch: {obj.get('reason') or obj.get('code') or 'error'}")
        uid, version = _identity(obj)
        self._version = version or self._version
        if kind == "BOOKMARK" or kind not in _SIGHTINGS:
            return
        kept = trim(obj)
        if kind == "DELETED":
            self._known.pop(uid, None)
        else:
            self._known[uid] = (version, kept)
        self._give(seen, _SIGHTINGS[kind], kept)

    def _lose(self, error: ApiError) -> None:
        if self._blind_since is None:
            self._blind_since = self._alive if error.reason == SILENT else self._now()
        # The server's own sentence names accounts; the status is enough.
        self._why = f"the API server answered {error.status} {error.reason}".rstrip() if error.status else error.message
        if error.status in _START_OVER:
            self._version = ""

    def _see(self, now: int) -> bool:
        """Ends a blindness. Returns whether it was a gap: something went wrong, or it was longer than a step may take."""
        start, why = self._blind_since, self._why
        self._blind_since, self._why = None, ""
        if start is None or (not why and now - start <= self._pace.patience * 1e9):
            return False
        reason = why or "the next watch was slow to open"
        self._sink(Gap(start=start, end=now, resource=self._resource.value, reason=reason))
        return True

    def _give(self, seen: int, sighting: Sighting, obj: Mapping[str, Any]) -> None:
        self._sink(Seen(seen=seen, resource=self._resource, sighting=sighting, object=obj))


def _identity(obj: Mapping[str, Any]) -> tuple[str, str]:
    metadata = obj.get("metadata") or {}
    return str(metadata.get("uid") or metadata.get("name") or ""), str(metadata.get("resourceVersion") or "")


def _parse(line: bytes) -> Mapping[str, Any]:
    try:
        event = json.loads(line)
    except ValueError as error:
        raise ApiError("the API server's watch was cut in the middle of an event", reason=LOST) from error
    return event if isinstance(event, dict) else {}
