"""What a finding says: title, two plain sentences, the fix with this run's number, and its patch for this Deployment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadtest.analyze.diagnose import KEPT_CONNECTIONS_CUT, Diagnosed, Excess
from loadtest.analyze.facts import SIGNAL_EXITS, PodFacts
from loadtest.analyze.pods import ClusterView


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that an explanation may refer to.

    Attributes:
        wait_s: the preStop wait to advise (`design.md`, decision 12).
        lag_s: the longest lag seen that it is made from; `terminations`: in how many it was seen.
        longest_request_s: the slowest whole answer.
        exec_form: the cluster is older than 1.30 and has no native sleep (KEP-3960: beta and on by default in 1.30).
        no_ready_s: seconds without a ready endpoint in the slices; `min_ready`: their lowest number.
        outage_s: longest time without an answered request.
    """

    view: ClusterView
    facts: Mapping[str, PodFacts]
    excesses: Sequence[Excess]
    deployment: str
    wait_s: int
    lag_s: float
    terminations: int
    longest_request_s: float
    exec_form: bool
    no_ready_s: float
    min_ready: int | None
    outage_s: float


def plural(count: int, word: str) -> str:
    """A count with its noun."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def words(code: str, own: Sequence[Diagnosed], shown_by: Sequence[str], case: Case) -> tuple[str, str, str, object]:
    """Title, explanation, fix in words, fix as a patch."""
    match code:
        case "exits-at-once":
            return _exits_at_once(own, shown_by, case)
        case "wait-too-short":
            return (
                "The pod waits, but not long enough; traffic keeps coming",
                (
                    "preStop ends and the app stops listening before every proxy has heard of the pod's end. Connections sent "
                    "after that find nobody."
                ),
                f"Wait {case.wait_s} s in preStop{_why_wait(case)}.",
                _wait_patch(case),
            )
        case "late-endpoints":
            return (
                "Traffic keeps coming long after the pod left the endpoints",
                (
                    f"Fresh connections were still sent to the old pod {case.lag_s:.1f} s after its deletion, though another one "
                    "was ready. Something between the Service and the pod learns of its end late."
                ),
                f"Wait {case.wait_s} s in preStop{_why_wait(case)}, or find what is late.",
                _wait_patch(case),
            )
        case "too-few-ready":
            return _too_few_ready(own, case)
        case "no-readiness-probe":
            return (
                "The new pod counts as ready before it listens",
                (
                    "Its container has no readiness probe, so it is ready once it starts, and the old pod is deleted for it. "
                    "What is sent before the app listens is refused."
                ),
                "Give the container a readiness probe on a path that answers only once the app serves.",
                _container_patch(case, {"readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1}}),
            )
        case "kept-connections-cut" | "drops-connections":
            return _cut(code, own, case)
        case "idle-close-race":
            return (
                "An idle kept connection is closed while a request is on its way",
                (
                    "The server closed the connection within 50 ms of the request being written, and answered nothing. No wait "
                    "helps: a client on a kept connection cannot know."
                ),
                "Answer with `Connection: close` for some seconds before closing idle connections.",
                None,
            )
        case "stale-conntrack":
            return (
                "Echo: reused source ports still lead to a dead pod",
                (
                    "A connection attempt that died leaves an entry in the node's connection table: 120 s. If the kernel gives"
                    " its source port to a later connection, that one goes to the dead pod too."
                ),
                "No fix of its own: it goes away with the first cause. Wait 130 s between two lossy runs.",
                None,
            )
        case "not-the-rollout":
            return _not_the_rollout(case)
        case _:
            return (
                "Failed in this rollout, cause not known",
                (
                    "The facts fit no cause that this version can tell apart from its neighbours. The failed requests are listed "
                    "with all that is known of each."
                ),
                "Look at the pods' ends and the requests listed; no fix is proposed without a cause.",
                None,
            )


def _exits_at_once(own: Sequence[Diagnosed], shown_by: Sequence[str], case: Case) -> tuple[str, str, str, object]:
    names = {name for one in own for name in one.one.attribution.pods} | set(shown_by)
    ended = [case.facts[name] for name in names if name in case.facts]
    by_signal = any(one.pod.exit_code in SIGNAL_EXITS for one in ended)
    what = "exits" if by_signal else "stops listening"
    until = f"traffic keeps coming for up to {case.lag_s:.1f} s" if case.lag_s else "it went well by luck of timing"
    return (
        f"The pod {what} at once; {until}",
        (
            f"The app {what} as soon as it gets SIGTERM, with no wait before. The proxies learn of it only then, so what "
            "they still send to the pod is cut, refused or lost."
        ),
        f"Wait {case.wait_s} s in preStop{_why_wait(case)}, and let the app finish its open requests.",
        _wait_patch(case),
    )


def _too_few_ready(own: Sequence[Diagnosed], case: Case) -> tuple[str, str, str, object]:
    nobody = f"no endpoint was ready for {case.no_ready_s:.1f} s" if case.no_ready_s else "no pod was left to answer"
    if own:
        text = (
            "The last pod that listened stopped before another one could answer. "
            f"{nobody.capitalize()}; requests saw {case.outage_s:.1f} s without an answer."
        )
    else:
        text = (
            f"{nobody.capitalize()}, but the old pod went on serving while it terminated, so nothing was lost. "
            "A slower start of the new pod would have been an outage."
        )
    patch = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}}}
    return (
        f"The rollout leaves too few pods: {nobody}",
        text,
        "Let the new pod be ready before an old one goes: maxUnavailable 0 and maxSurge 1"
        + (", and run at least 2 replicas." if (case.view.replicas or 0) < 2 else "."),
        patch,
    )


def _cut(code: str, own: Sequence[Diagnosed], case: Case) -> tuple[str, str, str, object]:
    seen = plural(len(own), "request") if own else "No request"
    if code == KEPT_CONNECTIONS_CUT:
        title = "The pod dies with kept connections in use"
        text = (
            "Fresh connections had already gone elsewhere, but a kept connection stays with its pod: its address is translated "
            f"once, when it is opened. SIGTERM then ended the process at once; {seen.lower()} on kept connections died with it."
        )
    else:
        title = "The pod ends with requests unfinished"
        text = (
            "The app handles SIGTERM and exits by itself, but closes connections on which requests were still unanswered; "
            f"{seen.lower()} died that way. A client that repeats on a dropped connection would hide them."
        )
    grace = _grace(case)
    return (
        title,
        text,
        (
            "After SIGTERM go on answering with `Connection: close` and exit once no connection is open; a longer wait alone "
            "does not help."
        ),
        {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": grace}}}},
    )


def _not_the_rollout(case: Case) -> tuple[str, str, str, object]:
    compared = "; ".join(
        f"{one.shape[0]}{f' {one.shape[1]}' if one.shape[1] else ''}: {one.failed} of {one.sent} in the rollout, "
        f"{one.baseline_failed} of {one.baseline_sent} before it (p = {one.p:.2f})"
        for one in case.excesses
        if not one.significant
    )
    return (
        "These failures were there before the rollout",
        "The same failures came before anything was rolled, and the rollout had no more of them than chance explains. "
        + (f"{compared[:1].upper()}{compared[1:]}." if compared else "They ended before the trigger was sent."),
        "Not this rollout's: look for it in the service itself, its dependencies or the network.",
        None,
    )


def _why_wait(case: Case) -> str:
    if not case.lag_s:
        return " (none was seen to lag; 5 s is the least that is advised)"
    times = plural(case.terminations, "termination")
    return f": twice the longest lag seen (up to {case.lag_s:.2f} s in {times}), and not under 5 s"


def _grace(case: Case) -> int:
    return max(30, math.ceil(case.wait_s + case.longest_request_s + 5))


def _container_patch(case: Case, content: Mapping[str, object]) -> object:
    return {"spec": {"template": {"spec": {"containers": [{"name": case.view.container, **content}]}}}}


def _wait_patch(case: Case) -> object:
    hook: dict[str, object] = {"sleep": {"seconds": case.wait_s}}
    if case.exec_form:
        hook = {"exec": {"command": ["sleep", str(case.wait_s)]}}
    return {
        "spec": {
            "template": {
                "spec": {
                    "terminationGracePeriodSeconds": _grace(case),
                    "containers": [{"name": case.view.container, "lifecycle": {"preStop": hook}}],
                }
            }
        }
    }
