from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from typing import Any

import jsonschema
import pytest

from loadtest.model import FailureKind, Outcome, RunResult
from loadtest.report import result_json
from tests.unit.report.hard_runs import hostile_run, large_run
from tests.unit.report.runs import RUNS, failed_run

SCHEMA: dict[str, Any] = json.loads(resources.files("loadtest.report").joinpath("result.schema.json").read_text(encoding="utf-8"))


def small_run() -> RunResult:
    run = failed_run()
    return replace(run, failed_requests=(run.failed_requests[0], run.failed_requests[30], run.failed_requests[-1]))


def test_the_same_result_gives_the_same_bytes(golden: Callable[[str, str], None]) -> None:
    text = result_json.render(small_run())
    assert text == result_json.render(small_run())
    golden("result.json", text)


def test_the_schema_itself_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", [*RUNS, "hostile", "large"])
def test_every_run_fits_the_schema(name: str) -> None:
    run = {**RUNS, "hostile": hostile_run, "large": large_run}[name]()
    jsonschema.validate(json.loads(result_json.render(run)), SCHEMA)


def test_the_schema_names_every_key_that_is_written() -> None:
    missing = list(_undescribed(result_json.document(failed_run()), SCHEMA, "result"))
    assert not missing


def test_the_schema_knows_every_kind_and_outcome() -> None:
    assert SCHEMA["$defs"]["kind"]["enum"] == [kind.value for kind in FailureKind]
    assert SCHEMA["properties"]["outcome"]["enum"] == [outcome.value for outcome in Outcome]


def test_the_order_of_mappings_does_not_matter() -> None:
    run = failed_run()
    summary = replace(run.summary, codes=dict(reversed([*run.summary.codes.items()])))
    turned = replace(run, scenario=dict(reversed([*run.scenario.items()])), summary=summary)
    assert result_json.render(turned) == result_json.render(run)


def test_codes_are_in_the_order_of_their_numbers() -> None:
    assert result_json.by_code({"503": 1, "-1": 2, "200": 3, "odd": 1}) == ["-1", "200", "503", "odd"]


def test_floats_are_rounded_and_what_is_no_number_is_null() -> None:
    run = failed_run()
    summary = replace(run.summary, longest_outage_ms=1.23456789, latency_ms=replace(run.summary.latency_ms, p99=float("nan")))
    found = result_json.document(replace(run, summary=summary))["summary"]
    assert found["longest_outage_ms"] == 1.234568
    assert found["latency_ms"]["p99"] is None


def test_at_most_two_thousand_failures_are_listed_and_all_are_counted() -> None:
    found = result_json.document(large_run(5_000))
    assert len(found["failed_requests"]) == 2_000
    assert found["failed_requests_total"] == 5_000


def test_the_file_is_harmless_to_print_and_loses_nothing() -> None:
    text = result_json.render(hostile_run())
    assert text.isascii()
    assert all(character.isprintable() or character == "\n" for character in text)
    assert json.loads(text)["pods"][0]["name"] == hostile_run().pods[0].name


def _undescribed(value: Any, schema: dict[str, Any], where: str) -> Any:
    if "$ref" in schema:
        schema = {**SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], **schema}
    if isinstance(value, dict):
        free = schema.get("additionalProperties")
        for key, inner in value.items():
            described = schema.get("properties", {}).get(key)
            if described is not None:
                yield from _undescribed(inner, described, f"{where}.{key}")
            elif isinstance(free, dict):
                yield from _undescribed(inner, free, f"{where}.{key}")
            elif "properties" in schema:
                yield f"{where}.{key}"
    elif isinstance(value, list):
        for inner in value:
            yield from _undescribed(inner, schema["items"], f"{where}[]")
