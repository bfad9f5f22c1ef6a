"""Perform the runs of an iteration and grade them, a limited number at a time; what is done is never repeated."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread

from server.evals.agents.agent import AgentTask
from server.evals.agents.outputs import publish_outputs, stray_files
from server.evals.errors import EvalError
from server.evals.iterations.baseline_check import baseline_fault
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError
from skills_core.evals.grading.results import (
    Arm,
    EvalOutcome,
    EvalRun,
    EvalStatus,
    RunKey,
    grading_to_json,
    metadata_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
    from pathlib import Path

    from server.evals.agents.agent import Agent, AgentReport
    from server.evals.agents.scratch import ScratchFolder
    from server.evals.iterations.files import Iteration
    from server.evals.iterations.grading import Grader
    from server.evals.skills.skill_versions import SkillVersion
    from skills_core.evals.grading.cases import EvalCase

__all__ = ["EvalRunner", "ProgressListener", "Work", "work_of"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """What is left to do for one run: `done` is the run as it is on disk, None if it has to be performed."""

    key: RunKey
    case: EvalCase
    attempt: int
    done: EvalRun | None

    @property
    def performs(self) -> bool:
        """Whether the agent has to run."""
        return self.done is None

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do."""
        return self.done is not None and not self.done.problem


def work_of(iteration: Iteration, keys: Iterable[tuple[RunKey, EvalCase]]) -> list[Work]:
    """Return the work that is left in an iteration; runs that ended with an error are repeated."""
    found: list[Work] = []
    for key, case in keys:
        run = iteration.run(key, case)
        failed = run is not None and run.outcome.status is not EvalStatus.DONE
        attempt = run.outcome.attempt + 1 if run is not None and failed else 1
        found.append(Work(key, case, attempt, None if failed else run))
    return found


class ProgressListener(Protocol):
    """Receives the progress of an eval."""

    def started(self, key: RunKey) -> None:
        """A run begins."""

    def ended(self, run: EvalRun) -> None:
        """A run has ended, and is graded if it could be."""


class EvalRunner:
    """Performs the work of one iteration by an agent, with the versions of the skill by arm."""

    def __init__(  # noqa: PLR0913 - one for each part of an eval
        self,
        iteration: Iteration,
        agent: Agent,
        grader: Grader,
        scratch: ScratchFolder,
        versions: Mapping[Arm, SkillVersion | None],
        source: Path,
        *,
        seconds: float,
        jobs: int,
        listener: ProgressListener,
    ) -> None:
        """Input files are read from `source`; each run has `seconds`, and `jobs` run at a time."""
        self._iteration = iteration
        self._agent = agent
        self._grader = grader
        self._scratch = scratch
        self._versions = versions
        self._source = source
        self._seconds = seconds
        self._jobs = jobs
        self._listener = listener

    async def run(self, work: Sequence[Work]) -> None:
        """Perform and grade what is left; failures of runs are recorded, and do not end the others.

        Raises:
            SkillsError: the agent cannot be used, or a file cannot be written.
        """
        left = [each for each in work if not each.is_complete]
        tasks = {each.key: self._task(each) for each in left if each.performs}
        faults: list[SkillsError] = []
        limiter = anyio.CapacityLimiter(self._jobs)

        async def one(each: Work, scope: anyio.CancelScope) -> None:
            async with limiter:
                try:
                    await self._one(each, tasks.get(each.key))
                except SkillsError as error:  # raised below, where no task group wraps it
                    faults.append(error)
                    scope.cancel()

        async with self._agent_for(list(tasks.values())), anyio.create_task_group() as group:
            for each in left:
                group.start_soon(one, each, group.cancel_scope)
        if faults:
            raise faults[0]

    @asynccontextmanager
    async def _agent_for(self, tasks: list[AgentTask]) -> AsyncGenerator[None]:
        if not tasks:
            yield
            return
        async with self._agent.running(tasks):
            yield

    def _task(self, work: Work) -> AgentTask:
        version = self._versions[work.key.arm]
        tested = self._versions[Arm.WITH_SKILL]
        name = "" if tested is None else tested.skill.name
        return AgentTask(work.key, work.attempt, work.case, version, self._source, self._seconds, name)

    async def _one(self, work: Work, task: AgentTask | None) -> None:
        self._listener.started(work.key)
        outcome = work.done.outcome if work.done is not None else None
        if outcome is None and task is not None:
            outcome = await self._perform(work, task)
        assert outcome is not None  # noqa: S101 - a run is on disk, or has a task
        run = EvalRun(work.key, work.case, outcome)
        if outcome.status is EvalStatus.DONE:
            run = await self._grade(run)
        self._listener.ended(run)

    async def _perform(self, work: Work, task: AgentTask) -> EvalOutcome:
        """Perform a run and write its files; `outcome.json` comes last, because it says that the run has ended."""
        report = await self._agent.perform(task)
        if task.version is None and (fault := self._baseline_fault(report, task.case)):
            report = replace(report, status=EvalStatus.ERROR, error=fault)
        outcome = EvalOutcome(
            status=report.status,
            error=one_line(report.error),
            exit_code=report.exit_code,
            duration_ms=report.duration_ms,
            total_tokens=report.total_tokens,
            cost_usd=report.cost_usd,
            tool_calls=report.tool_calls,
            attempt=work.attempt,
            notes=report.notes,
        )
        outcome = await anyio.to_thread.run_sync(self._publish, work, report, outcome)
        self._scratch.remove(report.scratch.root)
        return outcome

    def _baseline_fault(self, report: AgentReport, case: EvalCase) -> str:
        version = self._versions[Arm.WITH_SKILL]
        assert version is not None  # noqa: S101 - this arm has a skill
        return baseline_fault(report.transcript, version.skill, (self._source, version.folder), case.prompt)

    def _publish(self, work: Work, report: AgentReport, outcome: EvalOutcome) -> EvalOutcome:
        place, folder = work.key.path(self._iteration.runs), self._iteration.folder(work.key)
        try:
            publish_outputs(report.scratch, folder)
        except EvalError as error:
            if outcome.status is EvalStatus.DONE:
                outcome = replace(outcome, status=EvalStatus.ERROR, error=one_line(str(error))[:500])
        if stray := stray_files(report.scratch):
            outcome = replace(outcome, notes=(*outcome.notes, f"files outside of outputs: {', '.join(stray)}"))
        self._iteration.write_text(f"{place}/transcript.jsonl", "".join(f"{line}\n" for line in report.transcript))
        self._iteration.write_text(f"{place}/answer.txt", report.answer)
        self._iteration.write(f"{place}/timing.json", outcome.timing())
        self._iteration.write(f"{place}/eval_metadata.json", metadata_of(work.case, work.key))
        self._iteration.write(f"{place}/outcome.json", outcome.to_json())
        return outcome

    async def _grade(self, run: EvalRun) -> EvalRun:
        """Grade a run and write `grading.json`; why it cannot be graded becomes part of its outcome."""
        place = run.key.path(self._iteration.runs)
        try:
            results, notes = await self._grader.grade(run.case, self._iteration.folder(run.key))
        except SkillsError as error:
            run = replace(run, outcome=replace(run.outcome, grading_error=one_line(str(error))))
        else:
            known = [note for note in run.outcome.notes if not note.startswith("judge: ")]
            outcome = replace(run.outcome, grading_error="", notes=(*known, *(f"judge: {note}" for note in notes)))
            run = replace(run, outcome=outcome, results=tuple(results))
            write = partial(self._iteration.write, f"{place}/grading.json", grading_to_json(results))
            await anyio.to_thread.run_sync(write)
        await anyio.to_thread.run_sync(self._iteration.write, f"{place}/outcome.json", run.outcome.to_json())
        return run
