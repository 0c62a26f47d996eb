from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from array import array
from pathlib import Path
from typing import Any

import pytest

from loadtest import store
from loadtest.columns import ABSENT, CONNECTION_COLUMNS, REQUEST_COLUMNS, ConnectionBlock, RequestBlock
from loadtest.errors import StoreError
from loadtest.model import (
    ClockSample,
    Drop,
    DropReason,
    Failure,
    FailureKind,
    Gap,
    Lane,
    LoadEnd,
    LogLine,
    Mark,
    OpenRequest,
    PodName,
    Resource,
    RunInfo,
    Seen,
    Sighting,
    Target,
)
from loadtest.store import Note, RunWriter, Storable, read_run

TARGET = Target(
    namespace="ns", deployment="web", service="web", selector="app=web", url="http://h/", path_from="flag", session_affinity=True
)
INFO = RunInfo(
    run_id="r",
    tool_version="1",
    started_wall_ns=2**60,
    name="n",
    scenario={"qps": 2.5, "lanes": ["new"], "umlaut": "ä"},
    target=TARGET,
    trigger="restart",
    trigger_detail="",
    cluster={"server_version": "v1.36.3"},
    missing_rights=("list events",),
    rules=("failed == 0",),
    min_exposure=3,
)


def request_block(worker: int = 0, rows: int = 3) -> RequestBlock:
    columns = {name: array(code, range(1, rows + 1)) for name, code in REQUEST_COLUMNS}
    columns["first_byte"] = array("q", [ABSENT] * rows)
    return RequestBlock(worker=worker, columns=columns)


def connection_block() -> ConnectionBlock:
    return ConnectionBlock(worker=1, columns={name: array(code, [7]) for name, code in CONNECTION_COLUMNS})


VALUES: dict[str, tuple[Storable, Any]] = {
    "pod_names": (PodName(worker=2, index=4, name="web-1"), {(2, 4): "web-1"}),
    "failures": (
        Failure(
            worker=1,
            seq=2,
            kind=FailureKind.TRUNCATED,
            errno=104,
            received=9,
            answers_before=3,
            connection_age_ns=5,
            connection_pod="web-1",
            peer="10.0.0.1:80",
            message="cut",
        ),
        None,
    ),
    "drops": (Drop(worker=0, seq=5, due=-3, reason=DropReason.LATE_LOOP), None),
    "open": (OpenRequest(worker=0, seq=6, due=1, started=2, lane=Lane.REUSED), None),
    "ends": (LoadEnd(worker=0, last_due=9, sent=8, dropped=1, open=1, cut=True, cpu_s=0.25), None),
    "seen": (
        Seen(
            seen=4,
            resource=Resource.PODS,
            sighting=Sighting.VANISHED,
            object={"metadata": {"name": "ä\U0001f600"}, "list": [1, None, True]},
        ),
        None,
    ),
    "logs": (LogLine(seen=4, pod="p", uid="u", container="c", stamp="s", text="a 'quoted' line; --"), None),
    "gaps": (Gap(start=1, end=2, resource="pods", reason="410"), None),
    "marks": (Mark(name="rollout", at=5, detail="d"), None),
    "clock": (ClockSample(at=1, wall_ns=2**61), None),
    "notes": (Note(text="said"), ("said",)),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


def written(path: Path, *values: Storable) -> Path:
    writer = RunWriter(path, INFO)
    for value in values:
        writer.put(value)
    writer.close()
    return path


@pytest.mark.parametrize("name", VALUES)
def test_every_value_comes_back_as_it_went_in(path: Path, name: str) -> None:
    value, expected = VALUES[name]
    assert getattr(read_run(written(path, value)), name) == (expected if expected is not None else (value,))


def test_every_storable_is_among_the_values() -> None:
    tried = {type(value) for value, _ in VALUES.values()} | {RequestBlock, ConnectionBlock}
    assert tried == set(Storable.__args__)


def test_what_was_asked_for_comes_back_as_it_went_in(path: Path) -> None:
    run = read_run(written(path))
    assert run.info == INFO
    assert run.closed


def test_blocks_come_back_in_order_and_can_be_read_again(path: Path) -> None:
    first, second, connections = request_block(0), request_block(1, rows=2), connection_block()
    run = read_run(written(path, first, connections, second))
    for _ in range(2):
        assert [(block.worker, block.columns) for block in run.requests] == [(0, first.columns), (1, second.columns)]
        assert [(block.worker, block.columns) for block in run.connections] == [(1, connections.columns)]


def test_times_sort_what_came_out_of_order(path: Path) -> None:
    late, early = (Seen(seen=at, resource=Resource.PODS, sighting=Sighting.ADDED, object={}) for at in (9, 3))
    assert [one.seen for one in read_run(written(path, late, early)).seen] == [3, 9]


def test_a_closed_run_is_a_single_file(path: Path) -> None:
    written(path, request_block())
    assert [file.name for file in path.parent.iterdir()] == ["run.db"]
    read_run(path)
    assert [file.name for file in path.parent.iterdir()] == ["run.db"]


def test_a_folder_stands_for_its_file(path: Path) -> None:
    written(path)
    assert read_run(path.parent).info == INFO


KILLED = """
import os, signal, sqlite3, sys
from contextlib import closing
from pathlib import Path
from loadtest.store import RunWriter
from loadtest.model import Mark
from tests.unit.store.test_store import INFO, request_block

path = Path(sys.argv[1])
writer = RunWriter(path, INFO)
writer.put(Mark(name="warmup", at=0))
writer.put(request_block())
while True:
    with closing(sqlite3.connect(path)) as db:
        if db.execute("SELECT count(*) FROM requests").fetchone()[0]:
            break
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_whose_writer_was_killed_is_readable_and_says_so(path: Path) -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=root, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    run = read_run(path)
    assert not run.closed
    assert run.info == INFO
    assert [mark.name for mark in run.marks] == ["warmup"]
    assert sum(len(block.columns["seq"]) for block in run.requests) == 3


def test_values_may_come_from_any_thread(path: Path) -> None:
    writer = RunWriter(path, INFO)
    threads = [threading.Thread(target=writer.put, args=(Mark(name=str(number), at=number),)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert {mark.at for mark in read_run(path).marks} == set(range(20))


def test_a_run_is_never_overwritten(path: Path) -> None:
    written(path)
    with pytest.raises(StoreError, match="exists already") as caught:
        RunWriter(path, INFO)
    assert caught.value.hint


def assert_one_line(error: StoreError) -> None:
    assert "\n" not in error.message
    assert error.message


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        RunWriter(tmp_path / "missing" / "run.db", INFO)
    assert_one_line(caught.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.db", tmp_path):
        with pytest.raises(StoreError, match="no such run") as caught:
            read_run(path)
        assert_one_line(caught.value)


@pytest.mark.parametrize("content", [b"", b"garbage" * 1000, b"SQLite format 3\x00" + b"\xff" * 4096])
def test_a_file_that_is_none_of_ours_is_one_line(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError, match="not a run that can be read") as caught:
        read_run(path)
    assert_one_line(caught.value)


def changed(path: Path, *statements: str) -> Path:
    with sqlite3.connect(path) as db:
        for statement in statements:
            db.execute(statement)
    db.close()
    return path


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE meta SET value = '99' WHERE key = 'schema'",
        "DELETE FROM meta WHERE key = 'schema'",
        "DELETE FROM meta WHERE key = 'info'",
        "UPDATE meta SET value = '{' WHERE key = 'info'",
        "UPDATE meta SET value = '[]' WHERE key = 'info'",
        "UPDATE meta SET value = '{\"run_id\": 1}' WHERE key = 'info'",
        "DROP TABLE seen",
        "INSERT INTO drops VALUES (0, 0, 0, 'whim')",
        "INSERT INTO seen VALUES (1, 1, 'pods', 'ADDED', 'no json')",
        "INSERT INTO failures VALUES (0, 0, 'whim', 0, 0, 0, 0, '', '', '')",
        "INSERT INTO ends VALUES (0, '{\"more\": 1}')",
    ],
)
def test_a_file_of_another_schema_or_with_foreign_rows_is_one_line(path: Path, statement: str) -> None:
    with pytest.raises(StoreError, match="not a run that can be read") as caught:
        read_run(changed(written(path), statement))
    assert_one_line(caught.value)


def test_a_torn_block_is_one_line_when_it_is_read(path: Path) -> None:
    run = read_run(changed(written(path, request_block()), "UPDATE requests SET count = 4"))
    with pytest.raises(StoreError) as caught:
        list(run.requests)
    assert_one_line(caught.value)


def test_a_file_that_was_removed_meanwhile_is_one_line(path: Path) -> None:
    run = read_run(written(path, request_block()))
    path.unlink()
    with pytest.raises(StoreError) as caught:
        list(run.requests)
    assert_one_line(caught.value)
    assert not path.exists()


def test_a_full_disk_is_told_by_the_next_value_and_by_the_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = RunWriter(path, INFO)
    monkeypatch.setattr(store, "_statement", full_disk)
    writer.put(Mark(name="a", at=1))
    with pytest.raises(StoreError, match="disk is full") as caught:
        writer.close()
    assert_one_line(caught.value)
    with pytest.raises(StoreError, match="disk is full"):
        writer.put(Mark(name="b", at=2))
    monkeypatch.undo()
    assert not read_run(path).closed


def full_disk(value: Storable) -> tuple[str, tuple[Any, ...]]:
    raise sqlite3.OperationalError("database or disk is full")


def test_a_value_that_cannot_be_stored_is_told_and_not_lost_in_silence(path: Path) -> None:
    writer = RunWriter(path, INFO)
    writer.put(Mark(name="a", at=2**80))
    with pytest.raises(StoreError) as caught:
        writer.close()
    assert_one_line(caught.value)
    assert not read_run(path).closed


def test_text_that_is_no_unicode_is_stored_all_the_same(path: Path) -> None:
    line = LogLine(seen=1, pod="p", uid="u", container="c", stamp="", text="half \ud83d a pair \x00")
    (got,) = read_run(written(path, line)).logs
    assert got.text.startswith("half ")
