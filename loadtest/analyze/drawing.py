"""What the page draws: requests over time, who answered when, and the moments to read beside them."""

from __future__ import annotations

from collections import Counter, deque

from loadtest.analyze.pods import ClusterView
from loadtest.analyze.tally import Tally
from loadtest.model import LANE_NAMES, Bin, Drawing, LogLine, Moment, Resource, StoredRun

LOG_LINES = 40
"""Of each pod's log, the last ones: a pod's end is what they are read for."""


def drawing(run: StoredRun, view: ClusterView, tally: Tally, end: int) -> Drawing:
    """What the page draws."""
    failed: dict[tuple[int, int], Counter[str]] = {}
    for row in tally.failed:
        failed.setdefault((row.due // tally.bin_ns, int(row.lane)), Counter())[str(row.kind)] += 1
    # A dropped tick has no lane of its own; it is drawn in the first.
    dropped = Counter((drop.due // tally.bin_ns, 0) for drop in run.drops)
    keys = sorted(tally.ok_bins.keys() | failed.keys() | dropped.keys())
    return Drawing(
        duration=round(end / 1e9, 6),
        bins=tuple(
            Bin(
                start=round(number * tally.bin_ns / 1e9, 6),
                end=round((number + 1) * tally.bin_ns / 1e9, 6),
                lane=LANE_NAMES[lane],
                ok=tally.ok_bins[number, lane],
                dropped=dropped[number, lane],
                failed=dict(sorted(failed.get((number, lane), {}).items())),
            )
            for number, lane in keys
        ),
        ready_endpoints=view.ready_steps,
        answering={
            name: tuple((round(first / 1e9, 6), round(last / 1e9, 6)) for first, last in pod.spans)
            for name, pod in sorted(tally.pods.items())
        },
        moments=_moments(run),
    )


def _moments(run: StoredRun) -> tuple[Moment, ...]:
    found = [Moment(at=round(mark.at / 1e9, 6), kind="mark", subject=mark.name, text=mark.detail) for mark in run.marks]
    for seen in run.seen:
        if seen.resource is Resource.EVENTS and seen.sighting not in ("LISTED", "DELETED", "VANISHED"):
            involved = seen.object.get("involvedObject") or {}
            text = f"{seen.object.get('reason', '')}: {seen.object.get('message', '')}"
            subject = f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"
            found.append(Moment(at=round(seen.seen / 1e9, 6), kind="event", subject=subject, text=text))
    lines: dict[str, deque[LogLine]] = {}
    for line in run.logs:
        lines.setdefault(line.uid or line.pod, deque(maxlen=LOG_LINES)).append(line)
    for kept in lines.values():
        found.extend(Moment(at=round(line.seen / 1e9, 6), kind="log", subject=line.pod, text=line.text) for line in kept)
    return tuple(sorted(found, key=lambda moment: (moment.at, moment.kind, moment.subject, moment.text)))
