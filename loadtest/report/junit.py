"""`junit.xml`: one testcase for each rule and each cause, so that a pipeline shows them by name.

A cause that cost requests fails only in a run that failed; one that cost nothing passes with its text in `system-out`. An
inconclusive or cut run gets a testcase with an *error*: it is neither green nor a failure of what was tested.
"""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from loadtest.model import Check, Finding, Outcome, RunResult
from loadtest.report import facts, headline, wording
from loadtest.report.amounts import plural
from loadtest.report.harmless import visible, visible_lines

SUITE = "loadtest"


def render(result: RunResult) -> str:
    """The text of the file, in UTF-8. Characters that XML cannot hold stand as escapes."""
    cases = [_rule(check) for check in result.checks]
    cases += [_cause(result, finding) for finding in result.findings]
    if result.outcome is Outcome.INCONCLUSIVE or not result.complete:
        cases.append(_case("outcome", _child("error", headline.verdict(result), headline.notice(result) or result.reason)))
    elif result.outcome is Outcome.FAIL and not any("<failure" in case for case in cases):
        cases.append(_case("outcome", _child("failure", headline.verdict(result), result.reason)))
    failures = sum("<failure" in case for case in cases)
    errors = sum("<error" in case for case in cases)
    counts = f'tests="{len(cases)}" failures="{failures}" errors="{errors}" skipped="0"'
    seconds = f"{facts.axis_of(result).end:.3f}"
    stamp = quoteattr(visible(result.started_at).removesuffix("Z"))
    name = quoteattr(f"{SUITE} {visible(facts.workload(result), 120)}")
    body = "\n".join(cases)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites name="{SUITE}" {counts} time="{seconds}">\n'
        f'<testsuite name={name} {counts} time="{seconds}" timestamp={stamp}>\n'
        f"{body}\n</testsuite>\n</testsuites>\n"
    )


def _rule(check: Check) -> str:
    words = wording.rule(check.name, passed=check.passed, expected=check.expected, actual=check.actual)
    return _case(f"rule: {check.name}", "" if check.passed else _child("failure", words, words), "rules")


def _cause(result: RunResult, finding: Finding) -> str:
    text = "\n".join(
        part for part in (finding.explanation, f"Fix: {finding.fix}" if finding.fix else "", finding.fix_yaml) if part
    )
    cost = f"{plural(finding.requests, 'request')} lost: {finding.title}" if finding.requests else finding.title
    charged = finding.code == facts.STUCK or (finding.requests > 0 and finding.code != facts.UNRELATED)
    if charged and result.outcome is Outcome.FAIL:
        return _case(finding.code, _child("failure", cost, text), "causes")
    return _case(finding.code, _child("system-out", "", f"{cost}\n{text}"), "causes")


def _case(name: str, inside: str, group: str = "run") -> str:
    return f'<testcase classname="{SUITE}.{group}" name={quoteattr(visible(name, 200))} time="0">{inside}</testcase>'


def _child(tag: str, message: str, text: str) -> str:
    attribute = f" message={quoteattr(visible(message, 400))}" if message else ""
    return f"<{tag}{attribute}>{escape(chr(10).join(visible_lines(text)))}</{tag}>"
