"""The effect of a change, as the mean difference of paired scores, and what it allows to say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from skills_core.diagnostics import agreeing, counted
from skills_core.evals.statistics import MIN_CASES, paired_effect

if TYPE_CHECKING:
    from skills_core.evals.statistics import Interval

BETTER: Final = "better"
WORSE: Final = "worse"
NO_VERDICT: Final = "no verdict"


@dataclass(frozen=True, slots=True)
class Effect:
    """The mean difference between both versions, from -1 to 1, with its interval and the probability by sign flips."""

    pairs: int
    mean: float
    interval: Interval | None
    p_value: float
    verdict: str
    reason: str

    @property
    def is_worse(self) -> bool:
        """Whether the change makes it worse, as far as the pairs can tell."""
        return self.verdict == WORSE

    def to_json(self) -> dict[str, Any]:
        """Return the object for `--json`."""
        return {
            "pairs": self.pairs,
            "mean": round(self.mean, 4),
            "interval": None
            if self.interval is None
            else {"low": round(self.interval.low, 4), "high": round(self.interval.high, 4)},
            "p_value": round(self.p_value, 4),
            "verdict": self.verdict,
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
    verdict = {1: BETTER, -1: WORSE}.get(found.direction, NO_VERDICT)
    if not any(differences):
        reason = f"no {noun} of {len(differences)} differs"
    elif len(differences) < MIN_CASES:
        are = agreeing(len(differences), "is", "are")
        reason = f"a verdict takes at least {MIN_CASES} {plural}, and there {are} {measured}"
    elif verdict == NO_VERDICT:
        reason = f"{measured} cannot tell this from chance, p = {p_value:.3f}"
    else:
        reason = f"{measured}, p = {p_value:.3f}"
    return Effect(len(differences), mean, found.interval, p_value, verdict, reason)
