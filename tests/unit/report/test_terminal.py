from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest

from loadtest.model import Phase, Progress
from loadtest.report import progress, terminal
from tests.unit.report.hard_runs import hostile_run, large_run
from tests.unit.report.runs import RUNS, passed_run

PATH = "reports/20261130-213743-web/report.html"


@pytest.mark.parametrize("name", RUNS)
def test_the_summary_of_every_outcome(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.txt", terminal.plain(terminal.lines(RUNS[name](), report=PATH)))


@pytest.mark.parametrize("name", [*RUNS, "large", "hostile"])
def test_it_fits_a_screen(name: str) -> None:
    rows = terminal.plain(terminal.lines({**RUNS, "large": large_run, "hostile": hostile_run}[name](), report=PATH)).splitlines()
    assert len(rows) <= 45
    assert max(map(len, rows)) <= 80


def test_codes_are_printed_as_fortio_prints_them() -> None:
    text = terminal.plain(terminal.lines(RUNS["failed"]()))
    assert "\nCode  -1 : 55 (1.8 %)\nCode 200 : 2945 (98.2 %)\n" in text


def test_colour_changes_no_character() -> None:
    for make in (*RUNS.values(), hostile_run):
        plain, coloured = io.StringIO(), io.StringIO()
        terminal.show(make(), plain, report=PATH)
        terminal.show(make(), coloured, report=PATH, colour=True)
        bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured.getvalue())
        assert "\x1b[" in coloured.getvalue()
        assert [row.rstrip() for row in bare.splitlines()] == plain.getvalue().splitlines()


def test_what_a_cluster_says_cannot_move_the_cursor_or_be_markup() -> None:
    coloured = io.StringIO()
    terminal.show(hostile_run(), coloured, report="x\x1b]0;title\x07", colour=True)
    rest = re.sub(r"\x1b\[[0-9;]*m", "", coloured.getvalue())
    assert all(character.isprintable() or character == "\n" for character in rest)
    assert "[bold]" in rest
    assert not any(row.startswith("::error::") for row in rest.splitlines())


def test_a_pass_says_how_sure_and_on_how_many_terminations() -> None:
    text = terminal.plain(terminal.lines(passed_run()))
    assert "0 of 2,514: the true rate is below 0.12 % (95 %)." in text
    assert "2 exposed terminations" in text


def a_report(worker: int = 0, dropped: int = 0, late_ns: int = 0) -> Progress:
    return Progress(
        worker=worker,
        at=13_040_000_000,
        sent=650,
        ok=626,
        failed=24,
        dropped=dropped,
        kept=4,
        worst_lateness_ns=late_ns,
        last_failure="connect-timeout",
    )


def test_progress_adds_up_all_workers() -> None:
    assert progress.progress_line([]) == ""
    words = progress.progress_line([a_report(), a_report(1, dropped=2, late_ns=140_000_000)])
    assert words == "   13.0 s  1,300 sent, 48 failed (connect-timeout), 8 kept open, 2 never sent, load up to 140 ms late"


def test_lines_of_a_run_that_goes_on() -> None:
    assert progress.phase_line(Phase.ROLLOUT, 4.975, "restart") == "    5.0 s  rollout: the change is made under load (restart)"
    assert progress.rollout_line(5.6, "1 of 2 updated\n") == "    5.6 s  1 of 2 updated"
    assert progress.pod_line(5.6, "web-\x1b[2J", "deletion") == "    5.6 s  pod web-\\x1b[2J: deletion"
