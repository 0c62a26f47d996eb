from __future__ import annotations

import errno

import pytest

from loadtest.load.failures import Cause, Expected, Stage, cause_of_errno, kind_of, words
from loadtest.model import FailureKind

CONNECTING, WAITING, ANSWERING = Stage


@pytest.mark.parametrize(
    ("stage", "cause", "kind"),
    [
        (CONNECTING, Cause.NAME, "dns"),
        (CONNECTING, Cause.REFUSED, "connect-refused"),
        (CONNECTING, Cause.TIMEOUT, "connect-timeout"),
        (CONNECTING, Cause.UNREACHABLE, "unreachable"),
        (CONNECTING, Cause.RESET, "reset-before-response"),
        (CONNECTING, Cause.TLS, "tls"),
        (WAITING, Cause.RESET, "reset-before-response"),
        (WAITING, Cause.EOF, "closed-before-response"),
        (WAITING, Cause.TIMEOUT, "response-timeout"),
        (WAITING, Cause.GARBAGE, "bad-response"),
        (ANSWERING, Cause.RESET, "reset-mid-response"),
        (ANSWERING, Cause.EOF, "truncated"),
        (ANSWERING, Cause.TIMEOUT, "response-timeout"),
        (ANSWERING, Cause.GARBAGE, "bad-response"),
    ],
)
def test_a_failure_is_named_by_what_ended_the_request_and_how_far_it_had_come(stage: Stage, cause: Cause, kind: str) -> None:
    assert kind_of(stage, cause) == FailureKind(kind)


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("cause", Cause)
def test_every_fault_has_a_name_at_every_stage_but_our_own_trouble(stage: Stage, cause: Cause) -> None:
    assert (kind_of(stage, cause) is None) == (cause is Cause.LOCAL)


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (errno.ECONNREFUSED, Cause.REFUSED),
        (errno.ETIMEDOUT, Cause.UNREACHABLE),
        (errno.EHOSTUNREACH, Cause.UNREACHABLE),
        (errno.ENETUNREACH, Cause.UNREACHABLE),
        (errno.ECONNRESET, Cause.RESET),
        (errno.EPIPE, Cause.RESET),
        (errno.EADDRNOTAVAIL, Cause.LOCAL),
        (errno.EMFILE, Cause.LOCAL),
        (errno.ENFILE, Cause.LOCAL),
        (errno.ENOBUFS, Cause.LOCAL),
        (errno.ENOMEM, Cause.LOCAL),
        (errno.EIO, Cause.RESET),
    ],
)
def test_an_errno_says_what_happened(number: int, cause: Cause) -> None:
    assert cause_of_errno(number) is cause


@pytest.mark.parametrize(
    ("status", "expected", "kind"),
    [
        (200, (), None),
        (204, (), None),
        (299, (), None),
        (301, (), FailureKind.HTTP_3XX),
        (304, (), FailureKind.HTTP_3XX),
        (404, (), FailureKind.HTTP_4XX),
        (500, (), FailureKind.HTTP_5XX),
        (503, (), FailureKind.HTTP_5XX),
        (600, (), FailureKind.BAD_RESPONSE),
        (404, (404,), None),
        (200, (404,), FailureKind.BAD_RESPONSE),
        (503, (200, 404), FailureKind.HTTP_5XX),
    ],
)
def test_a_whole_answer_is_judged_by_its_status(status: int, expected: tuple[int, ...], kind: FailureKind | None) -> None:
    assert Expected(expected, "").kind(status, b"") is kind


def test_a_body_without_the_expected_text_is_a_wrong_body() -> None:
    expected = Expected((), "grün")

    assert expected.kind(200, b"black") is FailureKind.WRONG_BODY
    assert expected.kind(200, "ist grün.".encode()) is None
    assert expected.kind(503, b"black") is FailureKind.HTTP_5XX


def test_the_words_name_the_stage_and_the_errno() -> None:
    assert words(CONNECTING, Cause.REFUSED, errno.ECONNREFUSED) == "refused while connecting (ECONNREFUSED)"
    assert words(WAITING, Cause.EOF, 0) == "closed by the peer before the first byte of the answer"
