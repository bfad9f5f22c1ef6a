"""The rounds of an optimization: which one is the best, and whether its description replaces the old one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.evals.triggers.verdicts import compare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.evals.triggers.verdicts import Comparison, SetResult

__all__ = ["Decision", "Round", "best_round", "decide", "decide_by_validation"]


@dataclass(frozen=True, slots=True)
class Round:
    """A description with its results in training and validation; round 0 has the old description."""

    number: int
    description: str
    train: SetResult
    validation: SetResult


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the new description replaces the old one, why, and how they compare."""

    adopted: bool
    reason: str
    comparison: Comparison | None = None


def best_round(rounds: Sequence[Round]) -> Round:
    """Return the round that passes most of validation; of equal ones the earlier, then the shorter."""
    usable = [each for each in rounds if not each.validation.no_verdict] or rounds[:1]
    return min(usable, key=lambda each: (-(each.validation.passed.value or 0.0), each.number, len(each.description)))


def decide(new: SetResult, old: SetResult) -> Decision:
    """Decide by the sealed test: the old description stays unless the new one passes more queries."""
    if why := new.no_verdict or old.no_verdict:
        return Decision(adopted=False, reason=f"the sealed test has no verdict, so the old description stays: {why}")
    comparison = compare(new, old)
    said = (
        f"{new.passed.count} of {new.passed.total} queries of the sealed test pass, with the old one {old.passed.count}"
    )
    if new.passed.count <= old.passed.count:
        return Decision(adopted=False, reason=f"the old description stays: {said}", comparison=comparison)
    return Decision(adopted=True, reason=f"the new description wins: {said}", comparison=comparison)


def decide_by_validation(best: Round, first: Round) -> Decision:
    """Decide without a sealed test for the best of the rounds, which passes more queries of validation than the first.

    There is no comparison: the queries that chose a description flatter it.
    """
    new, old = best.validation.passed, first.validation.passed
    reason = (
        f"the new description wins: {new.count} of {new.total} queries of validation pass, with the old one "
        f"{old.count}; the same queries chose it, so the gain may be smaller than it looks: check it with fresh "
        "queries (--holdout)"
    )
    return Decision(adopted=True, reason=reason)
