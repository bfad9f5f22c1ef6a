"""The effect of a change, as the mean difference of paired scores, and what it allows to say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skills_core.diagnostics import agreeing, counted
from skills_core.evals.statistics import DIGITS, MIN_CASES, EffectVerdict, paired_effect

if TYPE_CHECKING:
    from skills_core.evals.statistics import Interval


@dataclass(frozen=True, slots=True)
class Effect:
    """The mean difference between both versions, from -1 to 1, with its interval and the probability by sign flips."""

    pairs: int
    mean: float
    interval: Interval | None
    p_value: float
    verdict: EffectVerdict
    reason: str

    @property
    def is_worse(self) -> bool:
        """Whether the change makes it worse, as far as the pairs can tell."""
        return self.verdict is EffectVerdict.WORSE

    def to_json(self) -> dict[str, Any]:
        """Return the object for `--json`."""
        return {
            "pairs": self.pairs,
            "mean": round(self.mean, DIGITS),
            "interval": None
            if self.interval is None
            else {"low": round(self.interval.low, DIGITS), "high": round(self.interval.high, DIGITS)},
            "p_value": round(self.p_value, DIGITS),
            "verdict": self.verdict.value,
            "reason": self.reason,
        }


def effect_of(
    pairs: Iterable[tuple[float | None, float | None]], noun: str = "query", plural: str = "queries"
) -> Effect | None:
    """Return the effect over pairs of scores before and after; None without a pair of which both are known."""
    differences = [after - before for before, after in pairs if before is not None and after is not None]
    if not differences:
        return None
    found, measured = paired_effect(differences), counted(len(differences), noun, plural)
    mean, p_value = found.mean or 0.0, 1.0 if found.p_value is None else found.p_value
    if not any(differences):
        reason = f"no {noun} of {len(differences)} differs"
    elif len(differences) < MIN_CASES:
        are = agreeing(len(differences), "is", "are")
        reason = f"a verdict takes at least {MIN_CASES} {plural}, and there {are} {measured}"
    elif found.verdict is EffectVerdict.NONE:
        reason = f"{measured} cannot tell this from chance, p = {p_value:.3f}"
    else:
        reason = f"{measured}, p = {p_value:.3f}"
    return Effect(len(differences), mean, found.interval, p_value, found.verdict, reason)
