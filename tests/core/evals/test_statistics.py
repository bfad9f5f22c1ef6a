"""Tests and intervals are exact where they can be, and hold for the smallest numbers."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.evals.statistics import (
    MIN_CASES,
    SIGNIFICANCE,
    FlipMethod,
    further_cases,
    mean_interval,
    mean_stddev,
    paired_effect,
    sign_flip_test,
    wilson,
)

COUNTS = st.integers(0, 60)
# Differences of shares: means of runs with up to six assertions.
SHARES = st.builds(lambda passed, total: min(passed, total) / total, st.integers(0, 30), st.integers(1, 30))
DIFFERENCES = st.builds(lambda ours, theirs: ours - theirs, SHARES, SHARES)
FEW = st.lists(DIFFERENCES, min_size=1, max_size=9)
ANY = st.lists(DIFFERENCES, min_size=2, max_size=24)


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


def enumerated(differences: Sequence[float]) -> float:
    """The share of all choices of signs that lead at least so far from 0."""
    least = abs(sum(differences)) - 1e-7
    sums = [
        abs(sum(sign * each for sign, each in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(each >= least for each in sums) / len(sums)


@given(FEW)
def test_signs_are_counted_exactly(differences: list[float]) -> None:
    assert sign_flip_test(differences) == pytest.approx(enumerated(differences))


def test_sums_that_are_equal_but_for_rounding_are_equal() -> None:
    thirds = [-1 / 3, -1 / 3, 2 / 3, 1]
    assert sign_flip_test(thirds) == enumerated(thirds) == 0.625


@pytest.mark.parametrize(
    ("wins", "losses", "expected"), [(5, 0, 0.0625), (6, 0, 0.03125), (9, 1, 0.02148), (4, 4, 1), (50, 30, 0.03299)]
)
def test_wins_and_losses_are_tested_exactly_whatever_their_number(wins: int, losses: int, expected: float) -> None:
    found = paired_effect([1.0] * wins + [-1.0] * losses + [0.0] * 7)
    assert found.p_value == pytest.approx(expected, abs=1e-5)
    assert found.method is FlipMethod.EXACT


def test_many_cases_with_different_sums_are_sampled_always_alike() -> None:
    chance = random.Random(1)  # noqa: S311 - a reproducible sample
    differences = [chance.gauss(0.1, 0.3) for _ in range(40)]
    found = paired_effect(differences)
    assert found.method is FlipMethod.MONTE_CARLO
    assert found == paired_effect(differences)
    # The sum of flipped signs is nearly normal with so many: two-sided, 2.03 deviations.
    deviations = abs(sum(differences)) / sum(each**2 for each in differences) ** 0.5
    assert found.p_value == pytest.approx(2 * (1 - normal(deviations)), abs=0.01)
    assert paired_effect(differences[:20]).method is FlipMethod.EXACT


def normal(value: float) -> float:
    return 0.5 * (1 + math.erf(value / 2**0.5))


@given(ANY, st.randoms(use_true_random=False))
def test_neither_sides_nor_order_change_the_result(differences: list[float], chance: random.Random) -> None:
    shuffled = differences.copy()
    chance.shuffle(shuffled)
    found, again = paired_effect(differences), paired_effect([-each for each in shuffled])
    assert found.p_value == again.p_value
    assert found.interval is not None
    assert again.interval is not None
    assert found.interval == pytest.approx((-again.interval.high, -again.interval.low))
    assert found.direction == -again.direction


@given(ANY)
def test_an_interval_contains_the_mean_and_is_never_certain(differences: list[float]) -> None:
    interval = mean_interval(differences)
    assert interval is not None
    mean = sum(differences) / len(differences)
    assert -1 <= interval.low <= mean + 1e-9
    assert mean - 1e-9 <= interval.high <= 1
    assert interval.high - interval.low > 1 / len(differences)


@given(ANY)
def test_a_verdict_takes_six_cases_the_test_and_the_interval(differences: list[float]) -> None:
    found = paired_effect(differences)
    if found.direction:
        assert found.cases >= MIN_CASES
        assert found.p_value is not None
        assert found.p_value < SIGNIFICANCE
        assert found.interval is not None
        assert found.interval.low * found.interval.high > 0


def test_none_and_one_have_no_interval() -> None:
    assert mean_interval([]) is mean_interval([1.0]) is None
    assert paired_effect([]).mean is paired_effect([]).p_value is None
    assert sign_flip_test([]) == 1


def test_fewer_cases_decide_a_larger_gain() -> None:
    seen = [0.3, 0.5, 0.0, 0.4]
    small, large = further_cases(seen, 0.1), further_cases(seen, 0.5)
    assert small is not None
    assert large is not None
    assert 2 <= large < small
    assert further_cases(seen, -0.1) == small
    assert further_cases(seen, 0.001) is further_cases(seen, 0.0) is further_cases([], 0.5) is None


def test_cases_that_do_not_differ_do_not_help_to_decide() -> None:
    """Six signs have to be there, so one more case cannot be enough where only four of five differ."""
    assert paired_effect([0.5, 0.5, 0.5, 0.5, 0.0, 0.5]).direction == 0
    assert further_cases([0.5, 0.5, 0.5, 0.5, 0.0], 0.4) == 3
    assert further_cases([0.5, 0.4, 0.6, 0.5, 0.4], 0.48) == 1


def test_the_further_cases_that_are_named_decide_in_most_samples() -> None:
    """At the named number, four of five samples of the same spread are to have a verdict."""
    chance = random.Random(2)  # noqa: S311 - a reproducible sample
    gain, deviation = 0.3, 0.35
    first = [gain - deviation, gain, gain, gain + deviation, gain - deviation, gain + deviation]
    further = further_cases(first, gain)
    assert further is not None
    samples = [[chance.gauss(gain, deviation) for _ in range(6 + further)] for _ in range(400)]
    decided = sum(paired_effect([max(-1, min(1, each)) for each in sample]).direction for sample in samples)
    assert 0.7 < decided / 400 < 0.95


def test_the_spread_is_that_of_a_sample() -> None:
    assert mean_stddev([1.0, 2.0, 3.0]) == (2.0, 1.0, 1.0, 3.0)
    assert mean_stddev([4.0]) == (4.0, 0.0, 4.0, 4.0)
