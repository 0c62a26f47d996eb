from __future__ import annotations

import pytest

from loadtest.model import Interval
from loadtest.report import amounts


def test_counts_are_never_rounded() -> None:
    assert amounts.count(1234567) == "1,234,567"


def test_words_follow_their_number() -> None:
    assert [amounts.plural(number, "pod") for number in (0, 1, 2)] == ["0 pods", "1 pod", "2 pods"]
    assert amounts.plural(2, "echo", "echoes") == "2 echoes"


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (0.0, "0 %"),
        (0.018333, "1.83 %"),
        (0.125, "12.5 %"),
        (0.00012, "0.012 %"),
        (1.0, "100 %"),
        (0.99999, "100 %"),
        (1e-9, "under 0.0001 %"),
    ],
)
def test_a_share_keeps_enough_digits_to_tell_small_ones_apart(part: float, words: str) -> None:
    assert amounts.share(part) == words


def test_a_moment_between_two_others_is_a_range() -> None:
    assert amounts.interval(Interval(earliest=5.576, latest=5.599)) == "5.576–5.599"
    assert amounts.interval(Interval(earliest=None, latest=5.599)) == "before 5.599"
    assert amounts.interval(Interval(earliest=5.576, latest=None)) == "after 5.576"
    assert amounts.interval(Interval(earliest=None, latest=None)) == "–"
    assert amounts.span(0.391, 0.392) == "0.39"


def test_a_moment_that_was_not_seen_is_a_dash() -> None:
    assert amounts.moment(None) == amounts.milliseconds(None) == amounts.offset(None) == "–"


def test_times_have_their_unit_and_sign() -> None:
    assert amounts.moment(5.5719) == "5.572"
    assert amounts.offset(-0.01685) == "-17 ms"
    assert amounts.offset(1.2) == "+1,200 ms"
    assert amounts.offset(31.0) == "+31.0 s"
    assert [amounts.duration(value) for value in (0.42, 4.784, 5.0, 725.2)] == ["420 ms", "4.78 s", "5 s", "12 min 5 s"]
    assert [amounts.milliseconds(value) for value in (2.44, 4664.71, 12345.6)] == ["2.4", "4,664.7", "12,346"]


def test_a_pod_that_may_own_more_says_how_many_more() -> None:
    assert amounts.between(26, 47) == "26 to 47"
    assert amounts.between(3, 3) == "3"


def test_a_number_stays_with_its_unit() -> None:
    assert amounts.units("wait 5 s, 0.6 ms or 5 seconds") == "wait 5\u00a0s, 0.6\u00a0ms or 5 seconds"
