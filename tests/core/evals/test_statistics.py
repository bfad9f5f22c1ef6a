"""The figures are those of the literature, and hold for the smallest numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.evals.statistics import (
    MIN_DISCORDANT,
    SIGNIFICANCE,
    cases_for_power,
    mcnemar_exact,
    mean_stddev,
    paired_bootstrap,
    wilson,
)

COUNTS = st.integers(0, 60)


@pytest.mark.parametrize(
    ("successes", "total", "low", "high"),
    [(0, 3, 0.0, 0.56), (3, 3, 0.44, 1.0), (18, 20, 0.70, 0.97), (30, 30, 0.89, 1.0), (0, 0, 0.0, 1.0)],
)
def test_the_interval_of_a_rate_is_wilsons(successes: int, total: int, low: float, high: float) -> None:
    assert wilson(successes, total) == pytest.approx((low, high), abs=0.005)


@given(COUNTS, COUNTS)
def test_an_interval_contains_the_rate_and_is_symmetric(successes: int, failures: int) -> None:
    total = successes + failures
    interval, mirrored = wilson(successes, total), wilson(failures, total)
    assert 0 <= interval.low <= (successes / total if total else 0.5) <= interval.high <= 1
    assert interval.low == pytest.approx(1 - mirrored.high)


@pytest.mark.parametrize(("wins", "losses", "expected"), [(5, 0, 0.0625), (6, 0, 0.03125), (9, 1, 0.02148), (4, 4, 1)])
def test_pairs_are_tested_exactly(wins: int, losses: int, expected: float) -> None:
    assert mcnemar_exact(wins, losses) == pytest.approx(expected, abs=1e-5)


@given(COUNTS, COUNTS)
def test_the_test_has_no_side_and_too_few_pairs_are_never_significant(wins: int, losses: int) -> None:
    assert mcnemar_exact(wins, losses) == mcnemar_exact(losses, wins)
    assert 0 < mcnemar_exact(wins, losses) <= 1
    if wins + losses < MIN_DISCORDANT:
        assert mcnemar_exact(wins, losses) >= SIGNIFICANCE


@pytest.mark.parametrize(
    ("with_rate", "without_rate", "expected"),
    [(0.9, 0.3, 13), (0.9, 0.5, 25), (0.8, 0.5, 46), (0.9, 0.7, 75), (0.8, 0.6, 95), (0.8, 0.7, 315)],
)
def test_the_number_of_cases_for_a_difference(with_rate: float, without_rate: float, expected: int) -> None:
    found = cases_for_power(with_rate, without_rate)
    assert found is not None
    assert found == pytest.approx(expected, rel=0.08)
    assert found == cases_for_power(without_rate, with_rate)


def test_equal_arms_need_more_cases_than_there_can_be() -> None:
    assert cases_for_power(0.5, 0.5) is None
    assert cases_for_power(0.5, 0.5001) is None
    assert cases_for_power(1.0, 0.0) == MIN_DISCORDANT


def test_the_spread_is_that_of_a_sample() -> None:
    assert mean_stddev([1.0, 2.0, 3.0]) == (2.0, 1.0, 1.0, 3.0)
    assert mean_stddev([4.0]) == (4.0, 0.0, 4.0, 4.0)


def test_the_bootstrap_is_over_cases_and_reproducible() -> None:
    differences = [0.0, 0.5, 1.0, 0.25, 0.75, 0.5]
    interval = paired_bootstrap(differences)
    assert interval is not None
    assert interval == paired_bootstrap(differences)
    assert 0 < interval.low < 0.5 < interval.high < 1
    assert paired_bootstrap([1.0] * 5) == (1.0, 1.0)
    assert paired_bootstrap([1.0]) is None
