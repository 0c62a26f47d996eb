from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from loadtest.report.harmless import short_middle, visible, visible_lines

TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def test_control_characters_are_shown_and_not_passed_on() -> None:
    assert visible("a\x1b[31mb\x00\x7f\x9b") == r"a\x1b[31mb\x00\x7f\x9b"


def test_a_line_end_cannot_begin_a_line_of_its_own() -> None:
    assert visible("pod\r\n::error::no") == r"pod\r\n::error::no"


def test_marks_that_turn_the_reading_direction_are_shown() -> None:
    assert visible("web\u202egpj.exe\u2066") == r"web\u202egpj.exe\u2066"


def test_lone_surrogates_and_noncharacters_are_shown() -> None:
    assert visible("\ud800\ufffe\U0001ffff") == r"\ud800\ufffe\U0001ffff"


def test_ordinary_text_in_any_script_is_left_alone() -> None:
    text = "Größe 部署 Ελλάς – “ok” €"
    assert visible(text) == text


def test_a_limit_ends_in_an_ellipsis() -> None:
    assert visible("abcdefgh", 5) == "abcd…"


def test_lines_keep_only_their_ends() -> None:
    assert visible_lines("a\tb\r\nc\rd") == ["a b", r"c\rd"]


def test_a_long_name_keeps_both_ends() -> None:
    assert short_middle("checkout-service-7d9c5b8f6d-x2x4z", 16) == "check…8f6d-x2x4z"


@given(st.text(st.characters()))
def test_nothing_that_moves_a_cursor_or_turns_text_comes_through(text: str) -> None:
    seen = visible(text)
    seen.encode("utf-8")
    assert not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in seen)
    assert not any(unicodedata.bidirectional(character) in TURNING for character in seen)
