"""Whether anything speaks HTTP at an address."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest

from loadtest.cluster.probe import probe

if TYPE_CHECKING:
    from tests.sandbox.cluster.conftest import FakeServer

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def test_any_http_answer_counts_even_a_refusal(server: FakeServer) -> None:
    assert await probe(f"{server.url}/version?a=b") == (True, "answered with status 401")


async def test_a_closed_port_is_refused() -> None:
    assert await probe("http://127.0.0.1:1/") == (False, "connection refused")


async def test_an_unknown_name_is_said() -> None:
    assert await probe("http://no-such-host.invalid/") == (False, "its name is not known")


async def test_no_tls_where_it_was_expected_is_said(server: FakeServer) -> None:
    assert await probe(server.url.replace("http:", "https:")) == (False, "no TLS")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "closed without an HTTP answer"),
        (b"SSH-2.0-OpenSSH\r\n", "does not speak HTTP"),
        (b"x" * 20_000, "does not speak HTTP"),
        (None, "no answer within 0.1 s"),
    ],
    ids=["a proxy that accepts before it dials", "another protocol", "a line without an end", "silence"],
)
async def test_a_port_that_only_accepts_does_not_count(answer: bytes | None, says: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readline()
            if answer is None:
                await reader.read()
            writer.write(answer or b"")
        except ConnectionError:
            pass  # the prober has given up
        finally:
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener:
        assert await probe(f"http://127.0.0.1:{port}/", timeout_s=0.1) == (False, says)
