from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from loadtest.model import Outcome
from loadtest.report import junit
from tests.unit.report.hard_runs import hostile_run
from tests.unit.report.runs import RUNS, doubtful_run, failed_run, passed_run, stuck_run


def suite(text: str) -> ET.Element:
    found = ET.fromstring(text).find("testsuite")
    assert found is not None
    return found


def cases(text: str) -> dict[str, list[str]]:
    return {case.get("name", ""): [child.tag for child in case] for case in suite(text).iter("testcase")}


def test_one_testcase_for_each_rule_and_each_cause() -> None:
    assert cases(junit.render(failed_run())) == {"rule: failed == 0": ["failure"], "exits-at-once": ["failure"]}


def test_a_fault_that_cost_nothing_passes_with_its_text() -> None:
    found = cases(junit.render(stuck_run()))
    assert found == {"rule: rollout": ["failure"], "rollout-stuck": ["failure"], "exits-at-once": ["system-out"]}


def test_a_pass_has_no_failure() -> None:
    assert cases(junit.render(passed_run())) == {"rule: failed == 0": []}


def test_losses_that_no_rule_forbids_do_not_fail_a_pass() -> None:
    run = replace(failed_run(), outcome=Outcome.PASS, checks=())
    assert cases(junit.render(run)) == {"exits-at-once": ["system-out"]}


def test_doubt_is_an_error_and_not_green() -> None:
    assert cases(junit.render(doubtful_run()))["outcome"] == ["error"]


def test_a_failed_run_is_never_green_even_without_a_broken_rule() -> None:
    run = replace(failed_run(), checks=(), findings=())
    assert cases(junit.render(run)) == {"outcome": ["failure"]}


@pytest.mark.parametrize("name", RUNS)
def test_the_counts_are_those_of_the_testcases(name: str) -> None:
    found = suite(junit.render(RUNS[name]()))
    for attribute, tag in (("failures", "failure"), ("errors", "error")):
        assert int(found.get(attribute, "")) == len(list(found.iter(tag)))
    assert int(found.get("tests", "")) == len(list(found.iter("testcase")))


def test_hostile_text_stays_text() -> None:
    text = junit.render(hostile_run())
    found = suite(text)
    assert not list(found.iter("script"))
    assert r"\x1b[31m</text><script>" in "".join(found.itertext())
