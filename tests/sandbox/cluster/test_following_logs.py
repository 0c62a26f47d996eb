"""A container's log over real HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from loadtest.cluster.client import Api
from loadtest.cluster.logs import LONGEST_LINE, follow
from loadtest.model import LogLine

if TYPE_CHECKING:
    from tests.sandbox.cluster.conftest import FakeServer, Record


async def lines_of(api: Api, record: Record) -> tuple[list[LogLine], str]:
    lines: list[LogLine] = []
    note = await follow(api, "shop", "web-1", "web", uid="u", clock=record.clock, epoch_ns=record.epoch_ns, sink=lines.append)
    return lines, note


async def test_a_log_is_followed_to_its_end(server: FakeServer, api: Api, record: Record) -> None:
    server.log_parts = [b"2026-01-01T00:00:00.1Z hel", b"lo\n2026-01-01T00:00:00.2Z \x1b[1mbye"]
    lines, note = await lines_of(api, record)

    assert [(line.stamp, line.text) for line in lines] == [
        ("2026-01-01T00:00:00.1Z", "hello"),
        ("2026-01-01T00:00:00.2Z", "\x1b[1mbye"),
    ]
    assert note == ""
    query = server.requests[-1].query
    assert dict(query) == {"container": "web", "follow": "true", "timestamps": "true", "tailLines": "0"}


async def test_a_cut_log_goes_on_behind_its_last_line(server: FakeServer, api: Api, record: Record) -> None:
    server.log_parts = [b"2026-01-01T00:00:00.1Z one\n"]
    server.log_cut = True
    lines, note = await lines_of(api, record)

    assert [line.text for line in lines] == ["one"]
    assert note == ""
    assert server.requests[-1].query["sinceTime"] == "2026-01-01T00:00:00.1Z"
    assert "tailLines" not in server.requests[-1].query


async def test_a_line_of_many_megabytes_is_cut_and_the_next_one_is_whole(server: FakeServer, api: Api, record: Record) -> None:
    server.log_parts = [b"2026-01-01T00:00:00.1Z ", *[b"x" * 1_000_000] * 6, b"\n2026-01-01T00:00:00.2Z next\n"]
    lines, _ = await lines_of(api, record)

    assert [len(line.text) for line in lines] == [LONGEST_LINE, 4]


async def test_a_log_that_may_not_be_read_is_a_note(server: FakeServer, api: Api, record: Record) -> None:
    server.refuse["/api/v1/namespaces/shop/pods/web-1/log"] = 403
    lines, note = await lines_of(api, record)

    assert lines == []
    assert note.startswith("log of web-1/web: ")


async def test_a_pod_that_is_gone_has_no_log_and_that_is_no_trouble(server: FakeServer, api: Api, record: Record) -> None:
    server.refuse["/api/v1/namespaces/shop/pods/web-1/log"] = 404

    assert await lines_of(api, record) == ([], "")


async def test_a_restarting_api_server_that_refuses_for_a_while_does_not_end_a_log(
    server: FakeServer, api: Api, record: Record
) -> None:
    server.log_parts = [b"2026-01-01T00:00:00.1Z one\n"]
    server.log_cut = True
    path = "/api/v1/namespaces/shop/pods/web-1/log"

    async def refuse_for_a_while() -> None:
        await asyncio.sleep(0.01)
        server.refuse[path] = 403
        await asyncio.sleep(0.35)
        del server.refuse[path]

    (lines, note), _ = await asyncio.gather(lines_of(api, record), refuse_for_a_while())

    assert [line.text for line in lines] == ["one"]
    assert note == ""
    assert len(server.requests) >= 3
