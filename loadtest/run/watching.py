"""The run's eyes: watches for everything that matters, what they know at this moment, and logs of pods that end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Self

from loadtest.clock import Clock
from loadtest.cluster import logs
from loadtest.cluster.api import ClusterApi
from loadtest.cluster.rollout import new_replicaset, split_pods
from loadtest.cluster.watch import watch
from loadtest.errors import ClusterError
from loadtest.model import Gap, LogLine, Resource, Seen, Sighting
from loadtest.run.prepare import Prepared
from loadtest.store import Note, RunWriter

FIRST_LIST_S = 20.0
LOG_LINES = 2_000
LOG_TAIL = 20


class Watching:
    """Watches as an async context manager; entered once every kind has been listed.

    Args:
        api: the API server.
        prepared: what is watched.
        clock: of the run.
        epoch_ns: the run's start.
        writer: is given every sighting, gap and log line.
    """

    def __init__(self, api: ClusterApi, prepared: Prepared, clock: Clock, epoch_ns: int, writer: RunWriter) -> None:
        self._api = api
        self._prepared = prepared
        self._clock = clock
        self._epoch_ns = epoch_ns
        self._writer = writer
        self._tasks: list[asyncio.Task[None]] = []
        self._logs: dict[str, asyncio.Task[None]] = {}
        self._lines: dict[str, int] = {}
        self.deployment: Mapping[str, Any] = prepared.deployment
        self.replicasets: dict[str, Mapping[str, Any]] = {}
        self.pods: dict[str, Mapping[str, Any]] = {}
        self.changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        target = self._prepared.target
        wanted: list[tuple[Resource, dict[str, Any]]] = [
            (Resource.DEPLOYMENTS, {"name": target.deployment}),
            (Resource.REPLICASETS, {"selector": target.selector}),
            (Resource.PODS, {"selector": target.selector}),
        ]
        if target.service:
            wanted.append((Resource.ENDPOINTSLICES, {"selector": f"kubernetes.io/service-name={target.service}"}))
        else:
            self._writer.put(Note(text="No Service was named: what its endpoints said is not known (--service)."))
        if not {"list events", "watch events"} & set(self._prepared.missing):
            wanted.append((Resource.EVENTS, {"keep_listed": False}))
        ready = [asyncio.Event() for _ in wanted]
        for (resource, how), event in zip(wanted, ready, strict=True):
            self._tasks.append(asyncio.create_task(self._watch(resource, event, how), name=f"watch {resource}"))
        try:
            await self._until_listed(ready)
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._leave()

    def old_pods_alive(self, old_uids: frozenset[str]) -> list[str]:
        """Names of pods that were there at the trigger, are of an older revision, and still exist."""
        new = new_replicaset(self.deployment, self.replicasets.values())
        old, _ = split_pods(self.pods.values(), new)
        return sorted(_name(pod) for pod in old if _uid(pod) in old_uids)

    def failed(self) -> BaseException | None:
        """Why a watch ended by itself, which none should."""
        for task in self._tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                return task.exception()
        return None

    async def _until_listed(self, ready: list[asyncio.Event]) -> None:
        waiting: asyncio.Future[Any] = asyncio.gather(*(event.wait() for event in ready))
        either: list[asyncio.Future[Any]] = [waiting, *self._tasks]
        done, _ = await asyncio.wait(either, timeout=FIRST_LIST_S, return_when=asyncio.FIRST_COMPLETED)
        if waiting in done:
            return
        waiting.cancel()
        failure = self.failed()
        if failure is not None:
            raise failure
        raise ClusterError(f"the API server did not list what is to be watched within {FIRST_LIST_S:g} s", "nothing was sent")

    async def _leave(self) -> None:
        tasks = [*self._tasks, *self._logs.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, resource: Resource, ready: asyncio.Event, how: dict[str, Any]) -> None:
        await watch(
            self._api,
            resource,
            self._prepared.target.namespace,
            clock=self._clock,
            epoch_ns=self._epoch_ns,
            sink=self._take,
            ready=ready,
            **how,
        )

    def _take(self, value: Seen | Gap) -> None:
        if isinstance(value, Seen):
            if value.resource is Resource.EVENTS and not self._is_ours(value.object):
                return
            self._know(value)
        self._writer.put(value)
        self.changed.set()

    def _is_ours(self, event: Mapping[str, Any]) -> bool:
        """Events of the Deployment, its ReplicaSets and pods: their names begin with its own."""
        name = str((event.get("involvedObject") or {}).get("name", ""))
        deployment = self._prepared.target.deployment
        return name == deployment or name.startswith(f"{deployment}-")

    def _know(self, seen: Seen) -> None:
        gone = seen.sighting in (Sighting.DELETED, Sighting.VANISHED)
        if seen.resource is Resource.DEPLOYMENTS and not gone:
            self.deployment = seen.object
        held = {Resource.REPLICASETS: self.replicasets, Resource.PODS: self.pods}.get(seen.resource)
        if held is None:
            return
        if gone:
            held.pop(seen.uid, None)
        else:
            held[seen.uid] = seen.object
        if seen.resource is Resource.PODS and (seen.object.get("metadata") or {}).get("deletionTimestamp"):
            self._follow_log(seen)

    def _follow_log(self, seen: Seen) -> None:
        """Logs vanish with the pod, so they are followed from its deletion to its end."""
        scenario = self._prepared.scenario
        if not scenario.logs or "get pods/log" in self._prepared.missing or seen.uid in self._logs:
            return
        containers = (seen.object.get("spec") or {}).get("containers") or []
        if containers:
            container = str(containers[0].get("name", ""))
            self._logs[seen.uid] = asyncio.create_task(self._log(seen.name, seen.uid, container), name=f"log {seen.name}")

    async def _log(self, pod: str, uid: str, container: str) -> None:
        trouble = await logs.follow(
            self._api,
            self._prepared.target.namespace,
            pod,
            container,
            uid=uid,
            clock=self._clock,
            epoch_ns=self._epoch_ns,
            sink=self._take_line,
            tail=LOG_TAIL,
        )
        if trouble:
            self._writer.put(Note(text=f"The log's end is missing: {trouble}"))

    def _take_line(self, line: LogLine) -> None:
        count = self._lines[line.uid] = self._lines.get(line.uid, 0) + 1
        if count <= LOG_LINES:
            self._writer.put(line)
        elif count == LOG_LINES + 1:
            self._writer.put(Note(text=f"Of the log of {line.pod} only the first {LOG_LINES} lines since its deletion are kept."))


def _name(obj: Mapping[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("name", ""))


def _uid(obj: Mapping[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("uid", ""))
