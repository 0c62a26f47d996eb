"""The sentences of every report, from plain values. Pure; no format, no markup, no decision.

Words: "lost" in prose, "failed" in tables; "fresh" and "kept" connections; counts never rounded; a certainty is one of
proven, by elimination, consistent with, unknown (for a pod: one of two), never a percentage; no blame.
"""

from __future__ import annotations

from loadtest.model import FailureKind, Outcome
from loadtest.report.amounts import count, duration, label, plural, share, span

BADGES = {Outcome.PASS: "PASS", Outcome.FAIL: "FAIL", Outcome.INCONCLUSIVE: "INCONCLUSIVE"}

LANES = {"new": "fresh", "reused": "kept"}

KINDS = {
    FailureKind.DNS: "name not found",
    FailureKind.CONNECT_REFUSED: "refused",
    FailureKind.CONNECT_TIMEOUT: "connect timeout",
    FailureKind.UNREACHABLE: "no route",
    FailureKind.TLS: "TLS failed",
    FailureKind.RESET_BEFORE_RESPONSE: "reset before answer",
    FailureKind.CLOSED_BEFORE_RESPONSE: "closed before answer",
    FailureKind.RESET_MID_RESPONSE: "reset in answer",
    FailureKind.TRUNCATED: "cut short",
    FailureKind.RESPONSE_TIMEOUT: "no answer in time",
    FailureKind.BAD_RESPONSE: "bad answer",
    FailureKind.HTTP_3XX: "HTTP 3xx",
    FailureKind.HTTP_4XX: "HTTP 4xx",
    FailureKind.HTTP_5XX: "HTTP 5xx",
    FailureKind.WRONG_BODY: "wrong body",
}

EXIT_CODES = {Outcome.PASS: 0, Outcome.FAIL: 1, Outcome.INCONCLUSIVE: 3}


def lane(name: str) -> str:
    """How people call a lane; an unknown one keeps its name."""
    return LANES.get(name, name)


def kind(name: str, status: int = 0) -> str:
    """How people call a failure kind; with its status where the answer arrived whole."""
    if name.startswith("http-"):
        return f"HTTP {status}" if status else name.replace("http-", "HTTP ")
    try:
        return KINDS[FailureKind(name)]
    except ValueError:
        return name


def sentence(text: str) -> str:
    """Upper case first, a full stop last."""
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?…" else ".")


def clause(text: str) -> str:
    """For use after a colon: no full stop, and a lower-case article."""
    text = text.strip().rstrip(".")
    return text[0].lower() + text[1:] if text.startswith(("The ", "A ", "An ", "No ", "Some ", "Too ")) else text


def verdict_of_failures(lost: int, sent: int, *, rollout: bool) -> str:
    """The headline when requests were lost."""
    was = "was" if lost == 1 else "were"
    return f"{count(lost)} of {count(sent)} requests {was} lost" + (" in this rollout" if rollout else "")


def verdict_of_rule(name: str, actual: str) -> str:
    """The headline when another rule is broken."""
    return f"Rule {name} is broken: {actual}" if actual else f"Rule {name} is broken"


def verdict_of_pass(*, sent: int, lost: int, unrelated: int, replaced: int, bound: float, rollout: bool) -> str:
    """The headline of a pass. `replaced`: pods that ended while in use; `bound`: upper 95 % bound of the failure rate."""
    if lost:
        return f"{count(lost)} of {count(sent)} requests {'was' if lost == 1 else 'were'} lost, and every rule holds"
    most = f"(95 %: fewer than {share(bound)})"
    if unrelated:
        return f"No request of {count(sent)} was lost to this rollout; {count(unrelated)} failed as others did before it"
    if rollout and replaced:
        pods = f"{plural(replaced, 'pod')} {_were(replaced)}"
        return f"No request of {count(sent)} was lost while {pods} replaced under load {most}"
    return f"No request of {count(sent)} was lost {most}"


def verdict_of_doubt(reason: str) -> str:
    """The headline of an inconclusive run."""
    return f"Cannot tell: {clause(reason) or 'no reason was given'}"


def interrupted(until: float, *, complete: bool) -> str:
    """What a cut run is worth; "" for a run that was left to finish."""
    return (
        f"The run was interrupted at {label(until)} s: what follows is what was seen until then."
        if complete
        else f"The record of this run ends at {label(until)} s without its closing entry, so it can never be a pass."
    )


def cause_heading(requests: int, title: str) -> tuple[str, str]:
    """("48 lost.", "The pod stops listening at once; …"); a fault that cost nothing says so."""
    return (f"{count(requests)} lost." if requests else "Cost nothing."), sentence(title).rstrip(".")


def share_of_causes(first: int, others: int, other_causes: int) -> str:
    """How the losses spread over causes; "" for one cause."""
    if not others:
        return ""
    return f"{count(first)} by the first cause below, {count(others)} by {plural(other_causes, 'other')}."


def gap(low: float, high: float | None, *, brief: bool = False) -> str:
    """The length of the gap between a pod's stop and the traffic's."""
    length = span(low, high) if high is not None else f"at least {label(low)}"
    return f"still sent to: {length} s" if brief else f"not listening, still sent to for {length} s"


def echoes(number: int) -> str:
    """What an echo is, beside the cause it belongs to."""
    those, own = ("is an echo", "its own: it goes") if number == 1 else ("are echoes", "their own: they go")
    return (
        f"{count(number)} of them {those}: a later connection got the source port of a failed one, and the node still led it "
        f"to the pod that was gone. No fix of {own} away with the cause."
    )


def rule(name: str, *, passed: bool, expected: str, actual: str) -> str:
    """One rule and what came of it."""
    wanted = "" if expected in ("", name) else f"expected {expected}, got "
    return f"Rule {name} {'holds' if passed else 'is broken'}: {wanted}{actual}."


def bound_of_nothing(sent: int, high: float) -> str:
    """What zero failures are worth."""
    return f"0 of {count(sent)}: the true rate is below {share(high)} (95 %)."


def exposure(new: int | None, reused: int | None) -> str:
    """How many terminations a statement rests on; None: that lane was not asked for."""
    if new == reused and new is not None:
        return f"{plural(new, 'exposed termination')} in each lane"
    known = [f"{count(number)} {words}" for number, words in ((new, "fresh"), (reused, "kept")) if number is not None]
    return f"exposed terminations: {', '.join(known) or 'none'}"


def outage(milliseconds: float) -> str:
    """The longest time without a success."""
    return f"Longest time without a success: {duration(milliseconds / 1000)}"


def thinned(listed: int, total: int) -> str:
    """Said where not every failure is drawn."""
    return f"{count(listed)} of {count(total)} failures are drawn and listed; all are counted, all are in run.db."


def _were(number: int) -> str:
    return "was" if number == 1 else "were"
