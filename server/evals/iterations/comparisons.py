"""Compare the outputs of both arms blindly, case by case, and write `comparison.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from server.evals.errors import EvalError
from server.evals.iterations.grading import final_material
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError
from skills_core.evals.grading.comparing import compare_blindly, overall_winner
from skills_core.evals.grading.results import Arm, EvalStatus, RunKey
from skills_core.run.models import connected

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_ai.models import Model

    from server.evals.iterations.files import Iteration
    from skills_core.evals.grading.results import EvalRun

__all__ = ["COMPARISON", "BlindComparisons"]

COMPARISON = "comparison.json"


@dataclass(frozen=True, slots=True)
class BlindComparisons:
    """The comparisons of one iteration by one judge, a limited number of cases at a time."""

    iteration: Iteration
    model: Model
    baseline: Arm
    jobs: int

    async def run(self, runs: Sequence[EvalRun]) -> list[str]:
        """Compare the cases that are not compared yet; return what failed."""
        by_key = {run.key: run for run in runs if run.outcome.status is EvalStatus.DONE}
        pending = {run.key.folder for run in runs if self.iteration.read(f"{run.key.folder}/{COMPARISON}") is None}
        problems: list[str] = []
        limiter = anyio.CapacityLimiter(self.jobs)

        async def one(folder: str) -> None:
            async with limiter:
                try:
                    await self._compare(folder, by_key)
                except SkillsError as error:
                    problems.append(one_line(f"{folder}: the outputs were not compared: {error}"))

        async with connected(self.model), anyio.create_task_group() as group:
            for folder in sorted(pending):
                group.start_soon(one, folder)
        return problems

    async def _compare(self, folder: str, runs: Mapping[RunKey, EvalRun]) -> None:
        pairs: list[dict[str, object]] = []
        for number in range(1, self.iteration.runs + 1):
            ours, theirs = (RunKey(folder, arm, number) for arm in (Arm.WITH_SKILL, self.baseline))
            if not {ours, theirs} <= runs.keys():
                continue
            places = (self.iteration.folder(key) for key in (ours, theirs))
            first, second = [await anyio.to_thread.run_sync(final_material, place) for place in places]
            if not first.is_empty and not second.is_empty:
                found = await compare_blindly(self.model, runs[ours].case, first, second)
                pairs.append({**found.to_json(), "run_number": number})
        if not pairs:
            raise EvalError("no run of both arms has outputs or an answer")
        document = {
            **pairs[0],
            "winner": overall_winner([str(each["winner"]) for each in pairs]),
            "A": Arm.WITH_SKILL.value,
            "B": self.baseline.value,
            "model": self.model.model_name,
            "runs": pairs,
        }
        await anyio.to_thread.run_sync(self.iteration.write, f"{folder}/{COMPARISON}", document)
