r"""`result.json`: the conclusion for machines, in the shape that `result.schema.json` (beside this file) describes.

The same result gives the same bytes: fixed keys in a fixed order, mappings sorted, floats rounded to 6 decimals, ASCII only
(everything else as `\uXXXX`, so that a name with a terminal's control characters is harmless to print). Times are seconds
since the run's start unless a name says otherwise. Strings are kept as they came: this file is data, not a text to read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from loadtest.model import FailedRequest, Finding, Interval, PodReport, Quantiles, Rollout, RunResult, Summary, Window
from loadtest.report.thin import LIMIT, thin

DECIMALS = 6


def render(result: RunResult) -> str:
    """The text of the file."""
    return json.dumps(document(result), indent=2, allow_nan=False) + "\n"


def document(result: RunResult) -> dict[str, Any]:
    """The same as dicts, lists, strings and numbers."""
    listed = thin(result.failed_requests, LIMIT)
    raw: dict[str, Any] = {
        "schema": result.schema,
        "run_id": result.run_id,
        "tool_version": result.tool_version,
        "started_at": result.started_at,
        "name": result.name,
        "complete": result.complete,
        "interrupted": result.interrupted,
        "command": result.command,
        "scenario": _sorted(result.scenario),
        "cluster": _sorted(result.cluster),
        "outcome": result.outcome.value,
        "reason": result.reason,
        "checks": [
            {"name": check.name, "expected": check.expected, "actual": check.actual, "passed": check.passed}
            for check in result.checks
        ],
        "summary": _summary(result.summary),
        "windows": [_window(window) for window in result.windows],
        "rollout": _rollout(result.rollout),
        "pods": [_pod(pod) for pod in result.pods],
        "findings": [_finding(finding) for finding in result.findings],
        "gaps": [{"start": gap.start, "end": gap.end, "resource": gap.resource, "reason": gap.reason} for gap in result.gaps],
        "limits": list(result.limits),
        "failed_requests_total": len(result.failed_requests),
        "failed_requests": [_failed(one) for one in listed],
    }
    plain: dict[str, Any] = _plain(raw)
    return plain


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        "due": summary.due,
        "sent": summary.sent,
        "dropped": _sorted(summary.dropped),
        "open": summary.open,
        "lost": summary.lost,
        "ok": summary.ok,
        "failed": summary.failed,
        "codes": {code: summary.codes[code] for code in by_code(summary.codes)},
        "failures": _sorted(summary.failures),
        "lanes": {name: {"sent": lane.sent, "failed": lane.failed} for name, lane in sorted(summary.lanes.items())},
        "masked_by_retry": _sorted(summary.masked_by_retry),
        "saved_by_tcp": summary.saved_by_tcp,
        "longest_outage_ms": summary.longest_outage_ms,
        "failure_rate_95": list(summary.failure_rate_95),
        "latency_ms": _quantiles(summary.latency_ms),
        "connect_ms": _quantiles(summary.connect_ms),
        "lateness_us": _quantiles(summary.lateness_us),
    }


def by_code(codes: Mapping[str, int]) -> list[str]:
    """Codes in the order of their numbers: -1, 200, 503; what is no number last."""
    return sorted(codes, key=lambda code: (0, int(code), "") if code.lstrip("-").isdecimal() else (1, 0, code))


def _quantiles(quantiles: Quantiles) -> dict[str, Any]:
    return {
        "count": quantiles.count,
        "p50": quantiles.p50,
        "p90": quantiles.p90,
        "p99": quantiles.p99,
        "p99_9": quantiles.p99_9,
        "max": quantiles.max,
    }


def _window(window: Window) -> dict[str, Any]:
    return {
        "name": window.name,
        "start": window.start,
        "end": window.end,
        "sent": window.sent,
        "failed": window.failed,
        "lanes": {name: {"sent": lane.sent, "failed": lane.failed} for name, lane in sorted(window.lanes.items())},
        "latency_ms": _quantiles(window.latency_ms),
    }


def _rollout(rollout: Rollout) -> dict[str, Any]:
    return {
        "trigger": rollout.trigger,
        "started": rollout.started,
        "completed": rollout.completed,
        "old_pods_gone": rollout.old_pods_gone,
        "min_ready_endpoints": rollout.min_ready_endpoints,
        "no_ready_endpoint_s": rollout.no_ready_endpoint_s,
        "message": rollout.message,
        "undo_command": rollout.undo_command,
    }


def _interval(interval: Interval) -> dict[str, Any]:
    return {"earliest": interval.earliest, "latest": interval.latest}


def _pod(pod: PodReport) -> dict[str, Any]:
    return {
        "name": pod.name,
        "uid": pod.uid,
        "revision": pod.revision,
        "address": pod.address,
        "node": pod.node,
        "created": pod.created,
        "started": pod.started,
        "ready": pod.ready,
        "deletion": pod.deletion,
        "endpoint_not_ready": pod.endpoint_not_ready,
        "endpoint_removed": pod.endpoint_removed,
        "stopped_listening": _interval(pod.stopped_listening),
        "ended": pod.ended,
        "gone": pod.gone,
        "first_request": pod.first_request,
        "last_request": {"new": pod.last_request.new, "reused": pod.last_request.reused},
        "exposure": {"new": pod.exposure.new, "reused": pod.exposure.reused},
        "served": pod.served,
        "failed": {"sure": pod.failed.sure, "at_most": pod.failed.at_most},
        "exit_code": pod.exit_code,
        "reason": pod.reason,
        "node_finished_at": pod.node_finished_at,
        "restarts": pod.restarts,
        "grace_s": pod.grace_s,
        "prestop": pod.prestop,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "title": finding.title,
        "explanation": finding.explanation,
        "fix": finding.fix,
        "fix_yaml": finding.fix_yaml,
        "requests": finding.requests,
        "echoes": finding.echoes,
        "pods": [{"name": pod.name, "sure": pod.sure, "at_most": pod.at_most} for pod in finding.pods],
        "window": {"start": finding.window.earliest, "end": finding.window.latest},
        "evidence": [{"certainty": item.certainty, "text": item.text} for item in finding.evidence],
        "ruled_out": list(finding.ruled_out),
    }


def _failed(one: FailedRequest) -> dict[str, Any]:
    return {
        "worker": one.worker,
        "seq": one.seq,
        "due": one.due,
        "started": one.started,
        "written": one.written,
        "first_byte": one.first_byte,
        "ended": one.ended,
        "lane": one.lane,
        "reused": one.reused,
        "kind": one.kind.value,
        "status": one.status,
        "port": one.port,
        "connection": one.connection,
        "connect_s": one.connect_s,
        "received": one.received,
        "errno": one.errno,
        "answers_before": one.answers_before,
        "phase": one.phase,
        "attribution": {
            "how": one.attribution.how.value,
            "pods": list(one.attribution.pods),
            "missing": one.attribution.missing,
        },
        "no_listener": one.no_listener,
        "cause": one.cause,
        "echo": one.echo,
        "message": one.message,
    }


def _sorted(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping from elsewhere, with the keys of every level in order."""
    return {str(key): _sorted(value) if isinstance(value, Mapping) else value for key, value in sorted(mapping.items())}


def _plain(value: Any) -> Any:
    """Rounds floats (one that is no number becomes null), turns tuples into lists and other types into their text."""
    if isinstance(value, float):
        return round(value, DECIMALS) + 0.0 if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, (bool, int)) else str(value)
