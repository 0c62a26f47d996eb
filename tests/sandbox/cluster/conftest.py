"""A small API server over real HTTP on loopback, that can be made to fail in every way a watch must survive."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from loadtest.clock import SystemClock
from loadtest.cluster.client import Api
from loadtest.cluster.kubeconfig import connect
from loadtest.model import Gap, Seen

TOKEN = "a-token-that-nobody-may-see"


class FakeServer:
    """Holds objects of any kind by the path of their collection, keeps a history, and serves lists and watches.

    `second`: how long the server takes a second of `timeoutSeconds` to be, so that tests are quick.
    """

    def __init__(self, second: float = 0.1) -> None:
        self.second = second
        self.port = 0
        self.version = 100
        self.oldest = 100  # history before this is gone
        self.objects: dict[str, dict[str, dict[str, Any]]] = {}
        self.history: list[tuple[int, str, str, dict[str, Any]]] = []
        self.refuse: dict[str, int] = {}  # path to status
        self.expired_as_event = True
        self.expired_after = 0.0  # seconds from a watch's opening to its ERROR event
        self.forget_on_end = False  # compacts the history each time that a watch ends
        self.ended: list[int] = []  # monotonic times of orderly ends
        self.frozen = False
        self.tokens = {TOKEN}
        self.log_parts: list[bytes] = []
        self.log_cut = False
        self.reviews: list[dict[str, Any]] = []
        self.denied: set[str] = set()
        self.requests: list[web.BaseRequest] = []
        self.patches: list[tuple[str, str, Any]] = []
        self.lists = 0
        self.watches: list[web.StreamResponse] = []
        self._transports: list[asyncio.Transport] = []
        self._changed = asyncio.Event()
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._runner = web.ServerRunner(web.Server(self._serve, handler_cancellation=True), shutdown_timeout=0.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Gone: connections are cut and nobody listens."""
        self.cut()
        if self._runner is not None:
            await self._runner.cleanup()

    def put(self, collection: str, name: str, sighting: str = "", **rest: Any) -> dict[str, Any]:
        """Creates or changes an object, as one event."""
        self.version += 1
        known = self.objects.setdefault(collection, {})
        metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(self.version)} | rest.pop("metadata", {})
        kind = sighting or ("MODIFIED" if name in known else "ADDED")
        known[name] = {"metadata": metadata, **rest}
        self._happened(kind, collection, known[name])
        return known[name]

    def delete(self, collection: str, name: str) -> None:
        self.version += 1
        obj = self.objects[collection].pop(name)
        obj = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self.version)}}
        self._happened("DELETED", collection, obj)

    def bookmark(self, collection: str) -> None:
        """Moves the version on without a change, as happens when other kinds change."""
        self.version += 1
        self._happened("BOOKMARK", collection, {"metadata": {"resourceVersion": str(self.version)}})

    def compact(self) -> None:
        """Forgets all history."""
        self.oldest = self.version

    def cut(self, *, half_an_event: bool = False) -> None:
        """Resets every watch's connection."""
        for transport in self._transports:
            if half_an_event:
                transport.write(b'40\r\n{"type":"ADDED","object":')
            sock: socket.socket = transport.get_extra_info("socket")
            if sock.fileno() >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        self._transports.clear()

    def _happened(self, kind: str, collection: str, obj: dict[str, Any]) -> None:
        self.history.append((self.version, collection, kind, obj))
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in self.tokens:
            return _status(401, "Unauthorized", f"no {token}")
        path = request.path
        if path in self.refuse:
            return _status(self.refuse[path], "Forbidden", f"{path} is forbidden: token=hush-hush")
        if path == "/version":
            return web.json_response({"gitVersion": "v1.99.0"})
        if path.endswith("/log"):
            return await self._log(request)
        if request.method == "POST":
            return await self._review(request)
        if request.method == "PATCH":
            self.patches.append((path, request.content_type, await request.json()))
        if "watch" in request.query:
            return await self._watch(request, path)
        if path in self.objects:
            self.lists += 1
            items = list(self.objects[path].values())
            return web.json_response({"metadata": {"resourceVersion": str(self.version)}, "items": items})
        collection, _, name = path.rpartition("/")
        if name in self.objects.get(collection, {}):
            obj = self.objects[collection][name]
            if request.method == "PATCH":
                obj = self.put(collection, name, metadata={"generation": obj["metadata"].get("generation", 1) + 1})
            return web.json_response(obj)
        return _status(404, "NotFound", f"{path} not found")

    async def _review(self, request: web.BaseRequest) -> web.StreamResponse:
        wanted = (await request.json())["spec"]["resourceAttributes"]
        self.reviews.append(wanted)
        name = f"{wanted['verb']} {wanted['resource']}" + (f"/{wanted['subresource']}" if "subresource" in wanted else "")
        return web.json_response({"status": {"allowed": name not in self.denied}}, status=201)

    async def _watch(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        version = int(request.query["resourceVersion"])
        expired = version < self.oldest
        if expired and not self.expired_as_event:
            return _status(410, "Expired", "too old resource version")
        answer = web.StreamResponse()
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        self.watches.append(answer)
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        self._transports.append(transport)
        if expired:
            await asyncio.sleep(self.expired_after)
            error = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            await answer.write(json.dumps({"type": "ERROR", "object": error}).encode() + b"\n")
            return answer
        loop = asyncio.get_running_loop()
        ends = loop.time() + float(request.query["timeoutSeconds"]) * self.second
        sent = version
        try:
            while self.frozen or (left := ends - loop.time()) > 0:
                if self.frozen:
                    await asyncio.sleep(0.01)
                    continue
                for number, collection, kind, obj in list(self.history):
                    if collection == path and number > sent:
                        await answer.write(json.dumps({"type": kind, "object": obj}).encode() + b"\n")
                        sent = number
                changed = self._changed
                if self.history and self.history[-1][0] > sent and self.history[-1][1] == path:
                    continue
                try:
                    await asyncio.wait_for(changed.wait(), left)
                except TimeoutError:
                    break
            if self.forget_on_end:
                self.compact()
            self.ended.append(time.monotonic_ns())
            return answer
        finally:
            if transport in self._transports:
                self._transports.remove(transport)

    async def _log(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        for part in self.log_parts:
            await answer.write(part)
        if self.log_cut:
            self.log_cut = False
            assert isinstance(request.transport, asyncio.Transport)
            await asyncio.sleep(0.02)
            request.transport.abort()
        return answer


def _status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code)


class Record:
    """A sink that tests can wait on."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.epoch_ns = self.clock.monotonic_ns()
        self.all: list[Seen | Gap] = []

    def __call__(self, item: Seen | Gap) -> None:
        self.all.append(item)

    @property
    def sightings(self) -> list[str]:
        """Such as "ADDED web-1"."""
        return [f"{item.sighting} {item.name}" for item in self.all if isinstance(item, Seen)]

    @property
    def gaps(self) -> list[Gap]:
        return [item for item in self.all if isinstance(item, Gap)]

    def now(self) -> int:
        return self.clock.monotonic_ns() - self.epoch_ns


async def eventually(holds: Callable[[], object], within_s: float = 5.0) -> None:
    """Waits until something holds."""
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110 - it looks from outside, at things that know no Event
            await asyncio.sleep(0.005)


def write_kubeconfig(path: Path, server: str, *, user: dict[str, Any] | None = None, namespace: str = "shop") -> Path:
    """A kubeconfig of one context, as JSON, which is YAML too."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
        "users": [{"name": "u", "user": {"token": TOKEN} if user is None else user}],
    }
    path.write_text(json.dumps(config))
    return path


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    fake = FakeServer()
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
async def api(server: FakeServer, tmp_path: Path) -> AsyncIterator[Api]:
    async with await connect(str(write_kubeconfig(tmp_path / "config", server.url))) as connected:
        yield connected


@pytest.fixture
def record() -> Record:
    return Record()


@pytest.fixture
def kubeconfig() -> Callable[..., Path]:
    return write_kubeconfig


@pytest.fixture
def soon() -> Callable[..., Any]:
    return eventually
