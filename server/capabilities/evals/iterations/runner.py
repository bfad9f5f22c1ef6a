"""Perform the runs of an iteration and grade them, a limited number at a time; what is done is not repeated."""

from __future__ import annotations

import hashlib
import logging
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import anyio.to_thread

from server.capabilities.evals.agents.agent import AgentTask, publish_outputs, stray_files
from server.capabilities.evals.iterations.grading import baseline_fault
from server.capabilities.evals.workspace import EvalError
from skills_core.diagnostics import one_line
from skills_core.disk.files import Location, read_file
from skills_core.errors import FileRefusedError, SkillsError
from skills_core.evals.grading.results import (
    Arm,
    EvalOutcome,
    EvalRun,
    EvalStatus,
    RunKey,
    absence_fault,
    load_fault,
    load_note,
    metadata_of,
    status_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from server.capabilities.evals.agents.agent import Agent, RunFolders
    from server.capabilities.evals.iterations.grading import Grader
    from server.capabilities.evals.tested_skills import SkillVersion
    from server.capabilities.evals.workspace import IterationFolder
    from skills_core.evals.agents.kind import AgentRun
    from skills_core.evals.grading.cases import EvalCase

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """What is left to do for one run: `done` is the run as it is on disk, None if it has to be performed.

    Without `grades`, nothing is left once it has been performed.
    """

    key: RunKey
    case: EvalCase
    attempt: int
    done: EvalRun | None
    grades: bool = True

    @property
    def performs(self) -> bool:
        """Whether the agent has to run."""
        return self.done is None

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do."""
        return self.done is not None and not (self.grades and self.done.problem)


def work_of(
    iteration: IterationFolder, keys: Iterable[tuple[RunKey, EvalCase]], judge: str | None, *, grades: bool = True
) -> list[Work]:
    """Return the work that is left in an iteration; runs that ended with an error are repeated.

    With `grades`, runs are graded that are not yet, or not by these assertions and this judge.
    """
    found: list[Work] = []
    for key, case in keys:
        run = iteration.run(key, case, judge if grades else None)
        failed = run is not None and run.outcome.status is not EvalStatus.DONE
        attempt = run.outcome.attempt + 1 if run is not None and failed else 1
        found.append(Work(key, case, attempt, None if failed else run, grades))
    return found


async def grade_runs(
    iteration: IterationFolder, grader: Grader, work: Sequence[Work], jobs: int, listener: ProgressListener
) -> None:
    """Grade runs that have been performed; `jobs` at a time. Those that have not stay as they are.

    Raises:
        FileRefusedError: a file cannot be written.
    """

    async def one(each: Work) -> None:
        if each.done is not None and not each.is_complete:
            listener.started(each.key)
            listener.ended(await grader.grade_run(iteration, replace(each.done, results=None)))

    await _at_most(jobs, work, one)


async def _at_most(jobs: int, work: Iterable[Work], do: Callable[[Work], Awaitable[None]]) -> None:
    """Do the work, `jobs` at a time; the first error ends it.

    Raises:
        SkillsError: the first error.
    """
    faults: list[SkillsError] = []
    limiter = anyio.CapacityLimiter(jobs)

    async def one(each: Work, scope: anyio.CancelScope) -> None:
        async with limiter:
            try:
                await do(each)
            except SkillsError as error:  # raised below, where no task group wraps it
                faults.append(error)
                scope.cancel()

    async with anyio.create_task_group() as group:
        for each in work:
            group.start_soon(one, each, group.cancel_scope)
    if faults:
        raise faults[0]


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
        iteration: IterationFolder,
        agent: Agent,
        grader: Grader | None,
        folders: RunFolders,
        versions: Mapping[Arm, SkillVersion | None],
        source: Path,
        *,
        seconds: float,
        jobs: int,
        listener: ProgressListener,
    ) -> None:
        """Input files are read from `source`; each run has `seconds`, and `jobs` run at a time.

        Without a grader, the outputs are kept and not graded.
        """
        self._iteration = iteration
        self._agent = agent
        self._grader = grader
        self._folders = folders
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

        async def one(each: Work) -> None:
            await self._one(each, tasks.get(each.key))

        async with self._agent_for(list(tasks.values())):
            await _at_most(self._jobs, left, one)

    @asynccontextmanager
    async def _agent_for(self, tasks: list[AgentTask]) -> AsyncGenerator[None]:
        if not tasks:
            yield
            return
        async with self._agent.running(tasks):
            yield

    def _task(self, work: Work) -> AgentTask:
        version = self._versions[work.key.arm]
        return AgentTask(
            folder=self._folders.of(work.key, work.attempt),
            prompt=work.case.prompt,
            skills=() if version is None else (version,),
            seconds=self._seconds,
            inputs=input_files(work.case, self._source),
        )

    async def _one(self, work: Work, task: AgentTask | None) -> None:
        self._listener.started(work.key)
        outcome = work.done.outcome if work.done is not None else None
        if outcome is None and task is not None:
            outcome = await self._perform(work, task)
        assert outcome is not None  # noqa: S101 - a run is on disk, or has a task
        run = EvalRun(work.key, work.case, outcome)
        if outcome.status is EvalStatus.DONE and self._grader is not None:
            run = await self._grader.grade_run(self._iteration, run)
        self._listener.ended(run)

    async def _perform(self, work: Work, task: AgentTask) -> EvalOutcome:
        """Perform a run and write its files; `outcome.json` comes last, because it says that the run has ended."""
        run = await self._agent.perform(task)
        status, error = status_of(run, task.seconds, known=self._agent.tells_loads)
        if status is EvalStatus.DONE and (fault := self._arm_fault(run, task)):
            status, error = EvalStatus.ERROR, fault
        record = run.transcript
        loaded, remark = self._load_of(run, task, status)
        outcome = EvalOutcome(
            status=status,
            error=one_line(error),
            exit_code=run.exit_code,
            duration_ms=round(run.seconds * 1000),
            total_tokens=record.total_tokens,
            cost_usd=record.cost_usd,
            tool_calls=record.tool_calls if record.recognized else None,
            attempt=work.attempt,
            skill_loaded=loaded,
            notes=tuple(filter(None, (*run.notes, remark))),
        )
        outcome = await anyio.to_thread.run_sync(self._publish, work, run, task, outcome)
        self._folders.remove(task.folder)
        return outcome

    def _arm_fault(self, run: AgentRun, task: AgentTask) -> str:
        """Return why a run does not belong to its arm: the skill was there where it must not be, or the reverse."""
        if task.skills:
            return load_fault(run.transcript, task.skills[0].name) if self._agent.installed else ""
        version = self._versions[Arm.WITH_SKILL]
        assert version is not None  # noqa: S101 - this arm has a skill
        folders = (self._source, version.folder)
        return absence_fault(run.transcript, version.name, known=self._agent.tells_loads) or baseline_fault(
            run.lines, version.skill, folders, task.prompt
        )

    def _load_of(self, run: AgentRun, task: AgentTask, status: EvalStatus) -> tuple[bool | None, str]:
        """Return whether the skill was loaded, None if this is unknown or means nothing, and a remark if it was not."""
        if not task.skills or not self._agent.tells_loads or status is not EvalStatus.DONE:
            return None, ""
        note = load_note(run.transcript, task.skills[0].name)
        return not note, note

    def _publish(self, work: Work, run: AgentRun, task: AgentTask, outcome: EvalOutcome) -> EvalOutcome:
        place, folder = work.key.path(self._iteration.runs), self._iteration.folder(work.key)
        try:
            outcome = replace(outcome, outputs_digest=publish_outputs(task.folder, folder, run.answer))
        except EvalError as error:
            if outcome.status is EvalStatus.DONE:
                outcome = replace(outcome, status=EvalStatus.ERROR, error=one_line(str(error))[:500])
        if stray := stray_files(task.folder, task.inputs):
            outcome = replace(outcome, notes=(*outcome.notes, f"files outside of outputs: {', '.join(stray)}"))
        self._iteration.write_text(f"{place}/transcript.jsonl", "".join(f"{line}\n" for line in run.lines))
        self._iteration.write_text(f"{place}/answer.txt", run.answer)
        self._iteration.write(f"{place}/timing.json", outcome.timing())
        self._iteration.write(f"{place}/eval_metadata.json", metadata_of(work.case, work.key))
        self._iteration.write(f"{place}/outcome.json", outcome.to_json())
        return outcome


_EVAL_FILES: Final = ("evals/files/", "evals/")


def input_files(case: EvalCase, skill: Path) -> dict[str, Location]:
    """Return the input files of a case in the folder of a skill, by their paths in the workspace."""
    return {path: Location(skill, file) for path, file in zip(input_paths(case), case.files, strict=True)}


def input_paths(case: EvalCase) -> tuple[str, ...]:
    """Return where the input files of a case lie in the workspace.

    A file lies where the prompt names it (`data/sales.csv`), else at its path without `evals/files/`.
    """
    taken: set[str] = {"outputs"}
    placed: list[str] = []
    for path in case.files:
        folder = next((each for each in _EVAL_FILES if path.startswith(each)), "")
        named = _named_in(case.prompt, path.rpartition("/")[2])
        target = next((each for each in (named, path.removeprefix(folder), path) if each and each not in taken), path)
        taken.add(target)
        placed.append(target)
    return tuple(placed)


def _named_in(prompt: str, name: str) -> str | None:
    """Return the relative path by which a prompt names a file, if it does."""
    for found in re.findall(rf"[\w./~-]*{re.escape(name)}(?!\w)", prompt):
        parts = found.removeprefix("./").split("/")
        if parts[-1] == name and all(part not in {"", ".", "..", "~"} for part in parts) and parts[0] != "outputs":
            return "/".join(parts)
    return None


def check_input_files(folder: Path, cases: Sequence[EvalCase]) -> Mapping[str, str]:
    """Return the digests of the input files, by path.

    Raises:
        EvalError: a file does not exist, is not a regular file within the skill, or is the SKILL.md itself.
    """
    digests: dict[str, str] = {}
    faults: list[str] = []
    for number, case in enumerate(cases):
        for position, path in enumerate(case.files):
            where = f"{folder / 'evals' / 'evals.json'}: evals[{number}].files[{position}]: {path}"
            if path.casefold() == "skill.md":
                faults.append(f"{where}: this is the skill itself, which the baseline must not have; remove it")
                continue
            try:
                digests[path] = hashlib.sha256(_read(folder, path)).hexdigest()
            except EvalError as error:
                inside = next((each for each in _suggestions(folder, path)), None)
                hint = f"write {inside}" if inside else "add the file to the skill's folder, or correct the path"
                faults.append(f"{where}: {error}; {hint}")
    if faults:
        raise EvalError("\n".join(faults[:10]))
    return digests


def _suggestions(folder: Path, path: str) -> Iterable[str]:
    name = path.rpartition("/")[2]
    for each in (f"evals/{path}", f"evals/files/{name}", f"evals/{name}"):
        if (folder / each).is_file():
            yield each


def _read(folder: Path, path: str) -> bytes:
    try:
        return read_file(Location(folder, path))[0]
    except FileRefusedError as error:
        raise EvalError(error.message) from None
