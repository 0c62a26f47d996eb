"""`report.html`: one file that needs no network, no script and, to be understood, no styles.

Everything that is text goes through Jinja2's autoescape and through `harmless.visible`; figures are made here, as SVG.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup, escape

from loadtest.model import FailedRequest, Finding, Moment, Outcome, PodReport, RunResult
from loadtest.report import amounts, answers, facts, headline, overview, story, svg, timeline, wording
from loadtest.report.harmless import visible, visible_lines
from loadtest.report.lanes import anchor
from loadtest.report.result_json import by_code
from loadtest.report.thin import thin

PICTURES = 4  # causes with a picture of their own
TOLD = 1_000  # Events and log lines listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A finding with its picture."""

    finding: Finding
    number: str
    title: str
    echoes: str
    pictures: tuple[Markup, ...]
    legend: tuple[tuple[Markup, str], ...]


def render(result: RunResult) -> str:
    """The page's text."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(_source),
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        count=amounts.count,
        moment=amounts.moment,
        ms=amounts.milliseconds,
        offset=amounts.offset,
        lines=_lines,
        units=amounts.units,
    )
    return environment.get_template("page.html.j2").render(context(result))


def context(result: RunResult) -> dict[str, Any]:
    """All that the template asks for."""
    listed = thin(result.failed_requests)
    detail = facts.detail_of(result)
    short = facts.short_names([pod.name for pod in result.pods])
    figures = [timeline.draw(result, listed, detail, f"t{index}", narrow=narrow) for index, narrow in enumerate((False, True))]
    whole = [overview.draw(result, detail, f"o{index}", narrow=narrow) for index, narrow in enumerate((False, True))]
    return {
        "css": Markup(_source("page.css")),  # noqa: S704 - our own file
        "shared_patterns": Markup("").join([svg.patterns("g")]),
        "result": result,
        "summary": result.summary,
        "badge": headline.badge(result),
        "tone": result.outcome.value,
        "flags": [word for word, shown in (("INTERRUPTED", result.interrupted), ("INCOMPLETE", not result.complete)) if shown],
        "heading": facts.workload(result),
        "run_line": _run_line(result),
        "verdict": headline.verdict(result),
        "lead": headline.lead(result),
        "notice": headline.notice(result),
        "answers": answers.answers(result),
        "rules": headline.rules(result),
        "footing": headline.footing(result),
        "causes": [_cause(result, finding, index) for index, finding in enumerate(facts.costly(result))],
        "costless": facts.costless(result),
        "overview": [figure for figure in whole if figure is not None],
        "detail": [figure for figure, _ in figures],
        "detail_span": detail,
        "left_out": figures[0][1],
        "legend_entries": _legend(result.failed_requests) + _legend_of_lives(result),
        "failed": [_failed_row(one, short) for one in listed],
        "thinned": wording.thinned(len(listed), len(result.failed_requests)) if len(listed) < len(result.failed_requests) else "",
        "pods": [_pod_row(pod, short[pod.name]) for pod in result.pods],
        "exposed": facts.exposed(result),
        "ended": len(facts.ended_pods(result)),
        "codes": [(code, result.summary.codes[code]) for code in by_code(result.summary.codes)],
        "kinds": [(wording.kind(name), number) for name, number in sorted(result.summary.failures.items())],
        "events": _told(result.drawing.moments, "event", "mark"),
        "logs": _told(result.drawing.moments, "log"),
        "told": TOLD,
        "wording": wording,
        "amounts": amounts,
        "passed": result.outcome is Outcome.PASS,
    }


def _source(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _finalize(value: object) -> object:
    """What every expression of the template goes through before it is escaped."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _lines(text: str) -> Markup:
    """A text of several lines, for `pre`."""
    return Markup("\n").join(escape(line) for line in visible_lines(text))


def _run_line(result: RunResult) -> list[str]:
    load: Mapping[str, Any] = result.scenario.get("load", {}) if isinstance(result.scenario.get("load"), Mapping) else {}
    lanes = [wording.lane(name) for name in facts.lanes(result)]
    parts = [result.rollout.trigger]
    if facts.look(load, "qps"):
        parts.append(f"{facts.look(load, 'qps')} requests/s on {' and '.join(lanes)} connections")
    parts.append(result.started_at)
    version = facts.look(result.cluster, "server_version")
    sandbox = result.cluster.get("sandbox") is True
    parts.append(f"Kubernetes {version.removeprefix('v')}" if version and not sandbox else "built-in sandbox" if sandbox else "")
    parts.append(f"loadtest {result.tool_version}")
    return [part for part in parts if part]


def _cause(result: RunResult, finding: Finding, index: int) -> Cause:
    number, title = wording.cause_heading(finding.requests, finding.title)
    if finding.code == facts.STUCK and not finding.requests:
        number = ""
    drawn = [story.draw(result, finding, f"c{index}{side}", narrow=side == "n") for side in "wn"] if index < PICTURES else []
    return Cause(
        finding=finding,
        number=number,
        title=title,
        echoes=wording.echoes(finding.echoes) if finding.echoes else "",
        pictures=tuple(figure for figure in drawn if figure is not None),
        legend=tuple(_legend([one for one in facts.failures_of(result, finding) if not one.echo])),
    )


def _legend(failed: list[FailedRequest] | tuple[FailedRequest, ...]) -> list[tuple[Markup, str]]:
    """Shape and words of each kind that occurs."""
    found: dict[tuple[str, bool], dict[str, int]] = {}
    for one in failed:
        words = wording.kind(one.kind, one.status)
        group = found.setdefault((svg.family(one.kind), one.echo), {})
        group[words] = group.get(words, 0) + 1
    entries = []
    for (_, echo), group in sorted(found.items(), key=lambda item: (item[0][1], -sum(item[1].values()), item[0])):
        kind = next(one.kind for one in failed if one.echo is echo and wording.kind(one.kind, one.status) in group)
        words = ", ".join(f"{words} ({amounts.count(number)})" for words, number in sorted(group.items()))
        entries.append((_swatch_of_kind(kind, echo=echo), f"echo: {words}" if echo else words))
    return entries


def _swatch_of_kind(kind: str, *, echo: bool) -> Markup:
    shape = svg.el("g", svg.symbol(kind, echo=echo, size=3.6), transform="translate(7 6)")
    return svg.el("svg", shape, width=14, height=12, aria_hidden="true")


def _legend_of_lives(result: RunResult) -> list[tuple[Markup, str]]:
    paints: list[tuple[dict[str, object], str]] = [
        (svg.fill("ok"), "answered requests"),
        (svg.fill("old"), "old pod answers"),
    ]
    if any(pod.revision == "new" for pod in result.pods):
        paints += [(svg.fill("new"), "new pod answers"), (svg.both("bg", "new", 1.5, "4 3"), "ready, unused")]
    if result.summary.dropped:
        paints.append((svg.both("bg", "muted", 0.8, "1 1"), "never sent"))
    if any(pod.stopped_listening.latest is not None for pod in result.pods):
        paints.append((svg.fill("term"), "stops listening within"))
    if any(facts.still_sent(pod, result.failed_requests) for pod in result.pods):
        paints.append(({**svg.stroke("danger"), "fill": "url(#g-hatch)"}, "not listening, still sent to"))
    if result.gaps:
        paints.append(({**svg.stroke("muted"), "fill": "url(#g-dots)"}, "nobody saw changes"))
    return [
        (svg.el("svg", svg.el("rect", x=1, y=1, width=20, height=10, **paint), width=22, height=12, aria_hidden="true"), words)
        for paint, words in paints
    ]


def _failed_row(one: FailedRequest, short: Mapping[str, str]) -> dict[str, Any]:
    names = [short.get(name, visible(name, 22)) for name in one.attribution.pods]
    connected = None if one.connect_s is None or one.connect_s == 0 else one.started + one.connect_s
    return {
        "id": anchor(one),
        "name": f"{wording.lane(one.lane)} #{one.seq}",
        "symbol": _swatch_of_kind(one.kind, echo=one.echo),
        "family": svg.family(one.kind),
        "kind": wording.kind(one.kind, one.status) + (", echo" if one.echo else ""),
        "pod": " or ".join(names) if len(names) < 4 else f"{', '.join(names[:3])} or {len(names) - 3} more",
        "sure": facts.certainty(one.attribution),
        "missing": one.attribution.missing,
        "connected": connected,
        "one": one,
    }


def _pod_row(pod: PodReport, name: str) -> dict[str, Any]:
    ended = pod.deletion is not None or pod.ended is not None
    end = "running" if not ended else "not seen" if pod.exit_code is None else f"{pod.exit_code} {pod.reason}".strip()
    exposure = f"{amounts.count(pod.exposure.new)} fresh, {amounts.count(pod.exposure.reused)} kept" if ended else "did not end"
    return {
        "pod": pod,
        "name": name,
        "failed": amounts.between(pod.failed.sure, pod.failed.at_most),
        "ready": "before start" if pod.created is None and pod.ready is not None else amounts.moment(pod.ready),
        "stopped": amounts.interval(pod.stopped_listening),
        "exposure": exposure,
        "end": end + (f", {amounts.plural(pod.restarts, 'restart')}" if pod.restarts else ""),
    }


def _told(moments: tuple[Moment, ...], *kinds: str) -> list[Moment]:
    return [moment for moment in moments if moment.kind in kinds]
