"""What must be right before anything is sent, as far as it is decided without a cluster."""

from __future__ import annotations

import pytest

from loadtest.errors import StoreError, UsageError
from loadtest.model import Lane, Scenario
from loadtest.run.finish import make_folder
from loadtest.run.prepare import dry_run_lines, ports_suffice
from tests.unit.cli.test_words import prepared


def test_a_rate_of_fresh_connections_that_runs_out_of_ports_is_refused() -> None:
    with pytest.raises(UsageError, match="source ports"):
        ports_suffice(Scenario(deployment="web", qps=2000))


def test_the_same_rate_on_kept_connections_is_not() -> None:
    ports_suffice(Scenario(deployment="web", qps=2000, lanes=(Lane.REUSED,)))


def test_half_the_rate_is_fresh_with_both_lanes() -> None:
    ports_suffice(Scenario(deployment="web", qps=900))
    with pytest.raises(UsageError):
        ports_suffice(Scenario(deployment="web", qps=900, lanes=(Lane.NEW,)))


def test_the_limit_of_connections_covers_a_time_out_of_all_of_them() -> None:
    assert Scenario(deployment="web", qps=32, connections=8).most_connections == 168
    assert Scenario(deployment="web", qps=1, connections=8).most_connections == 80
    assert Scenario(deployment="web", max_connections=9).most_connections == 9


def test_load_goes_on_for_longer_than_a_time_out_after_the_last_old_pod() -> None:
    assert Scenario(deployment="web").settle == 10_000_000_000
    assert Scenario(deployment="web", timeout_ns=30_000_000_000).settle == 32_000_000_000


def test_a_dry_run_names_address_rights_trigger_phases_and_requests() -> None:
    lines = dry_run_lines(prepared("kind-kind"))
    for word in ("address", "rights", "trigger", "phases", "requests"):
        assert any(line.startswith(word) for line in lines)
    assert any("nothing is sent" in line for line in lines)


def test_a_folder_that_holds_a_run_is_never_used_again(tmp_path: object) -> None:
    from pathlib import Path

    assert isinstance(tmp_path, Path)
    (tmp_path / "run.db").touch()
    with pytest.raises(StoreError, match="holds a run already"):
        make_folder(tmp_path, "web", 0)


def test_a_hostile_name_makes_a_harmless_folder(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    assert isinstance(tmp_path, Path)
    monkeypatch.chdir(tmp_path)
    folder = make_folder(None, "../../etc\n$(x)", 0)
    assert folder.parent == Path("reports")
    assert folder.resolve().parent == tmp_path / "reports"
