"""The laws of ARCHITECTURE.md, asserted on a stored run: of any kind, whatever its outcome."""

from __future__ import annotations

from collections import Counter

from loadtest.columns import ABSENT
from loadtest.model import RunResult, StoredRun


def assert_laws(run: StoredRun, result: RunResult) -> None:
    """Laws 1, 2, 4 and 5."""
    records: Counter[int] = Counter()
    failed = 0
    codes: Counter[str] = Counter()
    for block in run.requests:
        columns = block.columns
        records.update(columns["seq"])
        failed += sum(1 for kind in columns["kind"] if kind)
        for due, *moments in zip(*(columns[name] for name in ("due", "started", "written", "first_byte", "ended")), strict=True):
            present = [moment for moment in moments if moment != ABSENT]
            assert present == sorted(present), "law 2: the times of a request are in order"
            assert present[0] >= due, "law 2: nothing is started before it is due"
    sent = sum(records.values())
    records.update(drop.seq for drop in run.drops)
    records.update(request.seq for request in run.open)
    summary = result.summary
    assert max(records.values(), default=0) <= 1, "law 1: no tick has two records"
    assert summary.due == summary.sent + sum(summary.dropped.values()) + summary.open + summary.lost, "law 1: every tick has one"
    assert len(records) + summary.lost == summary.due, "law 1: the summary's ticks are those of the file"
    assert len(result.failed_requests) == failed, "law 4: each failed request is listed"
    keys = {(request.worker, request.seq) for request in result.failed_requests}
    assert len(keys) == failed, "law 4: exactly once"
    for request in result.failed_requests:
        pods = request.attribution.pods
        assert pods or request.attribution.missing, "law 4: unknown says what is missing"
        assert len(set(pods)) == len(pods), "law 4: a set of pods names each once"
    assert sum(finding.requests for finding in result.findings) == failed, "a failed request is counted under one cause"
    assert summary.sent == sent, "law 5"
    assert summary.ok + summary.failed == sent, "law 5"
    assert summary.failed == failed, "law 5"
    codes.update(summary.codes)
    assert sum(codes.values()) == sent, "law 5: codes add up to what was sent"
    assert sum(summary.failures.values()) == failed, "law 5"
    assert sum(lane.sent for lane in summary.lanes.values()) == sent, "law 5"
    assert sum(window.sent for window in result.windows) == sent, "law 5"
