"""Exact small-sample statistics: quantiles, the bound of a rate, one-sided Fisher. Pure arithmetic."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence

from loadtest.model import Quantiles


def quantiles(samples: Iterable[int], unit_ns: float) -> Quantiles:
    """Nearest-rank quantiles of nanosecond samples in another unit (1e6: milliseconds), to three decimals."""
    ordered = array("q", sorted(samples))
    if not ordered:
        return Quantiles(count=0, p50=None, p90=None, p99=None, p99_9=None, max=None)

    def at(share: float) -> float:
        return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)] / unit_ns, 3)

    return Quantiles(
        count=len(ordered), p50=at(0.5), p90=at(0.9), p99=at(0.99), p99_9=at(0.999), max=round(ordered[-1] / unit_ns, 3)
    )


def rate_bounds(failed: int, sent: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper-Pearson bounds of a failure rate.

    With no failure the whole error lies on one side: 0 of n is given with its one-sided bound (about 3/n).
    """
    if sent == 0:
        return 0.0, 1.0
    if failed == 0:
        return 0.0, 1.0 - (1.0 - confidence) ** (1.0 / sent)
    tail = (1.0 - confidence) / 2
    low = _solve(lambda p: _at_least(failed, sent, p) - tail)
    high = 1.0 if failed == sent else _solve(lambda p: tail - (1.0 - _at_least(failed + 1, sent, p)))
    return low, high


def _solve(rising: Callable[[float], float]) -> float:
    """Root of a function that rises from below to above zero on [0, 1]."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _at_least(k: int, n: int, p: float) -> float:
    """Chance of k or more successes in n trials. The shorter tail is summed."""
    if k <= 0:
        return 1.0
    if p <= 0.0:
        return 0.0
    if p >= 1.0:
        return 1.0

    def term(i: int) -> float:
        return math.exp(_log_choose(n, i) + i * math.log(p) + (n - i) * math.log1p(-p))

    if k <= n * p:
        return max(0.0, 1.0 - math.fsum(term(i) for i in range(k)))
    total = 0.0
    for i in range(k, n + 1):
        value = term(i)
        total += value
        if value < total * 1e-16:
            break
    return min(1.0, total)


def fisher_excess(failed: int, sent: int, baseline_failed: int, baseline_sent: int) -> float:
    """One-sided Fisher exact test: the chance of at least `failed` of `sent` if both windows had the same rate."""
    total = sent + baseline_sent
    failures = failed + baseline_failed
    if sent == 0 or failures == 0:
        return 1.0
    whole = _log_choose(total, failures)
    highest = min(failures, sent)
    terms = (
        math.exp(_log_choose(sent, i) + _log_choose(baseline_sent, failures - i) - whole)
        for i in range(failed, highest + 1)
        if failures - i <= baseline_sent
    )
    return min(1.0, math.fsum(terms))


def at_least_of(chances: Sequence[float], wanted: int) -> float:
    """Chance that at least `wanted` of independent events with these chances happen."""
    spread = [1.0]
    for chance in chances:
        spread = [
            (spread[i] if i < len(spread) else 0.0) * (1 - chance) + (spread[i - 1] * chance if i else 0.0)
            for i in range(len(spread) + 1)
        ]
    return math.fsum(spread[wanted:])
