"""A scripted API server without a network, and builders of small objects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from loadtest.errors import ApiError


class ScriptedApi:
    """Implements `ClusterApi`: answers by (method, path); an `ApiError` as an answer is raised. It remembers what was asked."""

    def __init__(self, *, context: str = "somewhere", server: str = "https://api.example.test:6443") -> None:
        self.context = context
        self.namespace = "shop"
        self.server = server
        self.answers: dict[tuple[str, str], Any] = {}
        self.asked: list[tuple[str, str, Mapping[str, Any]]] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        timeout_s: float = 30.0,
    ) -> dict[str, Any]:
        self.asked.append((method, path, {"query": query, "body": body, "content_type": content_type}))
        answer = self.answers.get((method, path), ApiError("not found", status=404, reason="NotFound"))
        answer = answer(body) if callable(answer) else answer
        if isinstance(answer, ApiError):
            raise answer
        return dict(answer)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, read_timeout_s: float | None = None, max_line: int = 1 << 24
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        raise ApiError("not found", status=404)
        yield  # type: ignore[unreachable]  # makes it a generator


def a_deployment(**changes: Any) -> dict[str, Any]:
    """deployment/web in namespace shop, three replicas, revision 7, at rest. `status__x`, `spec__x`, `meta__x` change it."""
    spec: dict[str, Any] = {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web", "tier": "front"}},
            "spec": {"containers": [{"name": "web", "image": "shop:1"}]},
        },
    }
    status: dict[str, Any] = {
        "observedGeneration": 4,
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
    }
    metadata: dict[str, Any] = {
        "name": "web",
        "namespace": "shop",
        "uid": "d-1",
        "generation": 4,
        "annotations": {"deployment.kubernetes.io/revision": "7"},
    }
    places = {"status": status, "spec": spec, "meta": metadata}
    for key, value in changes.items():
        place, _, name = key.partition("__")
        places[place][name] = value
    return {"metadata": metadata, "spec": spec, "status": status}


def a_service(name: str = "web", **spec: Any) -> dict[str, Any]:
    """A ClusterIP Service of app=web with port 80."""
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"app": "web"}, "clusterIP": "10.96.0.7", "ports": [{"port": 80}], **spec},
    }


def a_pod(name: str, *, hash_: str = "", deleted: bool = False, phase: str = "Running", host: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {"app": "web"}}
    if hash_:
        metadata["labels"]["pod-template-hash"] = hash_
        metadata["ownerReferences"] = [{"kind": "ReplicaSet", "uid": f"rs-{hash_}", "controller": True}]
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "status": {"phase": phase, **({"hostIP": host} if host else {})}}


@pytest.fixture
def api() -> ScriptedApi:
    return ScriptedApi()


@pytest.fixture
def deployment() -> Callable[..., dict[str, Any]]:
    return a_deployment


@pytest.fixture
def service() -> Callable[..., dict[str, Any]]:
    return a_service


@pytest.fixture
def pod() -> Callable[..., dict[str, Any]]:
    return a_pod
