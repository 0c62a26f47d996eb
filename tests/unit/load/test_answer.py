from __future__ import annotations

import pytest

from loadtest.load.answer import MOST_HEAD, MOST_KEPT_BODY, AnswerReader, Fed
from loadtest.load.podname import PodNames, PodReader
from loadtest.model import PodFrom, PodSource

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Pod-Name: web-1\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nabc\r\n0\r\n\r\n"
NO_LENGTH = b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\nhello"


def reader(*, head: bool = False, keep_body: bool = False, names: PodNames | None = None) -> AnswerReader:
    pod_from = PodFrom(source=PodSource.HEADER, value="X-Pod-Name")
    made = AnswerReader(PodReader(pod_from), names or PodNames(), head=head, keep_body=keep_body)
    made.begin()
    return made


def test_an_answer_with_a_length_is_whole_when_its_bytes_are_there() -> None:
    names = PodNames()
    answers = reader(names=names)

    assert answers.feed(OK) is Fed.WHOLE
    assert (answers.status, answers.size, answers.received, answers.keep_alive) == (200, 5, len(OK), True)
    assert names.name(answers.pod) == "web-1"


@pytest.mark.parametrize("answer", [OK, CHUNKED, b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n" + OK])
def test_it_does_not_matter_how_the_bytes_are_cut(answer: bytes) -> None:
    for at in range(1, len(answer)):
        answers = reader()
        assert answers.feed(answer[:at]) is Fed.MORE
        assert answers.feed(answer[at:]) is Fed.WHOLE
        assert answers.keep_alive


def test_two_answers_follow_each_other_on_one_connection() -> None:
    answers = reader()
    assert answers.feed(OK) is Fed.WHOLE
    answers.begin()

    assert answers.feed(CHUNKED) is Fed.WHOLE
    assert (answers.status, answers.size, answers.pod, answers.received) == (200, 8, 0, len(CHUNKED))


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
)
def test_an_answer_to_head_has_no_body_and_does_not_eat_the_next_answer(head: bytes) -> None:
    answers = reader(head=True)

    for _ in range(2):
        assert answers.feed(head) is Fed.WHOLE
        assert answers.keep_alive
        answers.begin()


def test_an_answer_to_head_that_brings_a_body_ends_the_connection() -> None:
    answers = reader(head=True)

    assert answers.feed(OK) is Fed.WHOLE
    assert not answers.keep_alive


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_a_status_without_a_body_is_whole_with_its_head_whatever_its_length_says(status: bytes) -> None:
    answers = reader()

    assert answers.feed(b"HTTP/1.1 " + status + b"\r\nContent-Length: 7\r\n\r\n") is Fed.WHOLE
    assert answers.keep_alive
    answers.begin()
    assert answers.feed(OK) is Fed.WHOLE


def test_a_bodiless_answer_that_says_close_closes() -> None:
    answers = reader()

    assert answers.feed(b"HTTP/1.1 204 No Content\r\nConnection: Close\r\n\r\n") is Fed.WHOLE
    assert not answers.keep_alive


def test_a_body_without_a_length_lasts_until_the_connection_closes() -> None:
    answers = reader()

    assert answers.feed(NO_LENGTH) is Fed.MORE
    assert answers.end_of_stream()
    assert (answers.size, answers.keep_alive) == (5, False)


@pytest.mark.parametrize(
    "part", [b"", b"HTTP/1.1 200 OK\r\nContent-Le", OK[:-1], CHUNKED[:-1], CHUNKED[:-5], b"HTTP/1.1 100 Continue\r\n\r\n"]
)
def test_an_answer_that_ends_early_is_not_whole(part: bytes) -> None:
    answers = reader()
    if part:
        assert answers.feed(part) is Fed.MORE

    assert not answers.end_of_stream()


def test_an_interim_answer_is_passed_over() -> None:
    answers = reader()
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nX-Pod-Name: other\r\n\r\n"

    assert answers.feed(interim + NO_LENGTH) is Fed.MORE
    assert (answers.status, answers.pod) == (200, 0)
    assert answers.end_of_stream()


def test_switching_protocols_is_no_answer() -> None:
    assert reader().feed(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nxyz") is Fed.GARBAGE


@pytest.mark.parametrize(
    "junk",
    [
        b"nonsense\r\n\r\n",
        b"\0\1\2",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ],
)
def test_what_is_not_http_is_garbage(junk: bytes) -> None:
    assert reader().feed(junk) is Fed.GARBAGE


def test_a_bad_chunk_is_garbage() -> None:
    assert reader().feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello") is Fed.GARBAGE


@pytest.mark.parametrize("junk", [b"junk", b"\r\n\r\n\0", OK, b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_junk_behind_an_answer_leaves_it_alone_but_ends_the_connection(junk: bytes) -> None:
    answers = reader()

    assert answers.feed(OK + junk) is Fed.WHOLE
    assert (answers.status, answers.size) == (200, 5)
    assert not answers.keep_alive


def test_trailers_are_no_headers() -> None:
    answers = reader()
    trailer = b"X-Pod-Name: web-9\r\n"

    assert answers.feed(CHUNKED[:-2] + trailer + b"\r\n") is Fed.WHOLE
    assert answers.pod == 0


def test_a_head_without_end_is_garbage() -> None:
    answers = reader()
    line = b"X-A: " + b"a" * 1000 + b"\r\n"
    assert answers.feed(b"HTTP/1.1 200 OK\r\n") is Fed.MORE

    fed = [answers.feed(line) for _ in range(MOST_HEAD // len(line) + 1)]

    assert fed[-1] is Fed.GARBAGE
    assert set(fed[:-1]) == {Fed.MORE}


def test_a_large_body_is_counted_and_only_its_begin_is_kept() -> None:
    answers = reader(keep_body=True)
    answers.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")

    fed = [answers.feed(b"0123456789" * 1000) for _ in range(100)]

    assert fed[-1] is Fed.WHOLE
    assert answers.size == 1_000_000
    assert len(answers.body) == MOST_KEPT_BODY


def test_the_body_is_not_kept_where_nobody_wants_it() -> None:
    answers = reader()
    answers.feed(OK)

    assert answers.body == b""


def test_a_body_is_not_mixed_with_the_one_before() -> None:
    answers = reader(keep_body=True)
    answers.feed(OK)
    answers.begin()
    answers.feed(CHUNKED)

    assert answers.body == b"helloabc"


def test_http_1_0_and_connection_close_end_the_connection() -> None:
    for answer in (OK.replace(b"HTTP/1.1", b"HTTP/1.0"), OK.replace(b"X-Pod-Name: web-1", b"Connection: close")):
        answers = reader()
        assert answers.feed(answer) is Fed.WHOLE
        assert not answers.keep_alive
