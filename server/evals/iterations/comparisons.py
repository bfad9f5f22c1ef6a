"""Compare the outputs of both arms blindly, case by case, and write `comparison.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from server.evals.errors import EvalError
from server.evals.iterations.grading import final_material
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError
from skills_core.evals.feedback import digest_of_case
from skills_core.evals.grading.comparing import compare_blindly, overall_winner
from skills_core.evals.grading.results import Arm, EvalStatus, RunKey
from skills_core.run.models import connected

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pydantic_ai.models import Model

    from server.evals.iterations.files import Iteration
    from skills_core.evals.grading.results import EvalRun

__all__ = ["BlindComparisons", "comparisons_of", "uncompared"]

COMPARISON = "comparison.json"


def comparisons_of(iteration: Iteration, runs: Iterable[EvalRun]) -> dict[str, dict[str, Any]]:
    """Return the comparisons by case; one of outputs that have been replaced since is left out."""
    found: dict[str, dict[str, Any]] = {}
    for folder, now in _digests(runs).items():
        document = iteration.read(f"{folder}/{COMPARISON}")
        if isinstance(document, dict) and (not now or document.get("outputs_digest") in (None, now)):
            found[folder] = document
    return found


def uncompared(iteration: Iteration, runs: Sequence[EvalRun]) -> set[str]:
    """Return the cases whose outputs are not compared."""
    return {run.key.folder for run in runs} - comparisons_of(iteration, runs).keys()


def _digests(runs: Iterable[EvalRun]) -> dict[str, str]:
    """Return the digest of the outputs of each case in both arms; an empty one is unknown."""
    by_case: dict[str, list[EvalRun]] = {}
    for run in runs:
        by_case.setdefault(run.key.folder, []).append(run)
    ordered = {case: sorted(found, key=lambda run: str(run.key)) for case, found in by_case.items()}
    return {
        case: digest_of_case(run.outcome.outputs_digest for run in found if run.outcome.status is EvalStatus.DONE)
        for case, found in ordered.items()
    }


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
        pending = uncompared(self.iteration, runs)
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
            "outputs_digest": _digests(runs.values())[folder] or None,
            "runs": pairs,
        }
        await anyio.to_thread.run_sync(self.iteration.write, f"{folder}/{COMPARISON}", document)
