"""A whole run from its first check to its reports, and the reports of a saved run made again."""

from __future__ import annotations

import datetime as dt
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loadtest.analyze.conclude import conclude
from loadtest.clock import Clock
from loadtest.cluster.api import ClusterApi
from loadtest.errors import LoadtestError, StoreError
from loadtest.model import LoadPlan, RunInfo, RunResult, Scenario
from loadtest.report.writing import write_reports
from loadtest.run.conduct import Conductor, Say, Tick
from loadtest.run.prepare import Prepared
from loadtest.store import FILE_NAME, RunWriter, read_run

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run with its reports. `trouble`: what ended it early, if anything did."""

    result: RunResult
    folder: Path
    files: tuple[Path, ...]
    trouble: LoadtestError | None = None


async def run_prepared(
    api: ClusterApi,
    prepared: Prepared,
    *,
    out: Path | None,
    version: str,
    command: str,
    clock: Clock,
    say: Say,
    tick: Tick,
    on_conductor: Callable[[Conductor], None],
) -> Path:
    """Conducts the run and leaves its `run.db` closed.

    Args:
        api: the API server.
        prepared: what `prepare` found.
        out: the run's folder; None: `reports/<time>-<name>`.
        version: of the tool.
        command: to run it again, without secrets.
        clock: of the run.
        say: is given a line at each turn.
        tick: is given the load's counts about once a second.
        on_conductor: is given the conductor before it starts, to be able to interrupt it.

    Returns:
        The run's folder.

    Raises:
        RunBrokenError: it ended early; the folder is in it.
        LoadtestError: nothing was begun.
    """
    started = clock.wall_ns()
    name = prepared.scenario.name or prepared.target.deployment
    run_id = f"{dt.datetime.fromtimestamp(started / 1e9, tz=dt.UTC):%Y%m%dt%H%M%S}-{secrets.token_hex(3)}"
    folder = make_folder(out, name, started)
    info = _info(prepared, run_id, name, started, version, command)
    epoch = clock.monotonic_ns()
    writer = RunWriter(folder / FILE_NAME, info)
    conductor = Conductor(
        api, prepared, _plan(prepared.scenario, prepared.target.url, run_id, epoch, version), clock, writer, say, tick
    )
    on_conductor(conductor)
    try:
        await conductor.run()
    except LoadtestError as error:
        raise RunBrokenError(error, folder) from error
    finally:
        writer.close()
    return folder


class RunBrokenError(LoadtestError):
    """A run that ended early. `folder` holds what was seen."""

    def __init__(self, cause: LoadtestError, folder: Path) -> None:
        super().__init__(cause.message, cause.hint)
        self.exit_code = cause.exit_code
        self.folder = folder


def make_reports(path: Path) -> Finished:
    """Analyses a saved run and writes its reports beside it.

    Args:
        path: the run's folder, or its `run.db`.

    Raises:
        StoreError: it cannot be read, or its folder not be written.
    """
    run = read_run(path)
    folder = path if path.is_dir() else path.parent
    result = conclude(run)
    return Finished(result=result, folder=folder, files=tuple(write_reports(result, folder)))


def make_folder(out: Path | None, name: str, started_wall_ns: int) -> Path:
    """The run's folder, made.

    Raises:
        StoreError: it holds a run already, or cannot be made.
    """
    moment = dt.datetime.fromtimestamp(started_wall_ns / 1e9, tz=dt.UTC)
    folder = out if out is not None else Path("reports") / f"{moment:%Y%m%d-%H%M%S}-{_UNSAFE.sub('-', name)[:60]}"
    if (folder / FILE_NAME).exists():
        raise StoreError(f"{folder}: holds a run already", "a run is never overwritten: choose another --out folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be made: {error.strerror}", "choose another folder with --out") from error
    return folder


def _plan(scenario: Scenario, url: str, run_id: str, epoch_ns: int, version: str) -> LoadPlan:
    return LoadPlan(
        run_id=run_id,
        epoch_ns=epoch_ns,
        url=url,
        qps=scenario.qps,
        start_ns=0,
        lanes=scenario.lanes,
        connections=scenario.connections,
        max_connections=scenario.most_connections,
        reuse=scenario.reuse,
        method=scenario.method,
        headers=scenario.headers,
        user_agent=f"rollout-loadtest/{version}",
        body=scenario.body,
        timeout_ns=scenario.timeout_ns,
        request_id=scenario.request_id,
        pod_from=scenario.pod_from,
        expect_status=scenario.expect_status,
        expect_body=scenario.expect_body,
        sender=scenario.sender,
        seed=secrets.randbits(32),
    )


def _info(prepared: Prepared, run_id: str, name: str, started_wall_ns: int, version: str, command: str) -> RunInfo:
    scenario = prepared.scenario
    return RunInfo(
        run_id=run_id,
        tool_version=version,
        started_wall_ns=started_wall_ns,
        name=name,
        scenario=_storable(scenario),
        # A query may hold a token; the path alone says where load went.
        target=replace(prepared.target, url=prepared.target.url.partition("?")[0]),
        trigger=prepared.change.name,
        trigger_detail=prepared.change.detail,
        cluster={
            "server_version": prepared.server_version,
            "context": prepared.context,
            "sandbox": prepared.context == "sandbox",
        },
        missing_rights=prepared.missing,
        command=command,
        undo_command=prepared.change.undo_command,
        min_exposure=scenario.min_exposure,
        accept_luck=scenario.accept_luck,
        assume_path=scenario.assume_path,
    )


def _storable(scenario: Scenario) -> Mapping[str, Any]:
    """The scenario without what may be secret: of headers the names, of a body the size."""
    return {
        "qps": scenario.qps,
        "connections": scenario.connections,
        "max_connections": scenario.most_connections,
        "timeout_s": scenario.timeout_ns / 1e9,
        "lanes": [lane.label for lane in scenario.lanes],
        "reuse": list(scenario.reuse),
        "method": scenario.method,
        "path": scenario.path.partition("?")[0],
        "headers": sorted(name for name, _ in scenario.headers),
        "body_bytes": len(scenario.body),
        "request_id": scenario.request_id,
        "pod_from": f"{scenario.pod_from.source}={scenario.pod_from.value}" if scenario.pod_from else "none",
        "warmup_s": scenario.warmup_ns / 1e9,
        "baseline_s": scenario.baseline_ns / 1e9,
        "settle_s": scenario.settle / 1e9,
        "sender": scenario.sender,
    }
