"""Whether another description replaces that of a skill: the evidence of sealed queries, and the gain it may claim.

The unit is the query: the difference of its mean rates under both descriptions, positive if the new one is better.
Exact sign flips test whether their mean could be chance. The test is one-sided, because the question has one side: is
the new description better? Both kinds of queries weigh the same, however many there are of each.

Chance favours whatever was adopted, so the measured gain flatters it. The claimed one is conditional on the adoption:
of a normal distribution that is cut off below the threshold of the test, its mean is the one under which half of all
adopted descriptions would show less. `bench/adoption.py` measures how often useless descriptions are adopted, and what
claims are worth.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skills_core.evals.statistics import (
    DIGITS,
    EffectVerdict,
    Interval,
    further_cases,
    mean_interval,
    rounded,
    sign_flip_test,
)
from skills_core.evals.triggers.parts import SEALED_EACH, MissingQueries
from skills_core.evals.triggers.results import interval_list, set_object

if TYPE_CHECKING:
    from skills_core.evals.triggers.results import QueryResult, Rate, Round, SetResult
    from skills_core.format.yaml12 import JsonValue

MAX_FALSE_ADOPTIONS: Final = 0.05
"""How often a description that is no better may be adopted, and a harmless one be taken for harmful, at most."""

_THRESHOLD: Final = -statistics.NormalDist().inv_cdf(MAX_FALSE_ADOPTIONS)

_FURTHER_LOSS: Final = 0.6
# The test counts one further query that is lost by so much: signs alone take a rare large loss that they did not see
# for impossible. Without it, up to 12 % of descriptions that help most queries a little and ruin a few are adopted.

_SQUARE_OF_FURTHER: Final = 0.25
# The deviation counts one further query, so far from the mean: equal differences never seem certain.

_BELOW: Final = 30.0
_ABOVE: Final = 10.0
# Standard errors from what was seen within which its mean is looked for.


@dataclass(frozen=True, slots=True)
class KindChange:
    """The queries of one kind: at which mean rate they load the skill, and how sure it is that the new one is worse.

    `gain` is the mean difference for the better; it and the rates are None without queries.
    """

    queries: int
    new: float | None = None
    old: float | None = None
    gain: float | None = None
    p_harm: float = 1.0

    @property
    def is_harmed(self) -> bool:
        """Whether the new description is significantly worse on these queries."""
        return self.p_harm <= MAX_FALSE_ADOPTIONS


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two descriptions on the same queries.

    `wins` and `losses` are queries with a better and a worse rate. `gain` is the mean difference for the better, in
    which both kinds weigh the same, with its 95 % interval; `p` is the one-sided probability of one as large by chance.
    `errors` are runs that do not count, of all runs of the new and the old description. `queries_needed` is about how
    many queries would show such a gain, None if these do or none would.
    """

    should: KindChange
    should_not: KindChange
    wins: int
    losses: int
    gain: float | None
    interval: Interval | None
    p: float
    errors: tuple[Rate, Rate]
    verdict: EffectVerdict
    reason: str
    queries_needed: int | None = None

    @property
    def missing(self) -> MissingQueries:
        """How many further queries of each kind a verdict takes."""
        return MissingQueries(max(0, SEALED_EACH - self.should.queries), max(0, SEALED_EACH - self.should_not.queries))


@dataclass(frozen=True, slots=True)
class ClaimedGain:
    """A gain that is not flattered by its adoption, with its 95 % interval; neither is below 0."""

    gain: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Adoption:
    """Whether the new description replaces the old one, why, how they compare, and the gain that may be claimed.

    `proposed` tells that there is a new description that was not adopted.
    """

    adopted: bool
    reason: str
    comparison: Comparison | None = None
    gain: ClaimedGain | None = None
    proposed: bool = False


def compare(new: SetResult, old: SetResult) -> Comparison:
    """Compare two descriptions query by query; queries without a run that counts on either side are left out."""
    before = {each.query: each for each in old.judged}
    pairs = [(each, before[each.query]) for each in new.judged if each.query in before]
    should = _kind([pair for pair in pairs if pair[0].query.should_trigger])
    should_not = _kind([pair for pair in pairs if not pair[0].query.should_trigger])
    raw = [_difference(*pair) for pair in pairs]
    differences = _weighed(pairs)
    gain = statistics.fmean(differences) if differences else None
    p = _chance_of_gain(differences)
    verdict, reason = _verdict(new, old, should, should_not, p, _chance_of_gain([-each for each in differences]))
    further = None
    if verdict == EffectVerdict.NONE and gain is not None and gain > 0:
        further = further_cases(differences, gain)
    return Comparison(
        should,
        should_not,
        wins=sum(each > 0 for each in raw),
        losses=sum(each < 0 for each in raw),
        gain=gain,
        interval=mean_interval(differences),
        p=p,
        errors=(new.faults, old.faults),
        verdict=verdict,
        reason=reason,
        queries_needed=None if further is None else len(differences) + further,
    )


def _difference(new: QueryResult, old: QueryResult) -> float:
    """Return how much better the rate of a query is, from -1 to 1."""
    change = (new.rate.value or 0.0) - (old.rate.value or 0.0)
    return change if new.query.should_trigger else -change


def _weighed(pairs: Sequence[tuple[QueryResult, QueryResult]]) -> list[float]:
    """Return the differences, so weighed that both kinds count the same in their mean."""
    should = sum(new.query.should_trigger for new, _ in pairs)
    number = {True: should, False: len(pairs) - should}
    if not all(number.values()):
        return [_difference(*pair) for pair in pairs]
    return [_difference(*pair) * len(pairs) / 2 / number[pair[0].query.should_trigger] for pair in pairs]


def _kind(pairs: Sequence[tuple[QueryResult, QueryResult]]) -> KindChange:
    if not pairs:
        return KindChange(0)
    new, old = (statistics.fmean(pair[side].rate.value or 0.0 for pair in pairs) for side in (0, 1))
    differences = [_difference(*pair) for pair in pairs]
    harm = _chance([-each for each in differences])
    return KindChange(len(pairs), new, old, statistics.fmean(differences), harm)


def _chance_of_gain(differences: Sequence[float]) -> float:
    """Return the probability of a gain as large by chance, with one further query that is lost."""
    return _chance([*differences, -_FURTHER_LOSS])


def _chance(differences: Sequence[float]) -> float:
    """Return the probability of a mean at least as high if each difference could have either sign."""
    both_sides = sign_flip_test(differences)
    return both_sides / 2 if math.fsum(differences) > 0 else 1 - both_sides / 2


def _verdict(
    new: SetResult, old: SetResult, should: KindChange, should_not: KindChange, p: float, p_harm: float
) -> tuple[EffectVerdict, str]:
    """Return the verdict, and why there is none or the new description is refused; empty if it is better."""
    for whose, results in (("new", new), ("old", old)):
        if results.no_verdict:
            return EffectVerdict.NONE, f"with the {whose} description {results.no_verdict}"
    missing = MissingQueries(max(0, SEALED_EACH - should.queries), max(0, SEALED_EACH - should_not.queries))
    if missing:
        return EffectVerdict.NONE, f"a verdict takes {SEALED_EACH} sealed queries of each kind, {missing}"
    if p_harm <= MAX_FALSE_ADOPTIONS:
        return EffectVerdict.WORSE, f"it is worse ({probability(p_harm)})"
    for kind, what in ((should, "loads the skill less often when it should"), (should_not, "makes more false alarms")):
        if kind.is_harmed:
            return EffectVerdict.NONE, f"it {what} ({probability(kind.p_harm)})"
    if p <= MAX_FALSE_ADOPTIONS:
        return EffectVerdict.BETTER, ""
    return EffectVerdict.NONE, f"that it is better may be chance ({probability(p)})"


def claimed_gain(comparison: Comparison, differences: Sequence[float]) -> ClaimedGain:
    """Return what an adopted description may claim, from the weighed differences of its sealed queries."""
    gain, number = statistics.fmean(differences), len(differences)
    squares = math.fsum((each - gain) ** 2 for each in differences)
    error = math.sqrt((squares + _SQUARE_OF_FURTHER) / number) / math.sqrt(number)
    seen = gain / error
    # The gain at which the test would just have adopted it, by the normal deviation that its probability stands for.
    lost = _FURTHER_LOSS / number / error
    least = lost + (seen - lost) * min(1.0, _THRESHOLD / -statistics.NormalDist().inv_cdf(comparison.p))
    middle, low, high = (min(1.0, max(0.0, error * _mean_of_cut(seen, least, level))) for level in (0.5, 0.025, 0.975))
    return ClaimedGain(middle, Interval(low, high))


def _mean_of_cut(seen: float, least: float, level: float) -> float:
    """Return the mean of a normal distribution that, cut off below `least`, exceeds `seen` with probability `level`."""
    low, high = seen - _BELOW, seen + _ABOVE
    while high - low > 1e-9:  # noqa: PLR2004 - far below what is shown
        mean = (low + high) / 2
        low, high = (low, mean) if _tail(seen - mean) >= level * _tail(least - mean) else (mean, high)
    return low


def _tail(value: float) -> float:
    return math.erfc(value / math.sqrt(2)) / 2


def probability(p: float) -> str:
    """Return a probability in words."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"  # noqa: PLR2004 - the digits that are shown


def decide(new: SetResult, old: SetResult) -> Adoption:
    """Decide by the sealed test: the new description is adopted if it is better, and worse on neither kind of queries.

    Without a verdict it is proposed.
    """
    comparison = compare(new, old)
    if comparison.verdict == EffectVerdict.BETTER:
        before = {each.query: each for each in old.judged}
        gain = claimed_gain(comparison, _weighed([(each, before[each.query]) for each in new.judged]))
        reason = f"the new description is adopted: it is better on the sealed queries ({probability(comparison.p)})"
        return Adoption(adopted=True, reason=reason, comparison=comparison, gain=gain)
    if comparison.verdict == EffectVerdict.WORSE:
        reason = f"the old description stays: of the new one the sealed queries show that {comparison.reason}"
    else:
        reason = f"no verdict, so the new description is only proposed: {comparison.reason}"
    return Adoption(adopted=False, reason=reason, comparison=comparison, proposed=True)


def propose(missing: MissingQueries) -> Adoption:
    """Return the decision on a description that was chosen without a sealed test."""
    reason = (
        "no verdict, so the new description is only proposed: no queries are sealed, and those that chose it flatter "
        f"it; a verdict takes {SEALED_EACH} sealed queries of each kind, {missing}"
    )
    return Adoption(adopted=False, reason=reason, proposed=True)


def adoption_object(
    adoption: Adoption, description: str, tests: Mapping[str, SetResult], best: Round, threshold: float
) -> dict[str, JsonValue]:
    """Return the JSON object of the decision; `tests` are the results of the sealed test, empty if it stayed sealed.

    `description` is that which the skill is to have, `best_description` that of the best round.
    """
    comparison, gain = adoption.comparison, adoption.gain
    return {
        "best_round": best.number,
        "best_description": best.description,
        "description": description,
        "adopted": adoption.adopted,
        "proposed": adoption.proposed,
        "reason": adoption.reason,
        "gain": None if gain is None else round(gain.gain, DIGITS),
        "gain_interval": None if gain is None else interval_list(gain.interval),
        "test": {
            "opened": bool(tests),
            **{name: set_object(results, threshold) for name, results in tests.items()},
            "comparison": None if comparison is None else comparison_object(comparison),
        },
    }


def comparison_object(comparison: Comparison) -> dict[str, JsonValue]:
    """Return the JSON object of a comparison."""
    return {
        "wins": comparison.wins,
        "losses": comparison.losses,
        "p": round(comparison.p, DIGITS),
        "gain": rounded(comparison.gain),
        "interval": None if comparison.interval is None else interval_list(comparison.interval),
        "should_trigger": _kind_object(comparison.should),
        "should_not_trigger": _kind_object(comparison.should_not),
        "errors": {
            name: {"errors": rate.count, "runs": rate.total}
            for name, rate in zip(("new", "old"), comparison.errors, strict=True)
        },
        "verdict": comparison.verdict.value,
        "reason": comparison.reason or None,
        "queries_needed": comparison.queries_needed,
        "missing": missing_object(comparison.missing),
    }


def _kind_object(kind: KindChange) -> dict[str, JsonValue]:
    return {
        "queries": kind.queries,
        "new_rate": rounded(kind.new),
        "old_rate": rounded(kind.old),
        "gain": rounded(kind.gain),
        "p_harm": round(kind.p_harm, DIGITS),
    }


def missing_object(missing: MissingQueries) -> dict[str, JsonValue]:
    """Return the JSON object of missing queries."""
    return {"should_trigger": missing.should, "should_not_trigger": missing.should_not}
