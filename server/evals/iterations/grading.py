"""Grade a finished run: assertions with a command by the command, all others by a model that quotes its evidence."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from server.evals.agents.run_folder import RUNS_PREFIX
from server.evals.errors import EvalError
from server.evals.iterations.checks import CheckPlace, run_check
from skills_core.diagnostics import one_line
from skills_core.disk.files import Location, Reader
from skills_core.disk.folders import is_ignored
from skills_core.errors import FileRefusedError, SkillsError
from skills_core.evals.grading.judging import assertions_for_judge, judge
from skills_core.evals.grading.material import Material, OutputFile, transcript_text
from skills_core.evals.grading.results import GradingBasis, grading_to_json
from skills_core.run.models import connected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pydantic_ai.models import Model

    from server.evals.iterations.files import Iteration
    from skills_core.evals.grading.cases import EvalCase
    from skills_core.evals.grading.results import AssertionResult, EvalRun

__all__ = ["Grader", "final_material", "read_material"]

_PLACE: Final = re.compile(rf"[^\s\"'`()<>]*{re.escape(RUNS_PREFIX)}[^\s\"'`()<>]*")
_MAX_FILES: Final = 2000
_MAX_READ: Final = 2_000_000
_MAX_TRANSCRIPT: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Grader:
    """Grades runs; `model` is None if commands decide all assertions. Checks find the eval files in `evals`.

    `instructions` are lines of the skill: that an agent has read them proves nothing. `judge` names the model.
    """

    model: Model | None
    evals: Path
    instructions: tuple[str, ...] = ()
    judge: str = ""

    async def grade_run(self, iteration: Iteration, run: EvalRun) -> EvalRun:
        """Grade a run and write `grading.json`; why it cannot be graded becomes part of its outcome.

        Raises:
            FileRefusedError: a file cannot be written.
        """
        place = run.key.path(iteration.runs)
        try:
            results, notes = await self.grade(run.case, iteration.folder(run.key))
        except SkillsError as error:
            run = replace(run, outcome=replace(run.outcome, grading_error=one_line(str(error))))
        else:
            known = [note for note in run.outcome.notes if not note.startswith("judge: ")]
            outcome = replace(run.outcome, grading_error="", notes=(*known, *(f"judge: {note}" for note in notes)))
            run = replace(run, outcome=outcome, results=tuple(results))
            document = grading_to_json(results, GradingBasis.of(run.case, self.judge))
            await anyio.to_thread.run_sync(iteration.write, f"{place}/grading.json", document)
        await anyio.to_thread.run_sync(iteration.write, f"{place}/outcome.json", run.outcome.to_json())
        return run

    async def grade(self, case: EvalCase, folder: Path) -> tuple[list[AssertionResult], tuple[str, ...]]:
        """Return the results of a case's assertions about the run in `folder`, and the judge's notes.

        Raises:
            CheckError: a check could not decide.
            NoAnswerError: the judge gave no usable answer.
            EvalError: the run left nothing to grade.
        """
        if not (folder / "outputs").is_dir() or not (folder / "transcript.jsonl").is_file():
            raise EvalError("the outputs or the transcript of the run are missing")
        place = CheckPlace(folder, self.evals)
        results = {each.text: await run_check(each, place) for each in case.assertions if each.check is not None}
        notes: tuple[str, ...] = ()
        if judged := assertions_for_judge(case):
            material = await anyio.to_thread.run_sync(partial(read_material, folder, case, self.instructions))
            if material.is_empty:
                raise EvalError("the run left neither outputs nor a transcript, so there is nothing to judge")
            if self.model is None:
                raise EvalError("assertions without a check need a judge; name one with --judge-model or --judge-agent")
            async with connected(self.model):
                judgement = await judge(self.model, case, judged, material)
            results |= {each.text: each for each in judgement.results}
            notes = judgement.notes
        return [results[each.text] for each in case.assertions], notes


def read_material(folder: Path, case: EvalCase, instructions: tuple[str, ...] = ()) -> Material:
    """Return the outputs and the transcript in the folder of a run."""
    transcript = _bounded(folder / "transcript.jsonl").splitlines()
    # The run has seen the prompt, but neither assertions nor the expected output: what equals them is its own.
    return Material(tuple(_files(folder / "outputs")), transcript_text(transcript), (case.prompt, *instructions))


def final_material(folder: Path) -> Material:
    """Return what a user would get of a run: the outputs, and the answer, but not how it was made.

    Paths in the run's own folders are left out, because that of the skill tells the arm.
    """
    files = tuple(
        each if each.text is None else replace(each, text=_without_places(each.text))
        for each in _files(folder / "outputs")
    )
    return Material(files, _without_places(_bounded(folder / "answer.txt")))


def _without_places(text: str) -> str:
    return _PLACE.sub("…", text)


def _files(outputs: Path) -> Iterator[OutputFile]:
    left = _MAX_FILES
    with Reader() as reader:
        for parent, folders, names in os.walk(outputs):
            folders[:] = sorted(each for each in folders if not is_ignored(each))
            for name in sorted(names):
                path = os.path.relpath(os.path.join(parent, name), outputs).replace(os.sep, "/")  # noqa: PTH118
                try:
                    raw, fingerprint = reader.read(Location(outputs, path))
                except FileRefusedError:
                    continue
                yield OutputFile(path, fingerprint.size, _text_of(raw))
                left -= 1
                if left == 0:
                    return


def _text_of(raw: bytes) -> str | None:
    """Return the text of a file; None for a binary or very long one."""
    if len(raw) > _MAX_READ or b"\0" in raw:
        return None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _bounded(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MAX_TRANSCRIPT).decode("utf-8", "replace")
