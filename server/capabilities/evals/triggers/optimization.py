"""The optimization of a description.

It measures, lets a model revise, chooses by validation, and decides by the sealed test if there is one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.evals.tested_skills import digest_of
from server.capabilities.history.histories import recorded_change
from skills_core.authoring.draft import with_description
from skills_core.disk.files import Location, read_file
from skills_core.disk.folders import MAIN_FILE
from skills_core.disk.writing import write_file
from skills_core.errors import SkillsError
from skills_core.evals.triggers.drafting import (
    INSTRUCTIONS,
    DescriptionAttempt,
    RevisionRequest,
    check_length,
    cut_description,
    plain_description,
    read_description,
    render_revision,
)
from skills_core.evals.triggers.queries import Part
from skills_core.evals.triggers.results import Adoption, Round, SetResult, best_round, decide, decide_by_validation
from skills_core.history.commits import Cause
from skills_core.loading.loader import MAX_MAIN_SIZE
from skills_core.loading.single_skill import read_skill
from skills_core.runs.structured_answers import NoAnswerError, UnusableAnswersError, ask_until_usable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from pydantic_ai.models import Model

    from server.capabilities.evals.tested_skills import SkillCopy
    from server.capabilities.evals.triggers.trigger_runs import TriggerJournal, TriggerRunner
    from skills_core.evals.triggers.queries import Query


_SECONDS: Final = 900.0
# For all requests for one description.


class RevisionError(SkillsError):
    """The model gave no description; the message says why."""


@dataclass(slots=True)
class DescriptionModel:
    """A model, and the journal that keeps its answers."""

    model: Model
    name: str
    journal: TriggerJournal

    async def revise(self, request: RevisionRequest) -> str:
        """Return another description, at most as long as the format allows.

        Raises:
            RevisionError: the model fails, or writes no description.
        """
        message = render_revision(request)
        key = f"revision-{digest_of(self.name, INSTRUCTIONS, message)[:32]}"
        record = self.journal.find(key)
        if record is not None:
            return str(record["description"])
        description = await self._description(message)
        description = cut_description(description)
        self.journal.add(key, {"description": description})
        return description

    async def _description(self, message: str) -> str:
        """Return the description in the first usable answer; the last one that is too long if no other is."""
        found = ""

        def read(answer: str) -> str:
            nonlocal found
            found = read_description(answer)
            check_length(found)
            return found

        try:
            return (await ask_until_usable(self.model, INSTRUCTIONS, message, read, seconds=_SECONDS))[0]
        except UnusableAnswersError as error:
            if found:
                return found
            raise RevisionError(
                f"none of {error.usage.requests} answers of the model had a description between <description> and "
                "</description>; run the command again, or name another model with --model"
            ) from None
        except NoAnswerError as error:
            raise RevisionError(str(error)) from error


@dataclass(slots=True)
class OptimizationState:
    """What is known so far: the rounds, and at the end the results of the sealed test and the decision.

    `complete` tells that errors have left no gap: the same command continues an incomplete optimization.
    """

    rounds: list[Round] = field(default_factory=list)
    tests: dict[str, SetResult] = field(default_factory=dict)
    decision: Adoption | None = None
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
        attempts = tuple(
            DescriptionAttempt(each.description, each.train.passed.count, each.train.passed.total) for each in rounds
        )
        failures = tuple(each for each in rounds[-1].train.results if each.passed is False)
        return RevisionRequest(self.skill.name, self.skill.body, attempts, failures)

    async def _decide(self, state: OptimizationState) -> None:
        """Open the sealed test, once and only if there is something to decide."""
        first, best = state.rounds[0], best_round(state.rounds)
        # After an outage the sealed test stays sealed, until the rounds are complete.
        if _no_verdict(state.rounds[-1]):
            state.decision = Adoption(adopted=False, reason=f"the old description stays: {state.note}")
            return
        state.complete = True
        if best.description == first.description:
            reason = "the old description stays: no other one passes more queries of validation"
            state.decision = Adoption(adopted=False, reason=reason)
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


class NotAppliedError(SkillsError):
    """No description was written; the message says why."""


def apply_description(folder: Path, found: Mapping[str, Any]) -> str:
    """Write the description that the results `found` adopted; return it.

    Raises:
        NotAppliedError: none was adopted, or the skill has another description than the one that was tested.
        InvalidSkillError: the skill cannot be read.
        DescriptionError: the description cannot be replaced.
        FileRefusedError: the file cannot be read or written.
        HistoryError: the source has a history, and the change cannot be recorded.
    """
    decision = found.get("decision")
    if not isinstance(decision, dict):
        raise NotAppliedError("there is no finished optimization to apply; run `skillserve triggers … --optimize`")
    if decision.get("adopted") is not True:
        raise NotAppliedError(f"nothing is applied: {decision.get('reason')}")
    description = str(decision.get("description") or "")
    if description != plain_description(description):
        raise NotAppliedError("nothing is applied: the description has markup, line breaks or hidden characters")
    current = read_skill(folder).description
    if current == description:
        return description
    if current != found.get("description"):
        raise NotAppliedError(
            "the description of the skill is not the one that was tested any more; run --optimize again"
        )
    main = Location(folder.resolve(), MAIN_FILE)
    raw, _ = read_file(main, MAX_MAIN_SIZE)
    with recorded_change([folder], Cause.DESCRIPTION, "Apply the description that trigger tests chose"):
        write_file(main, with_description(raw, description))
    return description
