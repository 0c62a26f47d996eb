"""The report in a real browser. Not part of the unit tests: needs a Chromium."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from loadtest.report import page as report
from tests.browser.chromium import installed, page
from tests.unit.report.hard_runs import hostile_run, large_run
from tests.unit.report.runs import RUNS

PROGRAM = installed()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")
MAKERS = {**RUNS, "hostile": hostile_run, "large": large_run}

CLIPPED = """[...document.querySelectorAll('svg.wide text, svg.narrow text')].filter(text => {
  const svg = text.closest('svg').getBoundingClientRect(), box = text.getBoundingClientRect();
  return box.width && svg.width && !text.closest('[clip-path]') &&
    (box.left < svg.left - 2 || box.right > svg.right + 2 || box.top < svg.top - 2 || box.bottom > svg.bottom + 3);
}).map(text => text.textContent)"""

OVERLAPS = """[...document.querySelectorAll('svg.wide, svg.narrow')].flatMap(svg => {
  const seen = [...svg.querySelectorAll('text')].map(text => [text, text.getBoundingClientRect()]).filter(([, box]) => box.width);
  return seen.flatMap(([one, a], at) => seen.slice(at + 1).filter(([, b]) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 3 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 6)
    .map(([other]) => one.textContent + ' / ' + other.textContent));
})"""

SMALL = """[...document.querySelectorAll('body *')].filter(one =>
  one.textContent.trim() && one.getBoundingClientRect().width && parseFloat(getComputedStyle(one).fontSize) < 10.5).length"""


@pytest.mark.parametrize("name", MAKERS)
def test_a_report_opens_from_disk_and_asks_for_nothing(name: str, tmp_path: Path) -> None:
    assert PROGRAM is not None
    file = tmp_path / f"{name}.html"
    file.write_text(report.render(MAKERS[name]()), encoding="utf-8")
    pictures = asyncio.run(_look(PROGRAM, file, tmp_path / "profile"))
    for view, picture in pictures.items():
        (tmp_path / f"{name}-{view}.png").write_bytes(picture)
        assert picture.startswith(b"\x89PNG")
    assert len(set(pictures.values())) == 4


async def _look(program: str, file: Path, profile: Path) -> dict[str, bytes]:
    """Checks the page in both widths and themes, and returns what it looked like."""
    found = {}
    async with page(program, profile) as tab:
        for width in (1440, 390):
            for dark in (False, True):
                await tab.open(file, width=width, dark=dark)
                found[f"{width}-{'dark' if dark else 'light'}"] = await tab.screenshot()
                assert await tab.evaluate("document.documentElement.scrollWidth") <= width
                assert await tab.evaluate(CLIPPED) == []
                assert await tab.evaluate(OVERLAPS) == []
                assert await tab.evaluate(SMALL) == 0
                background = await tab.evaluate("getComputedStyle(document.body).backgroundColor")
                assert background == ("rgb(17, 21, 27)" if dark else "rgb(255, 255, 255)")
        assert set(tab.requested) == {file.as_uri()}
        assert tab.complaints == []
    return found
