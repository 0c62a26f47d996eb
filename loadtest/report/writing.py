"""A run's folder: writes each report whole or not at all, so that nobody ever reads half a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from loadtest.errors import StoreError
from loadtest.model import RunResult
from loadtest.report import junit, page, result_json

FILES: dict[str, Callable[[RunResult], str]] = {
    "result.json": result_json.render,
    "report.html": page.render,
    "junit.xml": junit.render,
}
"""In the order in which they are written: what pipelines read first comes first."""


def write_reports(result: RunResult, folder: Path) -> list[Path]:
    """Writes all reports of a run and returns their paths, in the order of `FILES`.

    Raises:
        StoreError: the folder or a file in it cannot be written; what was written before stays.
    """
    written = []
    for name, render in FILES.items():
        written.append(write_text(folder / name, render(result)))
    return written


def write_text(path: Path, text: str) -> Path:
    """Writes `path` by way of a file beside it and a rename."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with beside.open("w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(f"cannot write {path}: {reason}", "Choose another folder with --out.") from error
    return path
