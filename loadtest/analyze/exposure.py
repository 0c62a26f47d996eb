"""Whether pods died while they were in use: without that, zero failures mean nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadtest.analyze.attribute import SETUP_KINDS, Attributed
from loadtest.analyze.pods import ClusterView, PodLife
from loadtest.analyze.statistics import at_least_of
from loadtest.analyze.stops import WATCH_LATENCY_NS
from loadtest.analyze.tally import Tally
from loadtest.columns import ABSENT
from loadtest.model import HowKnown, Lane, StoredRun

FRESH_NS = 50_000_000
"""Where no answer names its pod: a fresh connection this soon after a deletion lies on any endpoint (X is at least 54 ms)."""
SURE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Terminations that a lane was in use for.

    Attributes:
        terminations: how many pods in use were deleted.
        exposed: how many of them surely had connections of this lane (for `computed`: as many as are 95 % sure).
        chance: for `computed`, the chance that as many were exposed as are demanded is worked out from these, one each.
    """

    lane: str
    terminations: int
    exposed: int
    computed: bool = False
    chances: tuple[float, ...] = ()

    def enough(self, wanted: int, *, everyone: bool) -> bool:
        """At least `wanted` terminations were exposed; with session affinity every one."""
        need = max(wanted, self.terminations) if everyone else wanted
        if self.computed:
            return at_least_of(self.chances, need) >= SURE
        return self.exposed >= need

    def sentence(self, wanted: int) -> str:
        """Why it was not enough."""
        lane = (
            "fresh connections were opened to a terminating pod" if self.lane == "new" else "kept connections were open to a pod"
        )
        if not self.terminations:
            return "too little exposure: no pod that was in use was seen to end"
        how = " (computed)" if self.computed else ""
        return f"too little exposure: {lane} in {self.exposed} of {self.terminations} terminations{how}, {wanted} demanded"


@dataclass(slots=True, kw_only=True)
class PodUse:
    """What a pod answered or surely got; starts of requests in ns, None: none.

    `fresh`: connections of the fresh lane that were opened, or tried, to it while it terminated.
    """

    fresh: int = 0
    last_new: int | None = None
    last_reused: int | None = None


def uses(view: ClusterView, tally: Tally, attributed: Sequence[Attributed]) -> dict[str, PodUse]:
    """Each pod's use: its answers, and the failures that surely were its own."""
    found = {
        name: PodUse(fresh=pod.new_after_deletion, last_new=pod.last_new, last_reused=pod.last_reused)
        for name, pod in tally.pods.items()
    }
    lives = view.by_name
    for one in attributed:
        names = one.attribution.pods
        if len(names) != 1 or one.echo_of is not None or names[0] not in lives:
            continue
        use, row = found.setdefault(names[0], PodUse()), one.row
        if row.lane is Lane.REUSED:
            use.last_reused = max(row.started, use.last_reused if use.last_reused is not None else row.started)
            continue
        use.last_new = max(row.started, use.last_new if use.last_new is not None else row.started)
        use.fresh += _while_ending(one, lives[names[0]])
    return found


def _while_ending(one: Attributed, pod: PodLife) -> bool:
    """It was sent when the pod's deletion was known. An attempt that found nobody proves the end, known or not yet."""
    if pod.deletion is None or one.attribution.how is HowKnown.HEADER:  # answers that name it are counted already
        return False
    late = WATCH_LATENCY_NS if one.row.kind in SETUP_KINDS else 0
    return one.row.started >= pod.deletion - late


def exposures(
    run: StoredRun, view: ClusterView, tally: Tally, used: Mapping[str, PodUse], kept: Mapping[str, int], trigger: int | None
) -> tuple[Exposure, ...]:
    """Both lanes' exposure over the old pods that were in use when they were deleted, from the trigger on."""
    since = trigger - WATCH_LATENCY_NS if trigger is not None else 0
    pods = [pod for pod in view.old if pod.deletion is not None and pod.terminating_ready and pod.deletion >= since]
    if tally.named:
        new = sum(1 for pod in pods if used.get(pod.name, PodUse()).fresh > 0)
        reused = sum(1 for pod in pods if kept.get(pod.name, 0) > 0)
        return (
            Exposure(lane="new", terminations=len(pods), exposed=new),
            Exposure(lane="reused", terminations=len(pods), exposed=reused),
        )
    return (
        _computed("new", [_chance(view, pod, _fresh_after(tally, pod)) for pod in pods]),
        _computed("reused", [_chance(view, pod, _kept_at(run, pod)) for pod in pods]),
    )


def _computed(lane: str, chances: Sequence[float]) -> Exposure:
    sure = 0
    while sure < len(chances) and at_least_of(chances, sure + 1) >= SURE:
        sure += 1
    return Exposure(lane=lane, terminations=len(chances), exposed=sure, computed=True, chances=tuple(chances))


def _chance(view: ClusterView, pod: PodLife, connections: int) -> float:
    """Chance that at least one of so many connections lies on one of k endpoints."""
    assert pod.deletion is not None
    before = [step.value for step in view.ready_steps if step.at < pod.deletion / 1e9]
    endpoints = max(1, before[-1] if before else 1)
    return 1.0 - (1.0 - 1.0 / endpoints) ** connections


def _fresh_after(tally: Tally, pod: PodLife) -> int:
    assert pod.deletion is not None
    return sum(1 for at in tally.fresh_times if 0 <= at - pod.deletion <= FRESH_NS)


def _kept_at(run: StoredRun, pod: PodLife) -> int:
    assert pod.deletion is not None
    count = 0
    for block in run.connections:
        columns = block.columns
        for opened, closed, lane in zip(columns["opened"], columns["closed"], columns["lane"], strict=True):
            open_then = opened <= pod.deletion and (closed == ABSENT or closed >= pod.deletion)
            count += lane == Lane.REUSED and open_then
    return count
