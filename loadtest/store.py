"""`run.db`: the run itself, written while it happens, readable after `kill -9`.

A SQLite file in WAL mode while the run goes on, a single file once it is closed. A thread of its own writes, so that no
disk ever delays watching or loading. What may be stored is decided before it comes here (`contract.md`, "Kept out of all
of these"); this room refuses any other format, and any file of another schema.
"""

from __future__ import annotations

import json
import queue
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from loadtest.columns import CONNECTION_COLUMNS, REQUEST_COLUMNS, Block, ConnectionBlock, RequestBlock, pack, unpack
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
    StoredRun,
    Target,
)

SCHEMA = 1
FILE_NAME = "run.db"
BATCH_SECONDS = 0.25
_FAILURE_FIELDS = tuple(one.name for one in fields(Failure))  # the order of the columns

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE requests (id INTEGER PRIMARY KEY, worker INTEGER NOT NULL, count INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE connections (id INTEGER PRIMARY KEY, worker INTEGER NOT NULL, count INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE pod_names (worker INTEGER, number INTEGER, name TEXT NOT NULL, PRIMARY KEY (worker, number));
CREATE TABLE failures (worker INTEGER, seq INTEGER, kind TEXT, errno INTEGER, received INTEGER, answers_before INTEGER,
    connection_age_ns INTEGER, connection_pod TEXT, peer TEXT, message TEXT);
CREATE TABLE drops (worker INTEGER, seq INTEGER, due INTEGER, reason TEXT);
CREATE TABLE open_requests (worker INTEGER, seq INTEGER, due INTEGER, started INTEGER, lane INTEGER);
CREATE TABLE ends (worker INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE seen (id INTEGER PRIMARY KEY, seen INTEGER, resource TEXT, sighting TEXT, object TEXT NOT NULL);
CREATE TABLE logs (id INTEGER PRIMARY KEY, seen INTEGER, pod TEXT, uid TEXT, container TEXT, stamp TEXT, text TEXT);
CREATE TABLE gaps (start INTEGER, "end" INTEGER, resource TEXT, reason TEXT);
CREATE TABLE marks (id INTEGER PRIMARY KEY, name TEXT, at INTEGER, detail TEXT);
CREATE TABLE clock (at INTEGER, wall_ns INTEGER);
CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A sentence for the limits of the result."""

    text: str


Storable = (
    RequestBlock
    | ConnectionBlock
    | PodName
    | Failure
    | Drop
    | OpenRequest
    | LoadEnd
    | Seen
    | LogLine
    | Gap
    | Mark
    | ClockSample
    | Note
)


def _statement(value: Storable) -> tuple[str, tuple[Any, ...]]:
    """The row that a value becomes."""
    match value:
        case RequestBlock():
            row = (value.worker, len(value), pack(value.columns, REQUEST_COLUMNS))
            return "INSERT INTO requests (worker, count, data) VALUES (?, ?, ?)", row
        case ConnectionBlock():
            row = (value.worker, len(value), pack(value.columns, CONNECTION_COLUMNS))
            return "INSERT INTO connections (worker, count, data) VALUES (?, ?, ?)", row
        case PodName():
            return "INSERT OR REPLACE INTO pod_names VALUES (?, ?, ?)", (value.worker, value.index, value.name)
        case Failure():
            values = {**asdict(value), "kind": str(value.kind), "message": _text(value.message)}
            return "INSERT INTO failures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", tuple(values.values())
        case Drop():
            return "INSERT INTO drops VALUES (?, ?, ?, ?)", (value.worker, value.seq, value.due, str(value.reason))
        case OpenRequest():
            row_open = (value.worker, value.seq, value.due, value.started, int(value.lane))
            return "INSERT INTO open_requests VALUES (?, ?, ?, ?, ?)", row_open
        case LoadEnd():
            return "INSERT OR REPLACE INTO ends VALUES (?, ?)", (value.worker, _json(asdict(value)))
        case Seen():
            row_seen = (value.seen, str(value.resource), str(value.sighting), _json(value.object))
            return "INSERT INTO seen (seen, resource, sighting, object) VALUES (?, ?, ?, ?)", row_seen
        case LogLine():
            row_log = (value.seen, value.pod, value.uid, value.container, value.stamp, _text(value.text))
            return "INSERT INTO logs (seen, pod, uid, container, stamp, text) VALUES (?, ?, ?, ?, ?, ?)", row_log
        case Gap():
            return "INSERT INTO gaps VALUES (?, ?, ?, ?)", (value.start, value.end, value.resource, value.reason)
        case Mark():
            return "INSERT INTO marks (name, at, detail) VALUES (?, ?, ?)", (value.name, value.at, value.detail)
        case ClockSample():
            return "INSERT INTO clock VALUES (?, ?)", (value.at, value.wall_ns)
        case Note():
            return "INSERT INTO notes (text) VALUES (?)", (value.text,)


def _json(value: Any) -> str:
    return _text(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict))


def _text(text: str) -> str:
    """Half of a surrogate pair is no Unicode: SQLite refuses it."""
    return text.encode("utf-8", "replace").decode()


class RunWriter:
    """Takes values at any time from any thread and writes them within a quarter of a second.

    Args:
        path: the file to make; its folder must exist.
        info: stored at once, so that a run killed a moment later can still be told apart.

    Raises:
        StoreError: the file exists or cannot be made.
    """

    def __init__(self, path: Path, info: RunInfo) -> None:
        if path.exists():
            raise StoreError(f"{path}: exists already", "a run is never overwritten: choose another --out folder")
        self.path = path
        self._error: Exception | None = None
        self._queue: queue.SimpleQueue[Storable | None] = queue.SimpleQueue()
        try:
            self._open(info)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{path}: cannot be written: {error}") from error
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="run.db", daemon=True)
        self._thread.start()

    def put(self, value: Storable) -> None:
        """Hands a value over; returns at once.

        Raises:
            StoreError: an earlier value could not be written (a full disk).
        """
        if self._error is not None:
            raise StoreError(f"{self.path}: cannot be written: {self._error}")
        self._queue.put(value)

    def close(self) -> None:
        """Writes what is left and the closing record, and leaves a single file.

        Raises:
            StoreError: something could not be written.
        """
        self._queue.put(None)
        self._closing.set()
        self._thread.join()
        if self._error is not None:
            raise StoreError(f"{self.path}: cannot be written: {self._error}")
        try:
            with closing(sqlite3.connect(self.path)) as db:
                db.execute("INSERT INTO meta VALUES ('closed', '1')")
                db.commit()
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                db.execute("PRAGMA journal_mode=DELETE")
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: cannot be closed: {error}") from error

    def _open(self, info: RunInfo) -> None:
        with closing(sqlite3.connect(self.path)) as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.executescript(_TABLES)
            db.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SCHEMA),))
            db.execute("INSERT INTO meta VALUES ('info', ?)", (_json(asdict(info)),))
            db.commit()

    def _work(self) -> None:
        try:
            with closing(sqlite3.connect(self.path)) as db:
                # A committed row survives our own death in any case; only a power cut could take the last ones.
                db.execute("PRAGMA synchronous=NORMAL")
                while self._write_batch(db):
                    self._closing.wait(BATCH_SECONDS)
        except (sqlite3.Error, OverflowError, TypeError, ValueError) as error:  # the last three: a value that no column takes
            self._error = error

    def _write_batch(self, db: sqlite3.Connection) -> bool:
        """Waits for a value, writes it and all that came since the last batch; False after the last one."""
        value = self._queue.get()
        try:
            while value is not None:
                db.execute(*_statement(value))
                value = self._queue.get_nowait()
        except queue.Empty:
            return True
        finally:
            db.commit()
        return False


class _Blocks:
    """Packed rows of one table, read anew at each iteration, so that a long run never lies in memory whole."""

    def __init__(self, path: Path, table: str, layout: tuple[tuple[str, str], ...]) -> None:
        self._path = path
        self._query = f"SELECT worker, count, data FROM {table} ORDER BY id"  # noqa: S608 - one of two literals
        self._layout = layout

    def __iter__(self) -> Iterator[Block]:
        try:
            with closing(_connect(self._path)) as db:
                for worker, count, data in db.execute(self._query):
                    yield Block(worker=worker, columns=unpack(data, count, self._layout))
        except (sqlite3.Error, ValueError) as error:
            raise StoreError(f"{self._path}: not a run that can be read: {error}") from error


def read_run(path: Path) -> StoredRun:
    """The run that a file tells.

    Args:
        path: the file, or the run's folder.

    Raises:
        StoreError: there is no such file, it is none of ours, or of another schema.
    """
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        raise StoreError(f"{file}: no such run", "name a run's folder, such as reports/<time>-<name>")
    try:
        with closing(_connect(file)) as db:
            return _read(file, db)
    except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{file}: not a run that can be read: {error}") from error


def _connect(path: Path) -> sqlite3.Connection:
    # Not `mode=ro`: a file left by a killed run has a WAL beside it that only a writer may fold in. Not `rwc`: it would make one.
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)


def _read(file: Path, db: sqlite3.Connection) -> StoredRun:
    meta = dict(db.execute("SELECT key, value FROM meta"))
    if meta.get("schema") != str(SCHEMA):
        raise ValueError(f"schema {meta.get('schema')}, this version reads {SCHEMA}")
    return StoredRun(
        info=_info(json.loads(meta["info"])),
        closed="closed" in meta,
        requests=_Blocks(file, "requests", REQUEST_COLUMNS),
        connections=_Blocks(file, "connections", CONNECTION_COLUMNS),
        pod_names={(worker, number): name for worker, number, name in db.execute("SELECT * FROM pod_names")},
        failures=tuple(_failure(row) for row in db.execute("SELECT * FROM failures ORDER BY worker, seq")),
        drops=tuple(
            Drop(worker=worker, seq=seq, due=due, reason=DropReason(reason))
            for worker, seq, due, reason in db.execute("SELECT * FROM drops ORDER BY due, worker, seq")
        ),
        open=tuple(
            OpenRequest(worker=worker, seq=seq, due=due, started=started, lane=Lane(lane))
            for worker, seq, due, started, lane in db.execute("SELECT * FROM open_requests ORDER BY due, worker, seq")
        ),
        ends=tuple(LoadEnd(**json.loads(value)) for (value,) in db.execute("SELECT value FROM ends ORDER BY worker")),
        seen=tuple(
            Seen(seen=at, resource=Resource(resource), sighting=Sighting(sighting), object=json.loads(text))
            for at, resource, sighting, text in db.execute("SELECT seen, resource, sighting, object FROM seen ORDER BY seen, id")
        ),
        logs=tuple(
            LogLine(seen=at, pod=pod, uid=uid, container=container, stamp=stamp, text=text)
            for _, at, pod, uid, container, stamp, text in db.execute("SELECT * FROM logs ORDER BY seen, id")
        ),
        gaps=tuple(
            Gap(start=start, end=end, resource=resource, reason=reason)
            for start, end, resource, reason in db.execute('SELECT * FROM gaps ORDER BY start, "end", resource')
        ),
        marks=tuple(
            Mark(name=name, at=at, detail=detail) for _, name, at, detail in db.execute("SELECT * FROM marks ORDER BY id")
        ),
        clock=tuple(ClockSample(at=at, wall_ns=wall) for at, wall in db.execute("SELECT * FROM clock ORDER BY at")),
        notes=tuple(text for (text,) in db.execute("SELECT text FROM notes ORDER BY id")),
    )


def _failure(row: tuple[Any, ...]) -> Failure:
    values = dict(zip(_FAILURE_FIELDS, row, strict=True))
    return Failure(**{**values, "kind": FailureKind(values["kind"])})


def _info(value: dict[str, Any]) -> RunInfo:
    return RunInfo(
        **{
            **value,
            "target": Target(**value["target"]),
            "missing_rights": tuple(value["missing_rights"]),
            "rules": tuple(value["rules"]),
        }
    )
