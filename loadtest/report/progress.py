"""One line for each thing that happens while a run goes on. Pure: the command line decides where and how often they go."""

from __future__ import annotations

from collections.abc import Sequence

from loadtest.model import Phase, Progress
from loadtest.report.amounts import count, duration
from loadtest.report.harmless import visible

_PHASES = {
    Phase.WARMUP: "warm-up: connections are opened",
    Phase.BASELINE: "baseline: load without a change, for comparison",
    Phase.ROLLOUT: "rollout: the change is made under load",
    Phase.SETTLE: "settle: load goes on after the last old pod is gone",
}
LATE_NS = 100_000_000


def phase_line(phase: Phase, at_s: float, detail: str = "") -> str:
    """A phase begins. `at_s`: seconds since the run's start."""
    return _line(at_s, _PHASES[phase] + (f" ({detail})" if detail else ""))


def progress_line(latest: Sequence[Progress]) -> str:
    """How the load stands. `latest`: the newest report of each worker; "" before the first one."""
    if not latest:
        return ""
    sent, failed, dropped, kept = (sum(getattr(one, name) for one in latest) for name in ("sent", "failed", "dropped", "kept"))
    parts = [f"{count(sent)} sent", f"{count(failed)} failed", f"{count(kept)} kept open"]
    newest = next((one.last_failure for one in latest if one.last_failure), "")
    if failed and newest:
        parts[1] += f" ({newest})"
    if dropped:
        parts.append(f"{count(dropped)} never sent")
    late = max(one.worst_lateness_ns for one in latest)
    if late > LATE_NS:
        parts.append(f"load up to {duration(late / 1e9)} late")
    return _line(max(one.at for one in latest) / 1e9, ", ".join(parts))


def rollout_line(at_s: float, message: str) -> str:
    """A step of the rollout, in kubectl's words."""
    return _line(at_s, message.strip())


def pod_line(at_s: float, pod: str, what: str) -> str:
    """Something was seen of a pod, such as "deletion" or "exit 137 OOMKilled"."""
    return _line(at_s, f"pod {pod}: {what}")


def _line(at_s: float, words: str) -> str:
    return visible(f"{at_s:7.1f} s  {words}", 160)
