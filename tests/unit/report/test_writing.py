from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadtest.errors import StoreError
from loadtest.report import writing
from tests.unit.report.hard_runs import hostile_run
from tests.unit.report.runs import passed_run


def test_all_reports_are_written_and_nothing_else_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "reports" / "run"
    written = writing.write_reports(passed_run(), folder)
    assert [path.name for path in written] == ["result.json", "report.html", "junit.xml"]
    assert sorted(folder.iterdir()) == sorted(written)
    assert json.loads(written[0].read_text())["outcome"] == "pass"


def test_hostile_text_can_be_written(tmp_path: Path) -> None:
    assert all(path.stat().st_size for path in writing.write_reports(hostile_run(), tmp_path))


def test_an_earlier_report_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = writing.write_text(tmp_path / "report.html", "old")
    with pytest.raises(UnicodeEncodeError):
        writing.write_text(path, "new \ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_is_one_line_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError) as raised:
        writing.write_reports(passed_run(), tmp_path / "file" / "run")
    assert raised.value.message.startswith("cannot write")
    assert "\n" not in raised.value.message
    assert "--out" in raised.value.hint
