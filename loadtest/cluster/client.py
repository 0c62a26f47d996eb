"""Speaks to the API server: every request to it goes through here.

Authentication, TLS and proxies come from the client of the `kubernetes` package that `kubeconfig.connect` has set up; its
models are not used, because decoding a pod with them takes fourteen times as long as `json.loads`.

Errors of aiohttp, ssl and sockets become an `ApiError` here and nowhere else.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Self

import aiohttp

from loadtest.cluster.api import JSON, LOST, SILENT, UNREACHABLE, is_loopback
from loadtest.cluster.mask import mask
from loadtest.errors import ApiError

_CONNECT_S = 5.0
_LONGEST_MESSAGE = 256


class Api:
    """The real API server. Made by `kubeconfig.connect`; close it, or use it as an async context manager.

    Args:
        client: the package's `ApiClient`.
        context, namespace, server: as in `ClusterApi`.
        renew: gets new credentials after a 401 and says whether it has some.
    """

    def __init__(
        self, client: Any, *, context: str, namespace: str, server: str, renew: Callable[[], Awaitable[bool]] | None = None
    ) -> None:
        self._client = client
        self._context = context
        self._namespace = namespace
        self._server = server
        self._renew = renew
        self._connector: aiohttp.TCPConnector | None = None

    @property
    def context(self) -> str:
        """Name of the kubeconfig's context; "in-cluster" for a pod's own account."""
        return self._context

    @property
    def namespace(self) -> str:
        """The context's namespace, or "default"."""
        return self._namespace

    @property
    def server(self) -> str:
        """URL of the API server, without user information."""
        return self._server

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes every connection."""
        await self._client.close()
        if self._connector is not None:
            await self._connector.close()

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
        """See `ClusterApi.request`."""
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=_CONNECT_S)
        try:
            response = await self._send(method, path, query, body, content_type, timeout)
            data = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise self._no_answer(error) from error
        return self._object(response.status, data)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        read_timeout_s: float | None = None,
        max_line: int = 1 << 24,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `ClusterApi.stream`."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=read_timeout_s)
        try:
            response = await self._send("GET", path, query, None, JSON, timeout)
            if response.status >= 400:
                self._object(response.status, await response.read())
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise self._no_answer(error) from error
        try:
            async with aclosing(self._lines(response, max_line)) as lines:
                yield lines
        finally:
            response.close()  # not release(): the rest of an endless answer is not wanted

    async def _lines(self, response: aiohttp.ClientResponse, max_line: int) -> AsyncGenerator[bytes, None]:
        rest = b""
        try:
            async for chunk in response.content.iter_any():
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line[:max_line]
                if len(rest) > max_line:
                    # One byte over the limit is kept, to know that the line goes on without holding all of it.
                    rest = rest[: max_line + 1]
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise self._no_answer(error) from error
        if rest:
            yield rest[:max_line]

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        content_type: str,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        self._prepare()
        response = await self._send_once(method, path, query, body, content_type, timeout)
        if response.status == 401 and self._renew is not None and await self._renew():
            response.release()
            response = await self._send_once(method, path, query, body, content_type, timeout)
        return response

    async def _send_once(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        content_type: str,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        serialized = await self._client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": JSON + ", */*", "Content-Type": content_type},
            body=dict(body) if body is not None else None,
            auth_settings=["BearerToken"],
        )
        answer = await self._client.call_api(*serialized, _request_timeout=timeout)
        response: aiohttp.ClientResponse = answer.response
        return response

    def _prepare(self) -> None:
        """Gives the package's session a connector that notices a dead peer; before the first request."""
        if self._connector is not None:
            return
        # limit 0: each watch and each followed log holds a connection for as long as the run lasts.
        self._connector = aiohttp.TCPConnector(limit=0, ssl=self._client.rest_client.ssl_context, socket_factory=_watchful_socket)
        self._client.configuration.client_session_kwargs = {
            "connector": self._connector,
            # A proxy from the environment is for the world outside: kubectl too leaves it out for loopback.
            "trust_env": not is_loopback(self._server),
        }

    def _object(self, status: int, data: bytes) -> dict[str, Any]:
        try:
            parsed = json.loads(data) if data else {}
        except ValueError:
            parsed = None
        if status >= 400:
            raise self._refused(status, parsed)
        if not isinstance(parsed, dict):
            raise ApiError(
                f"{self._server} does not answer as a Kubernetes API server does",
                "is the server in the kubeconfig right?",
                status=status,
            )
        return parsed

    def _refused(self, status: int, answer: object) -> ApiError:
        """An answer of 400 or more. Only a `Status` object's own message is passed on, cut short."""
        message = reason = ""
        if isinstance(answer, dict) and answer.get("kind") == "Status":
            message = " ".join(mask(str(answer.get("message", ""))).split())[:_LONGEST_MESSAGE]
            reason = str(answer.get("reason", ""))
        if status == 401:
            return ApiError(
                f"the API server does not accept the credentials of context {self._context!r}",
                f"try: kubectl --context {self._context} auth whoami",
                status=status,
                reason=reason or "Unauthorized",
            )
        hint = "loadtest access shows the rights a run needs" if status == 403 else ""
        return ApiError(message or f"the API server answered with status {status}", hint, status=status, reason=reason)

    def _no_answer(self, error: Exception) -> Exception:
        if isinstance(error, ApiError):
            return error
        hint = f"try: kubectl --context {self._context} version"
        where = f"the API server {self._server}"
        if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
            return ApiError(f"the certificate of {where} is not trusted", hint, reason=UNREACHABLE)
        if isinstance(error, aiohttp.ClientConnectorSSLError | ssl.SSLError):
            return ApiError(f"no TLS connection to {where}", hint, reason=UNREACHABLE)
        if isinstance(error, aiohttp.ClientConnectorDNSError | socket.gaierror):
            return ApiError(f"cannot reach {where}: its name is not known", hint, reason=UNREACHABLE)
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return ApiError(f"cannot reach {where}: no connection within {_CONNECT_S:g} s", hint, reason=UNREACHABLE)
        if isinstance(error, aiohttp.ClientConnectorError):
            return ApiError(f"cannot reach {where}: {_words(error.os_error)}", hint, reason=UNREACHABLE)
        if isinstance(error, TimeoutError) or _is_timeout(error):
            return ApiError(f"nothing came from {where} in time", hint, reason=SILENT)
        if isinstance(error, aiohttp.InvalidURL):
            return ApiError(f"{self._server!r} is no URL of an API server", "see `server` in the kubeconfig")
        return ApiError(f"the connection to {where} was cut", hint, reason=LOST)


def _words(error: OSError) -> str:
    # Not strerror: asyncio puts its own words and the address there.
    return os.strerror(error.errno).lower() if error.errno else "no connection"


def _is_timeout(error: BaseException) -> bool:
    """Whether the kernel gave the connection up because keep-alive probes were not answered (ETIMEDOUT)."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, TimeoutError):
            return True
        seen = seen.__cause__
    return False


def _watchful_socket(address: Any) -> socket.socket:
    """A socket that finds out within about ten seconds that its peer has silently gone.

    A watch may rightly be silent for as long as nothing happens, so the read timeout alone is slow to notice.
    """
    family, kind, proto, _, _ = address
    made = socket.socket(family=family, type=kind, proto=proto)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 4), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
