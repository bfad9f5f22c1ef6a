"""Statistics of evals: tests and intervals that small numbers can carry, from the standard library alone.

The unit is the case (or the query): one difference of means for each, because runs of one case depend on each other.

- Sign flips (R. A. Fisher, 1935): if both arms were equally good, each difference could as well have the other sign.
- A t interval of the mean difference, widened by a prior deviation, so that few cases or equal ones never seem certain.
- Wilson's score interval for rates (E. B. Wilson, 1927), which holds for few runs and for rates of 0 and 1.

`bench/eval_verdicts.py` measures how often verdicts are false, how often they arrive, and what the intervals cover.
"""

from __future__ import annotations

import math
import random
import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

SIGNIFICANCE: Final = 0.05
"""Below this probability a difference counts as real."""

MIN_CASES: Final = 6
"""Fewest cases that can decide: with fewer, no exact test of signs is below `SIGNIFICANCE`."""

DIGITS: Final = 4
"""Digits of shares and probabilities in files of results."""

_MAX_FAILED: Final = 0.1
# With a larger share of runs without a result, those that are left do not stand for all.

_Z = statistics.NormalDist().inv_cdf(1 - SIGNIFICANCE / 2)
_Z_POWER = statistics.NormalDist().inv_cdf(0.8)

_PRIOR_DEVIATION: Final = 0.4
# An interval counts one further case, which lies so far from the mean: three or ten cases that happen to be close to
# each other say little about the others. Simulations chose it: without it, coverage falls below 50 % where few cases
# gain all; with more of it, fewer true gains are seen.

_PRIOR_OF_EQUALS: Final = 1.0
# The same if all differences are equal, so that nothing is known of their spread.

_UNIT: Final = 10**9
# Differences are whole numbers of billionths, so that equal sums are equal.

_MOST_SUMS: Final = 2**12
# Different sums of half of the differences, up to which all signs are counted.

_RESAMPLES: Final = 20_000
_SEED: Final = 0

_MOST_CASES: Final = 1000
# More cases than any author writes.


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


class FlipMethod(StrEnum):
    """How a probability was found."""

    EXACT = "exact sign flips"
    MONTE_CARLO = "Monte Carlo sign flips"


class EffectVerdict(StrEnum):
    """Whether the first of two arms, versions or descriptions does better than the second."""

    BETTER = "better"
    WORSE = "worse"
    NONE = "no verdict"


class PairedEffect(NamedTuple):
    """What differences say, one for each case; `interval` is None for fewer than two, all but `cases` for none."""

    cases: int
    mean: float | None
    interval: Interval | None
    p_value: float | None
    method: FlipMethod

    @property
    def direction(self) -> int:
        """1 if the first arm is better, -1 if it is worse, 0 if that cannot be said.

        Both the test and the interval have to say it: the test alone takes a few large losses that it did not see for
        impossible.
        """
        if self.cases < MIN_CASES or self.interval is None or self.p_value is None or self.p_value >= SIGNIFICANCE:
            return 0
        return (self.interval.low > 0) - (self.interval.high < 0)

    @property
    def verdict(self) -> EffectVerdict:
        """The direction in a word."""
        return (EffectVerdict.NONE, EffectVerdict.BETTER, EffectVerdict.WORSE)[self.direction]


def too_many_failed(failed: int, total: int) -> bool:
    """Tell whether more than a tenth of the runs have no result."""
    return failed > _MAX_FAILED * total


def wilson(successes: float, total: int) -> Interval:
    """Return the interval of a rate; the whole range if there are no runs.

    It also holds for the mean of scores from 0 to 1, whose sum is `successes`: they vary at most as much as outcomes.
    """
    if total == 0:
        return Interval(0.0, 1.0)
    rate, square = successes / total, _Z * _Z / total
    middle = (rate + square / 2) / (1 + square)
    half = _Z * math.sqrt(rate * (1 - rate) / total + square / total / 4) / (1 + square)
    # Rounding must not move the ends of 0 and 1.
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    return Interval(low, 1.0 if successes == total else min(1.0, middle + half))


def paired_effect(differences: Sequence[float]) -> PairedEffect:
    """Return the mean of differences of scores, from -1 to 1 and one for each case, with its interval and test."""
    if not differences:
        return PairedEffect(0, None, None, None, FlipMethod.EXACT)
    p_value, method = _sign_flips(differences)
    mean = math.fsum(differences) / len(differences)
    return PairedEffect(len(differences), mean, mean_interval(differences), p_value, method)


def sign_flip_test(differences: Sequence[float]) -> float:
    """Return the two-sided probability of a mean at least as far from 0, if each difference could have either sign.

    It is exact for up to 20 differences, and for any number that have few different sums, as wins and losses have;
    otherwise a sample of signs, the same for the same differences, estimates it. Without differences it is 1.
    """
    return _sign_flips(differences)[0]


def _sign_flips(differences: Sequence[float]) -> tuple[float, FlipMethod]:
    signed = [round(each * _UNIT) for each in differences]
    # Zeros have no sign. The order, and the sign of all, must not change the sample.
    steps = sorted(abs(each) for each in signed if each)
    # As sums of roundings may be off by one for each step.
    least = abs(sum(signed)) - len(steps)
    if least <= 0:
        return 1.0, FlipMethod.EXACT
    halves = _sums(steps[::2]), _sums(steps[1::2])
    if halves[0] is None or halves[1] is None:
        return _sampled(steps, least), FlipMethod.MONTE_CARLO
    return _counted(halves[0], halves[1], least) / 2 ** len(steps), FlipMethod.EXACT


def _sums(steps: Sequence[int]) -> Counter[int] | None:
    """Return how many choices of signs lead to each sum; None if there are too many sums."""
    found = Counter({0: 1})
    for step in steps:
        reached: Counter[int] = Counter()
        for total, ways in found.items():
            reached[total + step] += ways
            reached[total - step] += ways
        if len(reached) > _MOST_SUMS:
            return None
        found = reached
    return found


def _counted(first: Counter[int], second: Counter[int], least: int) -> int:
    """Return how many choices of signs lead to a sum at least so far from 0, on either side."""
    totals = sorted(second)
    below = [0, *accumulate(second[total] for total in totals)]
    beyond = sum(ways * (below[-1] - below[bisect_left(totals, least - total)]) for total, ways in first.items())
    return 2 * beyond


def _sampled(steps: Sequence[int], least: int) -> float:
    chance, every = random.Random(_SEED), sum(steps)  # noqa: S311 - a reproducible sample, no secret
    beyond = 0
    for _ in range(_RESAMPLES):
        signs = chance.getrandbits(len(steps))
        negative = sum(step for place, step in enumerate(steps) if signs >> place & 1)
        beyond += abs(every - 2 * negative) >= least
    # The signs that were seen belong to the sample.
    return (beyond + 1) / (_RESAMPLES + 1)


def mean_interval(differences: Sequence[float]) -> Interval | None:
    """Return the interval of the mean of differences from -1 to 1, one for each case; None for fewer than two.

    It never has the width 0 inside of the range.
    """
    cases = len(differences)
    if cases < 2:  # noqa: PLR2004 - one case has no spread
        return None
    mean = math.fsum(differences) / cases
    half = _t_quantile(cases - 1) * _deviation(differences) / math.sqrt(cases)
    return Interval(max(-1.0, mean - half), min(1.0, mean + half))


def _deviation(differences: Sequence[float]) -> float:
    """Return the standard deviation, with that of one further case."""
    mean = math.fsum(differences) / len(differences)
    squares = math.fsum((each - mean) ** 2 for each in differences)
    equal = max(differences) - min(differences) < 1 / _UNIT
    return math.sqrt((squares + (_PRIOR_OF_EQUALS if equal else _PRIOR_DEVIATION) ** 2) / len(differences))


def further_cases(differences: Sequence[float], gain: float) -> int | None:
    """Return about how many more cases would decide a true mean of this size.

    The chance is 80 % if spread and mean are as measured. As a few cases tell them roughly, it is two in three.
    They count as spread as those that were seen, and as often without a difference, which decides nothing. None if none
    were seen, or no number that an author would write does.
    """
    if not differences or not gain:
        return None
    deviation = _deviation(differences)

    def decides(cases: int) -> bool:
        return (_t_quantile(cases - 1) + _Z_POWER) * deviation / math.sqrt(cases) <= abs(gain)

    moved = sum(abs(each) > 1 / _UNIT for each in differences)
    share = (moved + 1) / (len(differences) + 1)
    least = len(differences) + max(1, math.ceil((MIN_CASES - moved) / share))
    further = bisect_left(range(least, _MOST_CASES), True, key=decides)
    return least + further - len(differences) if least + further < _MOST_CASES else None


@lru_cache(maxsize=1024)
def _t_quantile(freedom: int) -> float:
    """Return the value that Student's t exceeds on either side with the probability of `SIGNIFICANCE`."""
    low, high = 0.0, math.pi / 2
    while high - low > 1e-12:  # noqa: PLR2004 - far below what is shown
        angle = (low + high) / 2
        low, high = (angle, high) if _within(angle, freedom) < 1 - SIGNIFICANCE else (low, angle)
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """Return the probability of |t| < sqrt(freedom) * tan(angle), by its finite series."""
    odd, square = freedom % 2, math.cos(angle) ** 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for place in range(1 + odd, freedom, 2):
        total += term
        term *= square * place / (place + 1)
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total


def rounded(value: float | None) -> float | None:
    """Return a figure with the digits that files of results have; None stays None."""
    return None if value is None else round(value, DIGITS)


def mean_stddev(values: Sequence[float]) -> Spread:
    """Return the spread of one or more values; the standard deviation of a single value is 0."""
    stddev = statistics.stdev(values) if len(values) > 1 else 0.0
    return Spread(statistics.fmean(values), stddev, min(values), max(values))
