from __future__ import annotations

from dataclasses import replace

import pytest

from loadtest.load.request import RequestBytes, Target, target_of
from loadtest.model import LoadPlan

PLAN = LoadPlan(run_id="run", epoch_ns=0, url="http://web.test:8080/a?b=c", qps=1.0, start_ns=0, user_agent="ua")


def sent(plan: LoadPlan, seq: int = 7, *, last: bool = False) -> bytes:
    return RequestBytes(plan)(seq, last=last)


def test_a_request_on_a_kept_connection_is_this() -> None:
    assert sent(PLAN) == b"GET /a?b=c HTTP/1.1\r\nHost: web.test:8080\r\nUser-Agent: ua\r\nX-Request-Id: run-7\r\n\r\n"


def test_the_last_request_of_a_connection_says_so() -> None:
    assert sent(PLAN, last=True).endswith(b"\r\nX-Request-Id: run-7\r\nConnection: close\r\n\r\n")


def test_a_body_has_its_length() -> None:
    plan = replace(PLAN, method="POST", body=b"\r\n\0")

    assert b"\r\nContent-Length: 3\r\n" in sent(plan)
    assert sent(plan).endswith(b"\r\n\r\n\r\n\0")
    assert b"Content-Length: 0" in sent(replace(plan, body=b""))


def test_what_the_user_gives_wins() -> None:
    headers = (("host", "other"), ("User-agent", "mine"), ("x-request-id", "fixed"), ("Connection", "keep-alive"))
    text = sent(replace(PLAN, headers=headers), last=True)

    assert text == (
        b"GET /a?b=c HTTP/1.1\r\nhost: other\r\nUser-agent: mine\r\nx-request-id: fixed\r\nConnection: keep-alive\r\n\r\n"
    )


def test_a_header_may_be_given_twice() -> None:
    assert sent(replace(PLAN, headers=(("A", "1"), ("A", "2")))).count(b"\r\nA: ") == 2


def test_requests_need_no_number() -> None:
    assert b"X-Request-Id" not in sent(replace(PLAN, request_id=False))


@pytest.mark.parametrize(
    "facts",
    [
        {"headers": (("A", "1\r\nB: 2"),)},
        {"headers": (("A\r\nB", "1"),)},
        {"headers": (("A:", "1"),)},
        {"headers": (("", "1"),)},
        {"method": "GET /x HTTP/1.1\r\nA:"},
        {"run_id": "a\r\nb"},
        {"url": "http://h/a b"},
        {"url": "http://h/a\tb c"},
        {"url": "http://user:secret@h/"},
        {"url": "ftp://h/"},
        {"url": "/path"},
        {"url": "http://h:99999/"},
    ],
)
def test_what_would_break_the_request_apart_is_refused(facts: dict[str, object]) -> None:
    with pytest.raises(ValueError) as caught:
        sent(replace(PLAN, **facts))  # type: ignore[arg-type]  # facts of many types
    assert "secret" not in str(caught.value)


def test_a_url_has_the_default_port_of_its_scheme() -> None:
    assert target_of("http://h") == Target("http", "h", 80, "h", "/")
    assert target_of("https://h?x") == Target("https", "h", 443, "h", "/?x")
    assert target_of("http://[::1]:81/") == Target("http", "::1", 81, "[::1]:81", "/")
