from __future__ import annotations

from itertools import pairwise

import pytest

from loadtest.model import FailureKind
from loadtest.report import svg


def test_text_and_attributes_are_escaped() -> None:
    drawn = svg.el("text", "</text><script>", aria_label='"><script>\x1b')
    assert drawn == '<text aria-label="&#34;&gt;&lt;script&gt;\\x1b">&lt;/text&gt;&lt;script&gt;</text>'


def test_every_mark_is_right_without_styles() -> None:
    for kind in FailureKind:
        assert 'fill="' in svg.symbol(kind)
        assert 'class="' in svg.symbol(kind)


def test_each_family_has_a_shape_of_its_own() -> None:
    families = {svg.family(kind): kind for kind in FailureKind}
    shapes = {svg.symbol(kind) for kind in families.values()}
    assert set(families) == {"refused", "silent", "cut", "answer"}
    assert len(shapes) == 4


@pytest.mark.parametrize(("start", "end", "step"), [(0, 31.2, 5), (4.9, 7.1, 0.5), (0, 0.25, 0.05), (0, 3600, 500)])
def test_ticks_are_round_and_few(start: float, end: float, step: float) -> None:
    found, decimals, moments = svg.Axis(start, end, 0, 100).ticks(8)
    assert found == pytest.approx(step)
    assert len(moments) <= 9
    assert all(start - 1e-9 <= moment <= end + 1e-9 for moment in moments)
    assert all(float(f"{moment:.{decimals}f}") == pytest.approx(moment) for moment in moments)


def test_labels_of_a_row_never_touch() -> None:
    row = svg.Row(10, 0, 240)
    assert row.put(10, "deletion 5.57") is not None
    assert row.put(12, "stopped 5.58") is None
    assert row.put(230, "object gone 6.97") is not None  # mirrored: to the right of 230 there is no room
    taken = sorted(row.taken)
    assert all(before[1] < after[0] for before, after in pairwise(taken))
    assert taken[-1][1] <= 241


def test_a_mark_outside_the_plot_stays_near_it() -> None:
    axis = svg.Axis(5, 7, 100, 200)
    assert axis(1e9) == 220
    assert not axis.shows(8)
