"""Statistics of evals: intervals and tests that small numbers can carry, from the standard library alone.

- Wilson's score interval for rates (E. B. Wilson, 1927), which holds for few runs and for rates of 0 and 1.
- McNemar's exact test for pairs (Q. McNemar, 1947): the same case with and without the skill.
- The percentile bootstrap over cases for differences of scores (B. Efron, 1979).
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

SIGNIFICANCE: Final = 0.05
"""Below this probability a difference counts as real."""

MIN_DISCORDANT: Final = 6
"""Fewest cases that must come out differently in both arms: with fewer, the exact test cannot be significant."""

_MAX_FAILED: Final = 0.1
# With a larger share of runs without a result, those that are left do not stand for all.

_Z = statistics.NormalDist().inv_cdf(1 - SIGNIFICANCE / 2)

_RESAMPLES = 5000

_MAX_CASES = 3000
# More cases than any author writes.

_REACH = 7
# Standard deviations beyond which a number of discordant pairs is left out of a sum.


class Interval(NamedTuple):
    """A 95 % interval; both ends belong to it."""

    low: float
    high: float


class Spread(NamedTuple):
    """Mean, sample standard deviation, smallest and largest of some values."""

    mean: float
    stddev: float
    min: float
    max: float


def too_many_failed(failed: int, total: int) -> bool:
    """Tell whether more than a tenth of the runs have no result, so that there is no verdict."""
    return failed > _MAX_FAILED * total


def wilson(successes: int, total: int) -> Interval:
    """Return the interval of a rate; the whole range if there are no runs."""
    if total == 0:
        return Interval(0.0, 1.0)
    rate, square = successes / total, _Z * _Z / total
    middle = (rate + square / 2) / (1 + square)
    half = _Z * math.sqrt(rate * (1 - rate) / total + square / total / 4) / (1 + square)
    # Rounding must not move the ends of 0 and 1.
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    return Interval(low, 1.0 if successes == total else min(1.0, middle + half))


def mcnemar_exact(wins: int, losses: int) -> float:
    """Return the two-sided probability of a split at least as uneven, if both arms were equally good.

    `wins` are the cases that pass only in the first arm, `losses` those that pass only in the second; cases with equal
    outcomes say nothing.
    """
    total = wins + losses
    return min(1.0, 2 * sum(_binomial(total, count, 0.5) for count in range(min(wins, losses) + 1)))


def cases_for_power(with_rate: float, without_rate: float, power: float = 0.8) -> int | None:
    """Return how many cases, run once in each arm, show such a difference with this power; None beyond any eval.

    The outcomes of both arms count as independent; cases that are alike in both arms need fewer.
    """
    win, loss = with_rate * (1 - without_rate), without_rate * (1 - with_rate)
    if with_rate == without_rate:
        return None
    # The power rises with the number of cases, but for small steps of the exact test.
    least, most = MIN_DISCORDANT, MIN_DISCORDANT
    while _power(most, win, loss) < power:
        least, most = most, most * 2
        if most > _MAX_CASES:
            return None
    return next(cases for cases in range(least, most + 1) if _power(cases, win, loss) >= power)


def _power(cases: int, win: float, loss: float) -> float:
    """Return the probability that so many cases give a significant result."""
    discordant = win + loss
    middle, reach = cases * discordant, _REACH * math.sqrt(cases * discordant * (1 - discordant)) + 1
    first, last = max(MIN_DISCORDANT, int(middle - reach)), min(cases, int(middle + reach) + 1)
    return sum(
        _binomial(cases, pairs, discordant) * _significant(pairs, win / discordant) for pairs in range(first, last + 1)
    )


@lru_cache(maxsize=4096)
def _significant(pairs: int, rate: float) -> float:
    """Return the probability that so many discordant pairs, each won at a rate, are significantly uneven."""
    most = _critical(pairs)
    uneven = (_binomial(pairs, count, rate) + _binomial(pairs, pairs - count, rate) for count in range(most + 1))
    return sum(uneven)


@lru_cache(maxsize=4096)
def _critical(pairs: int) -> int:
    """Return the largest number of losses (or wins) that is significantly small; -1 if none is."""
    total, count = 0.0, 0
    while 2 * (total := total + _binomial(pairs, count, 0.5)) < SIGNIFICANCE:
        count += 1
    return count - 1


def _binomial(total: int, count: int, rate: float) -> float:
    if rate in (0.0, 1.0):
        return float(count == total * rate)
    logarithm = math.lgamma(total + 1) - math.lgamma(count + 1) - math.lgamma(total - count + 1)
    return math.exp(logarithm + count * math.log(rate) + (total - count) * math.log1p(-rate))


def mean_stddev(values: Sequence[float]) -> Spread:
    """Return the spread of one or more values; the standard deviation of a single value is 0."""
    stddev = statistics.stdev(values) if len(values) > 1 else 0.0
    return Spread(statistics.fmean(values), stddev, min(values), max(values))


def paired_bootstrap(differences: Sequence[float], seed: int = 0) -> Interval | None:
    """Return the interval of the mean of differences, one for each case; None for fewer than two cases."""
    if len(differences) < 2:  # noqa: PLR2004 - one case has no spread
        return None
    if len(set(differences)) == 1:
        mean = statistics.fmean(differences)  # that of each resample
        return Interval(mean, mean)
    chance = random.Random(seed)  # noqa: S311 - a reproducible sample, no secret
    means = sorted(statistics.fmean(chance.choices(differences, k=len(differences))) for _ in range(_RESAMPLES))
    cut = int(_RESAMPLES * SIGNIFICANCE / 2)
    return Interval(means[cut], means[-cut - 1])
