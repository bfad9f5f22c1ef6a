"""Perform the runs of an iteration and grade them, a limited number at a time; what is done is not repeated."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from server.capabilities.evals.agents.agent import AgentTask, for_each, publish_outputs, stray_files
from server.capabilities.evals.iterations.grading import baseline_fault
from server.capabilities.evals.workspace import EvalError
from skills_core.diagnostics import counted, one_line
from skills_core.disk.files import Location, Reader, read_file
from skills_core.disk.folders import list_folder
from skills_core.errors import FileRefusedError
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
    from rich.progress import Progress

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
    iteration: IterationFolder, grader: Grader, work: Sequence[Work], jobs: int, progress: RunProgress
) -> None:
    """Grade runs that have been performed; `jobs` at a time. Those that have not stay as they are.

    Raises:
        FileRefusedError: a file cannot be written.
    """

    async def one(each: Work) -> None:
        if each.done is not None and not each.is_complete:
            progress.started(each.key)
            progress.ended(await grader.grade_run(iteration, replace(each.done, results=None)))

    await for_each(work, jobs, one)


def _run_line(run: EvalRun) -> str:
    seconds = run.outcome.duration_ms / 1000
    tokens = "" if run.outcome.total_tokens is None else f", {counted(run.outcome.total_tokens, 'token')}"
    if run.outcome.status is not EvalStatus.DONE:
        said = f"{run.outcome.status}: {run.problem}"
    elif run.outcome.grading_error:
        said = f"not graded: {run.outcome.grading_error}"
    elif run.results is None:
        said = "done, not graded"
    elif run.results:
        said = f"{sum(each.passed for each in run.results)} of {counted(len(run.results), 'assertion')} passed"
    else:
        said = "done, without assertions"
    return f"{run.key}: {said} ({seconds:.1f} s{tokens})"


@dataclass(slots=True)
class RunProgress:
    """Shows each of `total` runs that has ended: by `show`, or above a bar that moves; `changed` is called then."""

    total: int
    show: Callable[[str], None]
    changed: Callable[[], None]
    bar: Progress | None = None
    _running: list[str] = field(default_factory=list)
    _ended: int = 0

    def started(self, key: RunKey) -> None:
        """Note that a run begins."""
        self._running.append(str(key))
        self._move()

    def ended(self, run: EvalRun) -> None:
        """Show a run that has ended, and was graded if it could be."""
        self._running.remove(str(run.key))
        self._ended += 1
        if self.bar is None:
            self.show(f"[{self._ended}/{self.total}] {_run_line(run)}")
        else:
            from rich.text import Text

            with suppress(OSError):
                self.bar.console.print(Text(_run_line(run)))
        self._move()
        self.changed()

    def _move(self) -> None:
        if self.bar is not None:
            with suppress(OSError):
                task, running = self.bar.task_ids[0], ", ".join(self._running)[:60]
                self.bar.update(task, completed=self._ended, description=running)


@contextmanager
def showing_progress(
    total: int, show: Callable[[str], None], changed: Callable[[], None], *, plain: bool
) -> Iterator[RunProgress]:
    """Yield the progress of `total` runs, with a bar if stderr is a terminal and `plain` is not set."""
    if plain or not sys.stderr.isatty() or not total:
        yield RunProgress(total, show, changed)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True, highlight=False)) as bar:
        bar.add_task("", total=total)
        yield RunProgress(total, show, changed, bar)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalRunner:
    """Performs the work of one iteration by an agent, with the versions of the skill by arm.

    `source` is the skill's folder, and `inputs` that of the input files. Each run has `seconds`, and `jobs` run at a
    time. Without a grader, the outputs are kept and not graded.
    """

    iteration: IterationFolder
    agent: Agent
    grader: Grader | None
    folders: RunFolders
    versions: Mapping[Arm, SkillVersion | None]
    source: Path
    inputs: Path
    seconds: float
    jobs: int
    progress: RunProgress

    async def run(self, work: Sequence[Work]) -> None:
        """Perform and grade what is left; failures of runs are recorded, and do not end the others.

        Raises:
            SkillsError: the agent cannot be used, or a file cannot be written.
        """
        left = [each for each in work if not each.is_complete]
        tasks = {each.key: self._task(each) for each in left if each.performs}

        async def one(each: Work) -> None:
            await self._one(each, tasks.get(each.key))

        async with self.agent.running(list(tasks.values())) if tasks else nullcontext():
            await for_each(left, self.jobs, one)

    def _task(self, work: Work) -> AgentTask:
        version = self.versions[work.key.arm]
        return AgentTask(
            folder=self.folders.of(work.key, work.attempt),
            prompt=work.case.prompt,
            skills=() if version is None else (version,),
            seconds=self.seconds,
            inputs=input_files(work.case, self.inputs),
        )

    async def _one(self, work: Work, task: AgentTask | None) -> None:
        self.progress.started(work.key)
        outcome = work.done.outcome if work.done is not None else None
        if outcome is None and task is not None:
            outcome = await self._perform(work, task)
        assert outcome is not None  # noqa: S101 - a run is on disk, or has a task
        run = EvalRun(work.key, work.case, outcome)
        if outcome.status is EvalStatus.DONE and self.grader is not None:
            run = await self.grader.grade_run(self.iteration, run)
        self.progress.ended(run)

    async def _perform(self, work: Work, task: AgentTask) -> EvalOutcome:
        """Perform a run and write its files; `outcome.json` comes last, because it says that the run has ended."""
        run = await self.agent.perform(task)
        status, error = status_of(run, task.seconds, known=self.agent.tells_loads)
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
        self.folders.remove(task.folder)
        return outcome

    def _arm_fault(self, run: AgentRun, task: AgentTask) -> str:
        """Return why a run does not belong to its arm: the skill was there where it must not be, or the reverse."""
        if task.skills:
            return load_fault(run.transcript, task.skills[0].name) if self.agent.installed else ""
        version = self.versions[Arm.WITH_SKILL]
        assert version is not None  # noqa: S101 - this arm has a skill
        folders = (self.source, version.folder)
        return absence_fault(run.transcript, version.name, known=self.agent.tells_loads) or baseline_fault(
            run.lines, version.skill, folders, task.prompt
        )

    def _load_of(self, run: AgentRun, task: AgentTask, status: EvalStatus) -> tuple[bool | None, str]:
        """Return whether the skill was loaded, None if this is unknown or means nothing, and a remark if it was not."""
        if not task.skills or not self.agent.tells_loads or status is not EvalStatus.DONE:
            return None, ""
        note = load_note(run.transcript, task.skills[0].name)
        return not note, note

    def _publish(self, work: Work, run: AgentRun, task: AgentTask, outcome: EvalOutcome) -> EvalOutcome:
        place, folder = self.iteration.place(work.key), self.iteration.folder(work.key)
        try:
            outcome = replace(outcome, outputs_digest=publish_outputs(task.folder, folder, run.answer))
        except EvalError as error:
            if outcome.status is EvalStatus.DONE:
                outcome = replace(outcome, status=EvalStatus.ERROR, error=one_line(str(error))[:500])
        if stray := stray_files(task.folder, task.inputs):
            outcome = replace(outcome, notes=(*outcome.notes, f"files outside of outputs: {', '.join(stray)}"))
        self.iteration.write_text(f"{place}/transcript.jsonl", "".join(f"{line}\n" for line in run.lines))
        self.iteration.write_text(f"{place}/answer.txt", run.answer)
        self.iteration.write(f"{place}/timing.json", outcome.timing())
        self.iteration.write(f"{place}/eval_metadata.json", metadata_of(work.case, work.key))
        self.iteration.write(f"{place}/outcome.json", outcome.to_json())
        return outcome


_EVAL_FILES: Final = ("evals/files/", "evals/")


def input_files(case: EvalCase, skill: Path) -> dict[str, Location]:
    """Return the input files of a case in the folder of a skill, by their paths in the workspace."""
    return {path: Location(skill, file) for path, file in zip(input_paths(case), case.files, strict=True)}


def input_paths(case: EvalCase) -> tuple[str, ...]:
    """Return where the input files of a case lie in the workspace.

    A file lies where the prompt names it (`data/sales.csv`) or its folder, else at its path without `evals/files/`.
    The folder of the case there is the workspace as a whole: what it holds lies at its own path.
    """
    own = f"{_EVAL_FILES[0]}{case.slug}/"
    taken: set[str] = {"outputs"}
    placed: list[str] = []
    for path in case.files:
        if path.startswith(own):
            taken.add(path.removeprefix(own))
            placed.append(path.removeprefix(own))
            continue
        folder = next((each for each in _EVAL_FILES if path.startswith(each)), "")
        parent, inside, _ = path.removeprefix(folder).partition("/")
        kept = bool(folder and inside) and folder + parent in case.prompt
        named = path if kept else _named_in(case.prompt, path.rpartition("/")[2])
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


@dataclass(frozen=True, slots=True)
class UsableCases:
    """The cases whose input files are there, with the digests of these by path; `notes` tell what of a case is not."""

    cases: tuple[EvalCase, ...]
    digests: Mapping[str, str]
    notes: tuple[str, ...]


def usable_cases(folder: Path, cases: Sequence[EvalCase], skill: str) -> UsableCases:
    """Return the cases that can be run with the files in `folder`; a folder among their files stands for its files.

    Raises:
        EvalError: no case can be run.
    """
    usable: list[EvalCase] = []
    digests: dict[str, str] = {}
    left_out: list[str] = []
    with_main: list[str] = []
    for case in cases:
        files: dict[str, str] = {}
        faults: list[str] = []
        for path in case.files:
            if _is_main_file(folder, path, skill):
                with_main.append(case.folder)
                continue
            try:
                files |= _digests(folder, path)
            except EvalError as error:
                faults.append(str(error))
        if faults:
            left_out.append(f"{case.folder} is left out: {'; '.join(faults[:10])}")
            continue
        digests |= files
        usable.append(replace(case, files=tuple(files)))
    if not usable:
        raise EvalError("\n".join(["no case can be run", *left_out[:10]]))
    notes = (
        [f"the file SKILL.md is the skill, which only runs with it have: {', '.join(with_main)}"] if with_main else []
    )
    return UsableCases(tuple(usable), digests, (*left_out, *notes))


def _is_main_file(folder: Path, path: str, skill: str) -> bool:
    """Whether a path names the SKILL.md itself, perhaps from the root of its repository."""
    parent, _, name = path.rpartition("/")
    return name.casefold() == "skill.md" and (
        not parent or (parent.rpartition("/")[2] == skill and not (folder / path).exists())
    )


_MAX_INPUTS: Final = 1000


def _digests(folder: Path, path: str) -> dict[str, str]:
    """Return the digests of a file, or of all files in a folder, by path; the path may be relative to `evals`.

    Raises:
        EvalError: there is no such file or folder, or a file in it cannot be read.
    """
    name = path.rpartition("/")[2]
    places = (path, f"evals/{path}", f"evals/files/{path}", f"evals/files/{name}", f"evals/{name}")
    place = next((each for each in places if os.path.lexists(folder / each)), path)
    try:
        return {place: hashlib.sha256(_read(folder, place)).hexdigest()}
    except EvalError as error:
        refusal = EvalError(f"{path}: {error}; add the file to the skill's folder, or correct the path")
    try:
        with Reader() as reader:
            inside = list(islice(_files_below(reader, folder, place), _MAX_INPUTS + 1))
    except OSError:
        raise refusal from None
    if not 1 <= len(inside) <= _MAX_INPUTS:
        raise EvalError(
            f"{path}: expected a folder with 1 to {_MAX_INPUTS} files, found {'more' if inside else 'none'}"
        )
    return {each: hashlib.sha256(_read(folder, each)).hexdigest() for each in inside}


def _files_below(reader: Reader, folder: Path, place: str) -> Iterator[str]:
    """Yield the paths of all files in a folder, links among them, which cannot be read.

    Raises:
        OSError: the folder cannot be listed.
    """
    with reader.entries(Location(folder, place)) as entries:
        listing = list_folder(entries, fingerprints=False)
    yield from (f"{place}/{name}" for name, _ in (*listing.files, *listing.refused))
    for name in listing.folders:
        yield from _files_below(reader, folder, f"{place}/{name}")


def _read(folder: Path, path: str) -> bytes:
    try:
        return read_file(Location(folder, path))[0]
    except FileRefusedError as error:
        raise EvalError(error.message) from None
