"""The watch against a real HTTP server that fails in the ways API servers and networks do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from loadtest.cluster.client import Api
from loadtest.cluster.watch import Pace, watch
from loadtest.errors import ApiError
from loadtest.model import Resource, Seen

if TYPE_CHECKING:
    from tests.sandbox.cluster.conftest import FakeServer, Record

PODS = "/api/v1/namespaces/shop/pods"
PACE = Pace(server_timeout=3, read_timeout=0.6, patience=0.2, back_off=(0.02, 0.1))  # a server's second is 0.1 s
Soon = Callable[..., Awaitable[None]]


@asynccontextmanager
async def watching(api: Api, record: Record, pace: Pace | None = None, **options: Any) -> AsyncIterator[None]:
    """Watches pods, from the first list on, until the block ends."""
    ready = asyncio.Event()
    task = asyncio.create_task(
        watch(
            api,
            Resource.PODS,
            "shop",
            clock=record.clock,
            epoch_ns=record.epoch_ns,
            sink=record,
            ready=ready,
            pace=pace or PACE,
            **options,
        )
    )
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    try:
        if task.done():
            task.result()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_is_there_is_listed_and_what_happens_is_seen(server: FakeServer, api: Api, record: Record, soon: Soon) -> None:
    server.put(PODS, "web-1")
    async with watching(api, record):
        assert record.sightings == ["LISTED web-1"]
        server.put(PODS, "web-2")
        server.put(PODS, "web-2", status={"phase": "Running"})
        server.delete(PODS, "web-1")
        await soon(lambda: len(record.sightings) == 4)

    assert record.sightings[1:] == ["ADDED web-2", "MODIFIED web-2", "DELETED web-1"]
    assert record.gaps == []


async def test_old_objects_are_not_given_when_only_new_ones_are_asked_for(
    server: FakeServer, api: Api, record: Record, soon: Soon
) -> None:
    server.put(PODS, "web-1")
    async with watching(api, record, keep_listed=False):
        server.put(PODS, "web-2")
        await soon(lambda: record.sightings == ["ADDED web-2"])


async def test_selector_and_name_go_to_the_server(server: FakeServer, api: Api, record: Record, soon: Soon) -> None:
    server.objects[PODS] = {}
    async with watching(api, record, selector="app=web,tier in (a,b)", name="web-1"):
        await soon(lambda: server.watches)

    for request in server.requests:
        assert request.query["labelSelector"] == "app=web,tier in (a,b)"
        assert request.query["fieldSelector"] == "metadata.name=web-1"
    assert server.requests[-1].query["allowWatchBookmarks"] == "true"


async def test_a_watch_that_the_server_ends_in_order_goes_on_without_gap_or_list(
    server: FakeServer, api: Api, record: Record, soon: Soon
) -> None:
    server.put(PODS, "web-1")
    async with watching(api, record):
        await soon(lambda: len(server.watches) >= 3)
        server.put(PODS, "web-2")
        await soon(lambda: "ADDED web-2" in record.sightings)

    assert server.lists == 1
    assert record.gaps == []


async def test_a_bookmark_moves_the_version_so_that_the_next_watch_is_not_too_old(
    server: FakeServer, api: Api, record: Record, soon: Soon
) -> None:
    server.put(PODS, "web-1")
    async with watching(api, record):
        await soon(lambda: len(server.watches) == 1)
        server.bookmark(PODS)
        await asyncio.sleep(0.05)
        server.compact()
        await soon(lambda: len(server.watches) == 3)

    assert server.lists == 1
    assert record.gaps == []


@pytest.mark.parametrize("as_event", [True, False], ids=["as an event", "as a status"])
async def test_a_history_that_is_too_old_is_listed_again_and_compared(
    server: FakeServer, api: Api, record: Record, soon: Soon, as_event: bool
) -> None:
    server.expired_as_event = as_event
    for name in ("stays", "changes", "goes"):
        server.put(PODS, name)
    async with watching(api, record):
        await soon(lambda: server.watches)
        server.frozen = True
        server.cut()
        server.put(PODS, "changes", status={"phase": "Running"})
        server.delete(PODS, "goes")
        server.put(PODS, "comes")
        server.compact()
        server.frozen = False
        await soon(lambda: "LISTED comes" in record.sightings)
        server.put(PODS, "later")
        await soon(lambda: "ADDED later" in record.sightings)

    assert record.sightings[3:] == ["VANISHED goes", "LISTED changes", "LISTED comes", "ADDED later"]
    assert record.gaps
    assert server.lists == 2


async def test_what_was_seen_to_go_does_not_vanish_again_at_the_next_list(
    server: FakeServer, api: Api, record: Record, soon: Soon
) -> None:
    server.put(PODS, "goes")
    async with watching(api, record):
        server.delete(PODS, "goes")
        await soon(lambda: "DELETED goes" in record.sightings)
        server.put("/other", "x")
        server.compact()
        server.cut()
        await soon(lambda: server.lists == 2)
        server.put(PODS, "later")
        await soon(lambda: "ADDED later" in record.sightings)

    assert record.sightings == ["LISTED goes", "DELETED goes", "ADDED later"]


async def test_the_gap_before_a_too_old_watch_begins_when_the_last_good_one_ended(
    server: FakeServer, api: Api, record: Record, soon: Soon
) -> None:
    server.put(PODS, "web-1")
    async with watching(api, record):
        await soon(lambda: server.watches)
        server.forget_on_end, server.expired_after = True, 0.15
        server.put("/other", "x")  # the version moves on, and no bookmark says so
        await soon(lambda: len(server.watches) == 2)
        server.forget_on_end = False
        await soon(lambda: len(server.watches) == 3)
        await soon(lambda: record.gaps)

    (gap,) = record.gaps
    assert "Expired" in gap.reason
    assert abs(gap.start - (server.ended[0] - record.epoch_ns)) < 0.1e9
    assert gap.end - gap.start >= 0.15e9


@pytest.mark.parametrize("half_an_event", [False, True], ids=["between events", "in the middle of one"])
async def test_a_reset_is_a_gap_and_nothing_that_happened_in_it_is_lost(
    server: FakeServer, api: Api, record: Record, soon: Soon, half_an_event: bool
) -> None:
    server.put(PODS, "web-1")
    async with watching(api, record):
        await soon(lambda: server.watches)
        before = record.now()
        server.cut(half_an_event=half_an_event)
        server.put(PODS, "web-2")
        await soon(lambda: "ADDED web-2" in record.sightings)

    (gap,) = record.gaps
    assert before <= gap.start < gap.end
    assert gap.resource == "pods"
    assert record.sightings == ["LISTED web-1", "ADDED web-2"]


async def test_a_silent_connection_is_given_up_and_the_gap_begins_at_its_last_word(
    server: FakeServer, api: Api, record: Record, soon: Soon
) -> None:
    server.put(PODS, "web-1")
    async with watching(api, record):
        await soon(lambda: server.watches)
        server.put(PODS, "web-2")
        await soon(lambda: "ADDED web-2" in record.sightings)
        last_word = record.now()
        server.frozen = True
        server.put(PODS, "web-3")
        await asyncio.sleep(0.3)
        assert record.gaps == []
        await soon(lambda: len(server.watches) == 2)
        server.frozen = False
        await soon(lambda: "ADDED web-3" in record.sightings)

    (gap,) = record.gaps
    assert gap.start <= last_word
    assert gap.end - gap.start >= 0.6e9


async def test_an_api_server_that_comes_back_is_found_again(server: FakeServer, api: Api, record: Record, soon: Soon) -> None:
    server.put(PODS, "web-1")
    async with watching(api, record):
        await soon(lambda: server.watches)
        gone = record.now()
        await server.stop()
        await asyncio.sleep(0.25)
        back = record.now()
        await server.start()
        server.put(PODS, "web-2")
        await soon(lambda: "ADDED web-2" in record.sightings)

    (gap,) = record.gaps
    assert gap.reason == f"cannot reach the API server {server.url}: connection refused"
    assert gap.start <= gone + 0.1e9
    assert gap.end >= back
    assert server.lists == 1


async def test_rights_that_are_refused_for_a_while_end_nothing(server: FakeServer, api: Api, record: Record, soon: Soon) -> None:
    """An API server that has just started refuses with 403 until it has read its roles."""
    server.put(PODS, "web-1")
    async with watching(api, record):
        await soon(lambda: server.watches)
        server.refuse[PODS] = 403
        server.cut()
        await asyncio.sleep(0.1)
        server.refuse.clear()
        server.put(PODS, "web-2")
        await soon(lambda: "ADDED web-2" in record.sightings)

    (gap,) = record.gaps
    assert gap.reason == "the API server answered 403 Forbidden"


async def test_a_gap_still_open_at_the_end_is_given(server: FakeServer, api: Api, record: Record, soon: Soon) -> None:
    server.put(PODS, "web-1")
    async with watching(api, record):
        await soon(lambda: server.watches)
        await server.stop()
        await asyncio.sleep(0.1)
        ended = record.now()

    (gap,) = record.gaps
    assert gap.end >= ended


async def test_a_restarted_server_without_history_is_listed_at_once(
    server: FakeServer, api: Api, record: Record, soon: Soon
) -> None:
    """So it is with kube-apiserver: its new watch cache begins at its own first list."""
    slow = Pace(server_timeout=3, read_timeout=0.6, patience=0.2, back_off=(0.1, 3.0))
    server.put(PODS, "web-1")
    async with watching(api, record, slow):
        await soon(lambda: server.watches)
        await server.stop()
        server.put(PODS, "web-2")
        server.compact()
        await asyncio.sleep(0.8)
        back = record.now()
        await server.start()
        await soon(lambda: "LISTED web-2" in record.sightings)

    (listed,) = (item for item in record.all if isinstance(item, Seen) and item.name == "web-2")
    assert listed.seen - back < 1.2e9


async def test_a_server_that_calls_every_watch_too_old_is_not_asked_without_pause(
    server: FakeServer, api: Api, record: Record
) -> None:
    server.put(PODS, "web-1")
    server.oldest = 1_000_000
    async with watching(api, record):
        await asyncio.sleep(0.4)

    assert 3 <= len(server.watches) <= 10


async def test_a_server_that_hangs_up_at_once_is_not_asked_without_pause(
    server: FakeServer, api: Api, record: Record, soon: Soon
) -> None:
    server.put(PODS, "web-1")
    server.second = 0.0
    async with watching(api, record):
        await asyncio.sleep(0.4)

    assert 3 <= len(server.watches) <= 10


@pytest.mark.parametrize("status", [403, 404])
async def test_a_kind_that_may_not_be_listed_or_is_not_there_is_an_error_at_the_start(
    server: FakeServer, api: Api, record: Record, status: int
) -> None:
    server.refuse[PODS] = status

    with pytest.raises(ApiError) as caught:
        async with watching(api, record):
            pass
    assert caught.value.status == status


async def test_secrets_do_not_reach_the_sink(server: FakeServer, api: Api, record: Record) -> None:
    server.put(PODS, "web-1", spec={"containers": [{"name": "web", "env": [{"name": "PASSWORD", "value": "hush"}]}]})
    async with watching(api, record):
        pass

    assert "hush" not in str(record.all)
    assert "PASSWORD" in str(record.all)
