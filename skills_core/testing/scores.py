"""An evaluator that returns given scores one by one, without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.run.evaluation import ScoringError, ScoringResult
from skills_core.run.outcome import CriterionScore, Score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.run.evaluation import ScoringRequest

__all__ = ["SequentialScoreEvaluator"]


class SequentialScoreEvaluator:
    """Gives the first output the first score, and so on; `assessments` records the calls."""

    def __init__(self, scores: Sequence[float]) -> None:
        """Use `scores`, each from 0 to 1, also as the score of every criterion."""
        self._scores = tuple(scores)
        self.assessments: list[ScoringRequest] = []

    @property
    def invocations(self) -> int:
        """The number of calls so far."""
        return len(self.assessments)

    async def __call__(self, assessment: ScoringRequest) -> ScoringResult:
        """Return the next score.

        Raises:
            NotScoredError: all scores have been used.
        """
        self.assessments.append(assessment)
        if self.invocations > len(self._scores):
            raise ScoringError(f"The evaluator was given {len(self._scores)} scores and asked for one more.")
        score = self._scores[self.invocations - 1]
        return ScoringResult(Score(score, tuple(CriterionScore(each, score) for each in assessment.criteria)))
