"""The optimization of a description: measure, revise, choose by validation, and decide by the sealed test if any."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skills_core.evals.triggers.revision import Attempt, RevisionRequest
from skills_core.evals.triggers.rounds import Decision, Round, best_round, decide, decide_by_validation
from skills_core.evals.triggers.split import Part
from skills_core.evals.triggers.verdicts import SetResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from server.evals.skills.skill_copies import SkillCopy
    from server.evals.triggers.description_model import DescriptionModel
    from server.evals.triggers.trigger_runs import TriggerRunner
    from skills_core.evals.triggers.queries import Query

__all__ = ["MAX_ROUNDS", "Optimization", "OptimizationState"]

MAX_ROUNDS: Final = 5
"""Most revisions of a description."""


@dataclass(slots=True)
class OptimizationState:
    """What is known so far: the rounds, and at the end the results of the sealed test and the decision.

    `complete` tells that errors have left no gap: the same command continues an incomplete optimization.
    """

    rounds: list[Round] = field(default_factory=list)
    tests: dict[str, SetResult] = field(default_factory=dict)
    decision: Decision | None = None
    note: str = ""
    complete: bool = False


@dataclass(slots=True)
class Optimization:
    """The optimization of one skill; `save` is called after each step."""

    skill: SkillCopy
    parts: Mapping[Part, Sequence[Query]]
    runner: TriggerRunner
    model: DescriptionModel
    max_rounds: int
    save: Callable[[OptimizationState], Awaitable[None]]

    async def run(self) -> OptimizationState:
        """Run all rounds and the test.

        Raises:
            RevisionError: the model gives no description.
            AgentUnavailableError: the agent cannot be started.
        """
        state = OptimizationState()
        description = self.skill.description
        for number in range(self.max_rounds + 1):
            current = await self._round(number, description)
            state.rounds.append(current)
            await self.save(state)
            state.note = self._end(state.rounds)
            if state.note:
                break
            if number < self.max_rounds:
                description = await self.model.revise(self._request(state.rounds))
        await self._decide(state)
        await self.save(state)
        return state

    async def _round(self, number: int, description: str) -> Round:
        skill = self.skill.described(description)
        queries = (*self.parts[Part.TRAIN], *self.parts[Part.VALIDATION])
        results = await self.runner.measure(skill, queries, f"round {number}")
        train = {query.id for query in self.parts[Part.TRAIN]}
        split = [
            SetResult(tuple(each for each in results.results if (each.query.id in train) is wanted))
            for wanted in (True, False)
        ]
        return Round(number, description, *split)

    def _end(self, rounds: Sequence[Round]) -> str:
        """Return why no further round is needed, or possible; empty if one is."""
        last = rounds[-1]
        if why := _no_verdict(last):
            return f"round {last.number} has no verdict: {why}"
        passed = last.train.passed
        return "all queries of training pass" if passed.count == passed.total else ""

    def _request(self, rounds: Sequence[Round]) -> RevisionRequest:
        """Return what the model is told: training alone, nothing of validation and test."""
        attempts = tuple(Attempt(each.description, each.train.passed.count, each.train.passed.total) for each in rounds)
        failures = tuple(each for each in rounds[-1].train.results if each.passed is False)
        return RevisionRequest(self.skill.name, self.skill.body, attempts, failures)

    async def _decide(self, state: OptimizationState) -> None:
        """Open the sealed test, once and only if there is something to decide."""
        first, best = state.rounds[0], best_round(state.rounds)
        # After an outage the sealed test stays sealed, until the rounds are complete.
        if _no_verdict(state.rounds[-1]):
            state.decision = Decision(adopted=False, reason=f"the old description stays: {state.note}")
            return
        state.complete = True
        if best.description == first.description:
            reason = "the old description stays: no other one passes more queries of validation"
            state.decision = Decision(adopted=False, reason=reason)
            return
        if not self.parts[Part.TEST]:
            state.decision = decide_by_validation(best, first)
            return
        for name, each in (("old", first), ("new", best)):
            skill = self.skill.described(each.description)
            state.tests[name] = await self.runner.measure(skill, self.parts[Part.TEST], f"sealed test, {name}")
        state.complete = not any(each.no_verdict for each in state.tests.values())
        state.decision = decide(state.tests["new"], state.tests["old"])


def _no_verdict(measured: Round) -> str:
    """Return why a round carries no verdict; empty if it does."""
    return SetResult((*measured.train.results, *measured.validation.results)).no_verdict
