"""What this room asks of an API server, as raw JSON, and what it says when no answer comes.

Two implementations: `client.Api`, made by `kubeconfig.connect`, and a scripted one in the tests. An `ApiError` without an
answer (`status` 0) has one of our own reasons: `SILENT`, `LOST` or `UNREACHABLE`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol
from urllib.parse import urlsplit

from loadtest.cluster import paths
from loadtest.model import Resource

JSON = "application/json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"

SILENT = "Silent"
"""`ApiError.reason`: nothing came within the read timeout; the connection may have been dead since its last byte."""

LOST = "ConnectionLost"
"""`ApiError.reason`: the connection was cut in the middle of an answer."""

UNREACHABLE = "Unreachable"
"""`ApiError.reason`: no connection, or none that TLS accepts."""


class ClusterApi(Protocol):
    """What this room asks of an API server."""

    @property
    def context(self) -> str:
        """Name of the kubeconfig's context; "in-cluster" for a pod's own account."""
        ...

    @property
    def namespace(self) -> str:
        """The context's namespace, or "default"."""
        ...

    @property
    def server(self) -> str:
        """URL of the API server, without user information."""
        ...

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
        timeout_s: float = 30.0,
    ) -> dict[str, Any]:
        """One request and its JSON object.

        Raises:
            ApiError: for every status from 400 on, and when no whole answer came.
        """
        ...

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        read_timeout_s: float | None = None,
        max_line: int = 1 << 24,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """A GET whose answer is read line by line as it comes.

        Entering returns once the server has accepted (its status line and headers are there). Lines come without their
        newline, cut at `max_line` bytes; the last one needs no newline. The iterator ends when the server ends the answer
        in order.

        Raises:
            ApiError: on entering, as `request` does; while iterating with `SILENT` when nothing came for `read_timeout_s`
                seconds, and with `LOST` when the connection was cut.
        """
        ...


def is_loopback(url: str) -> bool:
    """Whether a URL's host is this machine itself."""
    host = (urlsplit(url).hostname or "").lower()
    return host == "localhost" or host == "::1" or host.startswith("127.")


async def get(api: ClusterApi, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
    """One object, untrimmed."""
    return await api.request("GET", paths.single(resource, namespace, name))


async def list_all(api: ClusterApi, resource: Resource, namespace: str, *, selector: str = "") -> list[dict[str, Any]]:
    """All objects of a kind in a namespace that a label selector matches, untrimmed."""
    query = {"labelSelector": selector} if selector else {}
    answer = await api.request("GET", paths.collection(resource, namespace), query=query)
    return list(answer.get("items") or [])


async def server_version(api: ClusterApi) -> str:
    """The API server's `gitVersion`, such as `v1.31.2`, or "" when it does not say."""
    return str((await api.request("GET", paths.VERSION)).get("gitVersion", ""))
