"""Against values from outside: R's binom.test and fisher.test, and scipy's documented examples."""

from __future__ import annotations

import pytest

from loadtest.analyze.statistics import at_least_of, fisher_excess, quantiles, rate_bounds


@pytest.mark.parametrize(
    ("failed", "sent", "low", "high"),
    [
        (3, 50, 0.0125, 0.1655),  # scipy.stats.binomtest(3, 50).proportion_ci: Clopper and Pearson
        (7, 50, 0.0582, 0.2674),  # the same
        (682, 925, 0.7076683, 0.7654066),  # R, ?binom.test: Mendel's peas, Conover (1971), page 97
        (1, 10, 0.002529, 0.445016),
        (10, 10, 0.691503, 1.0),
    ],
)
def test_clopper_and_pearson(failed: int, sent: int, low: float, high: float) -> None:
    assert rate_bounds(failed, sent) == pytest.approx((low, high), abs=6e-5)


def test_no_failure_is_given_with_its_one_sided_bound_the_rule_of_three() -> None:
    assert rate_bounds(0, 100) == pytest.approx((0.0, 0.029513), abs=1e-6)  # 1 - 0.05^(1/100)
    assert rate_bounds(0, 3000)[1] == pytest.approx(3 / 3000, rel=0.01)


def test_nothing_sent_tells_nothing() -> None:
    assert rate_bounds(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("table", "p"),
    [
        ((3, 4, 1, 4), 0.2428571),  # Fisher's tea tasting, R's ?fisher.test, alternative "greater"
        ((6, 8, 1, 6), 0.0512821),  # scipy.stats.fisher_exact([[6, 2], [1, 5]]), "greater": C(8,6)C(6,1)+C(8,7) of C(14,7)
        ((10, 12, 3, 18), 0.000465181),  # R: Convictions of twins, Fisher (1962), the more extreme tail
    ],
)
def test_fishers_exact_test_one_sided(table: tuple[int, int, int, int], p: float) -> None:
    assert fisher_excess(*table) == pytest.approx(p, rel=1e-5)


def test_the_same_rate_in_both_windows_is_no_excess() -> None:
    assert fisher_excess(10, 1000, 10, 1000) > 0.5
    assert fisher_excess(0, 1000, 10, 1000) == pytest.approx(1.0)
    assert fisher_excess(0, 0, 3, 10) == 1.0


def test_far_more_failures_than_before_are_an_excess() -> None:
    assert fisher_excess(40, 1000, 1, 1000) < 1e-9


def test_large_windows_do_not_overflow() -> None:
    assert 0.0 <= fisher_excess(5000, 1_000_000, 4900, 1_000_000) <= 1.0
    assert rate_bounds(5000, 1_000_000)[0] < 0.005 < rate_bounds(5000, 1_000_000)[1]


def test_at_least_so_many_of_independent_events() -> None:
    assert at_least_of([0.5, 0.5], 1) == pytest.approx(0.75)
    assert at_least_of([0.5, 0.5], 2) == pytest.approx(0.25)
    assert at_least_of([0.9, 0.2], 1) == pytest.approx(0.92)
    assert at_least_of([], 1) == 0.0
    assert at_least_of([], 0) == 1.0


def test_quantiles_are_samples_by_nearest_rank() -> None:
    got = quantiles([ms * 1_000_000 for ms in range(1, 101)], 1e6)
    assert (got.count, got.p50, got.p90, got.p99, got.p99_9, got.max) == (100, 50.0, 90.0, 99.0, 100.0, 100.0)
    assert quantiles([7_000_000], 1e6).p50 == 7.0


def test_quantiles_of_nothing_are_nothing() -> None:
    assert quantiles([], 1e6).max is None
