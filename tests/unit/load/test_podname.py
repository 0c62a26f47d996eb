from __future__ import annotations

from typing import Any

import pytest

from loadtest.load.podname import MOST_NAMES, PodNames, PodReader, at_pointer, pointer_parts
from loadtest.model import PodFrom, PodSource


def body_reader(value: str, source: PodSource = PodSource.JSON) -> PodReader:
    return PodReader(PodFrom(source=source, value=value))


def test_a_name_keeps_its_number() -> None:
    names = PodNames()

    assert [names.index(name) for name in ("web-1", "web-2", "web-1")] == [1, 2, 1]
    assert names.index_of_header(b"web-2") == 2
    assert (names.name(0), names.name(1)) == ("", "web-1")
    assert names.new == [(1, "web-1"), (2, "web-2")]


@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "a\nb", "<script>", "a/b", "ä", "a" * 254])
def test_what_no_object_can_be_called_counts_as_no_name(name: str) -> None:
    assert PodNames().index(name) == 0


def test_a_name_may_be_as_long_as_kubernetes_allows() -> None:
    assert PodNames().index("a" * 253) == 1


def test_a_source_that_never_repeats_itself_does_not_fill_the_memory() -> None:
    names = PodNames()
    numbers = [names.index_of_header(b"id-%d" % at) for at in range(MOST_NAMES + 10)]

    assert max(numbers) == MOST_NAMES
    assert numbers[-1] == 0


@pytest.mark.parametrize(
    ("pointer", "document", "found"),
    [
        ("/node_id", {"node_id": "web-1"}, "web-1"),
        ("/a/b", {"a": {"b": 1}}, 1),
        ("/a/1", {"a": [0, "x"]}, "x"),
        ("/a/2", {"a": [0, "x"]}, None),
        ("/a/-1", {"a": [0, "x"]}, None),
        ("/a~1b/c~0d", {"a/b": {"c~d": "x"}}, "x"),
        ("/~01", {"~1": "x"}, "x"),
        ("", "x", "x"),
        ("/", {"": "x"}, "x"),
        ("/a/b", {"a": "text"}, None),
    ],
)
def test_a_json_pointer_leads_where_rfc_6901_says(pointer: str, document: Any, found: Any) -> None:
    assert at_pointer(document, pointer_parts(pointer)) == found


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"node_id": "web-1"}', "web-1"),
        (b'{"node_id": 7}', ""),
        (b'{"node_id": ', ""),
        (b"", ""),
        (b"\xff\xfe", ""),
        (b"[" * 100_000, ""),
    ],
)
def test_a_name_in_json_is_read_and_anything_else_is_none(body: bytes, name: str) -> None:
    assert body_reader("/node_id").in_body(body) == name


def test_a_name_in_a_body_is_the_group_of_the_expression() -> None:
    reader = body_reader("pod=([a-z0-9-]+)", PodSource.BODY)

    assert reader.in_body(b"hello pod=web-1!") == "web-1"
    assert reader.in_body(b"hello") == ""
    assert reader.wants_body


@pytest.mark.parametrize(("value", "source"), [("no-slash", PodSource.JSON), ("no group", PodSource.BODY), ("(", PodSource.BODY)])
def test_a_source_that_cannot_be_read_is_refused(value: str, source: PodSource) -> None:
    with pytest.raises(ValueError):
        body_reader(value, source)


def test_a_header_is_looked_for_without_regard_to_case() -> None:
    assert PodReader(PodFrom(source=PodSource.HEADER, value="X-Pod-Name")).header == b"x-pod-name"
    assert PodReader(None).header == b""
