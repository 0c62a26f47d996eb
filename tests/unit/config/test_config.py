from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from loadtest import config
from loadtest.errors import UsageError
from loadtest.model import Lane, PodFrom, PodSource


def assert_refused(parse: Callable[[], Any]) -> UsageError:
    with pytest.raises(UsageError) as caught:
        parse()
    assert caught.value.message.startswith("--flag: ")
    assert "\n" not in caught.value.message + caught.value.hint
    assert caught.value.exit_code == 2
    return caught.value


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("500ms", 500_000_000),
        ("5s", 5_000_000_000),
        ("1m30s", 90_000_000_000),
        ("1.5s", 1_500_000_000),
        ("0s", 0),
        ("100us", 100_000),
        ("100µs", 100_000),
        ("7ns", 7),
        ("1h", 3_600_000_000_000),
        ("1d", 86_400_000_000_000),
    ],
)
def test_durations(text: str, ns: int) -> None:
    assert config.duration("--flag", text) == ns


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "-5s", "5s ", "1m-30s", "5x", "١s", "1e3s", "5s3", "inf", "25h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    assert assert_refused(lambda: config.duration("--flag", text)).hint


def test_a_duration_out_of_its_bounds_says_which_they_are() -> None:
    error = assert_refused(lambda: config.duration("--flag", "1ms", least=10**9, most=90 * 10**9))
    assert error.hint == "from 1s to 90s"


@pytest.mark.parametrize(
    ("ns", "words"), [(0, "0s"), (7, "7ns"), (1_500_000_000, "1500ms"), (60 * 10**9, "1m"), (86_400 * 10**9, "1d")]
)
def test_nanoseconds_in_words_can_be_read_again(ns: int, words: str) -> None:
    assert config.in_words(ns) == words
    assert config.duration("--flag", words) == ns


def test_numbers_within_their_bounds() -> None:
    assert config.number("--flag", 1.5, least=1, most=2) == 1.5
    for value in (0.9, 2.1, math.nan, math.inf, -math.inf):
        assert_refused(lambda value=value: config.number("--flag", value, least=1, most=2))  # type: ignore[misc] # a default


@pytest.mark.parametrize(
    ("text", "lanes"),
    [
        ("new,reused", (Lane.NEW, Lane.REUSED)),
        ("reused, new", (Lane.REUSED, Lane.NEW)),
        ("new", (Lane.NEW,)),
        ("reused", (Lane.REUSED,)),
    ],
)
def test_lanes(text: str, lanes: tuple[Lane, ...]) -> None:
    assert config.lanes("--flag", text) == lanes


@pytest.mark.parametrize("text", ["", "both", "new,new", "new,", "NEW"])
def test_what_names_no_lanes_is_refused(text: str) -> None:
    assert_refused(lambda: config.lanes("--flag", text))


@pytest.mark.parametrize(("text", "limits"), [("", (0, 0)), ("10:20", (10, 20)), ("5", (5, 5)), ("3:3", (3, 3))])
def test_how_often_a_connection_is_reused(text: str, limits: tuple[int, int]) -> None:
    assert config.reuse("--flag", text) == limits


@pytest.mark.parametrize("text", ["0", "0:5", "5:4", "a", "1:b", ":5", "-1:5", "1.5", "1:2:3"])
def test_what_is_no_range_is_refused(text: str) -> None:
    assert_refused(lambda: config.reuse("--flag", text))


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("X-A: b", ("X-A", "b")),
        ("X-A:b:c", ("X-A", "b:c")),
        ("X-Empty:", ("X-Empty", "")),
        ("Host: other", ("Host", "other")),
        ("X-A:  spaces  ", ("X-A", "spaces")),
    ],
)
def test_headers(text: str, pair: tuple[str, str]) -> None:
    assert config.header("--flag", text) == pair


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no colon",
        ": value",
        "X A: b",
        "X-A: a\r\nX-B: c",
        "X-A: a\x00",
        "X-A: \u20ac",
        "Content-Length: 3",
        "transfer-encoding: chunked",
        "Connection: close",
    ],
)
def test_what_is_no_header_of_the_users_is_refused_without_its_value(text: str) -> None:
    assert_refused(lambda: config.header("--flag", text))


def test_a_refused_header_does_not_show_its_value() -> None:
    error = assert_refused(lambda: config.header("--flag", "Authorization Bearer s3cret"))
    assert "s3cret" not in error.message + error.hint


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("none", None),
        ("header=X-Pod-Name", PodFrom(source=PodSource.HEADER, value="X-Pod-Name")),
        ("json=/node_id", PodFrom(source=PodSource.JSON, value="/node_id")),
        ("body=pod: (.*)", PodFrom(source=PodSource.BODY, value="pod: (.*)")),
        ("body=a=(b)", PodFrom(source=PodSource.BODY, value="a=(b)")),
    ],
)
def test_where_answers_name_their_pod(text: str, found: PodFrom | None) -> None:
    assert config.pod_from("--flag", text) == found


@pytest.mark.parametrize(
    "text", ["", "header", "header=", "cookie=x", "json=node_id", "body=(", "body=none", "body=(a)(b)", "header=X Pod"]
)
def test_what_names_no_place_for_a_pod_is_refused(text: str) -> None:
    assert_refused(lambda: config.pod_from("--flag", text))


@pytest.mark.parametrize("text", ["deployment/web", "deploy/web", "deployments/web", "Deployment/web", "deployment.apps/web"])
def test_deployments(text: str) -> None:
    assert config.workload("--flag", text) == "web"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "web",
        "pod/web",
        "deployment/",
        "deployment/Web",
        "deployment/-a",
        "deployment/a/b",
        "deployment/a" + "a" * 253,
        "deployment/a\n",
    ],
)
def test_what_names_no_deployment_is_refused(text: str) -> None:
    assert_refused(lambda: config.workload("--flag", text))


@pytest.mark.parametrize("text", ["", "http://h", "https://h:8443/p?q=1", "http://[::1]:80/", "http://10.0.0.1:30000/a%20b"])
def test_urls(text: str) -> None:
    assert config.url("--flag", text) == text


@pytest.mark.parametrize(
    "text",
    [
        "h:80",
        "ftp://h/",
        "http://",
        "http:///p",
        "http://h:0/",
        "http://h:99999/",
        "http://h:x/",
        "http://[::1/",
        "http://h/a b",
        "http://h/ä",
        "http://h/\n",
        "http://h/#part",
    ],
)
def test_what_is_no_url_to_load_is_refused(text: str) -> None:
    assert_refused(lambda: config.url("--flag", text))


def test_a_url_with_a_password_is_refused_without_showing_it() -> None:
    error = assert_refused(lambda: config.url("--flag", "http://me:s3cret@h/"))
    assert "s3cret" not in error.message + error.hint


@pytest.mark.parametrize(
    ("texts", "found"), [([], ()), (["200"], (200,)), (["200,204", "404"], (200, 204, 404)), (["200, 201"], (200, 201))]
)
def test_statuses(texts: list[str], found: tuple[int, ...]) -> None:
    assert config.statuses("--flag", texts) == found


@pytest.mark.parametrize("text", ["", "20", "99", "100", "199", "600", "2xx", "-200", "200,", "²00"])
def test_what_is_no_final_status_is_refused(text: str) -> None:
    assert_refused(lambda: config.statuses("--flag", [text]))
