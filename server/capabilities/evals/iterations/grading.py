"""Grade what finished runs left behind, and compare the outputs of both arms blindly.

Assertions with a command are decided by it: `sh` runs it in `outputs/`, exit code 0 is a PASS and the output the
evidence. All others are decided by a model that quotes its evidence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from server.capabilities.evals.agents.agent import RUNS_PREFIX, for_each
from server.capabilities.evals.agents.cli_agent import run_program, shell_words
from server.capabilities.evals.workspace import GRADING, EvalError
from skills_core.diagnostics import one_line
from skills_core.disk.files import Location, Reader
from skills_core.disk.folders import is_ignored
from skills_core.errors import FileRefusedError, SkillsError
from skills_core.evals.feedback import digest_of_case
from skills_core.evals.grading.judging import (
    Material,
    OutputFile,
    assertions_for_judge,
    compare_blindly,
    cut_middle,
    judge,
    overall_winner,
    transcript_text,
)
from skills_core.evals.grading.results import Arm, AssertionResult, EvalStatus, RunKey, grading_basis, grading_to_json
from skills_core.runs.models import connected
from skills_core.runs.spending import BoundReachedError
from skills_core.scripts.process import Command, ProcessEnding, ProcessLimits, exit_text, run_process

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from server.capabilities.evals.workspace import IterationFolder
    from skills_core.evals.grading.cases import Assertion, EvalCase
    from skills_core.evals.grading.results import EvalRun
    from skills_core.skills.skill import Skill


CANNOT_START: Final = frozenset({126, 127})
"""Exit codes of a shell that cannot start a program."""


_SYNTAX_SECONDS: Final = 20.0


async def check_syntax(command: str) -> str:
    """Return why a shell cannot read a command, empty if it can.

    Raises:
        EvalError: there is no shell.
    """
    shell, *words = shell_words(command)
    started = Command((shell, "-n", *words), Path(os.sep), os.environ)
    done = await run_process(started, ProcessLimits(_SYNTAX_SECONDS, 10_000))
    if done.ending is ProcessEnding.EXITED and done.exit_code == 0:
        return ""
    return done.fault or done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.exit_code}"


CHECK_SECONDS: Final = 120.0
_MAX_OUTPUT: Final = 1_000_000
_MAX_EVIDENCE: Final = 2000


async def check_commands(cases: Sequence[EvalCase], where: Path) -> None:
    """Check the syntax of all commands before any run is paid for.

    Raises:
        EvalError: a command cannot be read by the shell.
    """
    for number, case in enumerate(cases):
        for position, assertion in enumerate(case.assertions):
            if assertion.check is not None and (fault := await check_syntax(assertion.check)):
                place = f"{where}: evals[{number}].assertions[{position}].check"
                raise EvalError(f"{place}: expected a command for sh, found {assertion.check[:100]!r}: {fault}")


async def _run_check(assertion: Assertion, folder: Path, evals: Path) -> AssertionResult:
    """Return the result of an assertion whose command looks at the run in `folder` and the skill's eval files.

    Raises:
        EvalError: the command could not decide, because it did not start or did not end by itself.
    """
    environment = {
        **os.environ,
        "OUTPUTS": str(folder / "outputs"),
        "TRANSCRIPT": str(folder / "transcript.jsonl"),
        "ANSWER": str(folder / "answer.txt"),
        "EVALS": str(evals),
        # A check in Python must not leave files in the skill.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    limits = ProcessLimits(CHECK_SECONDS, _MAX_OUTPUT)
    command = Command(shell_words(assertion.check or ""), folder / "outputs", environment)
    done = await run_program(command, limits)
    output = b"\n".join(filter(None, (done.stdout.strip(), done.stderr.strip()))).decode("utf-8", "replace")
    named = f"the check of {assertion.text[:100]!r}"
    match done.ending:
        case ProcessEnding.NOT_STARTED:
            raise EvalError(one_line(f"{named} was not started: {done.fault}"))
        case ProcessEnding.TIMED_OUT:
            raise EvalError(one_line(f"{named} took longer than {CHECK_SECONDS:g} seconds"))
        case ProcessEnding.TOO_MUCH_OUTPUT:
            raise EvalError(one_line(f"{named} printed more than {_MAX_OUTPUT} bytes"))
    if done.exit_code in CANNOT_START or done.exit_code is None or done.exit_code < 0:
        raise EvalError(one_line(f"{named} {exit_text(done.exit_code)}, so it decided nothing: {output[-300:]}"))
    passed = done.exit_code == 0
    evidence = cut_middle(output, _MAX_EVIDENCE) or ("the check printed nothing" if passed else "")
    return AssertionResult(
        assertion.text, passed, evidence if passed else f"exit code {done.exit_code}. {evidence}".strip()
    )


_MIN_LINE: Final = 60
# A shorter line of a body may occur in any text.


def baseline_fault(transcript: Sequence[str], skill: Skill, folders: Iterable[Path], given: str) -> str:
    """Return why a run without the skill does not count, empty if it does.

    `folders` are those of the skill. `given` is what the agent was given, which may repeat a line of the skill.
    """
    text = transcript_text(transcript)
    for folder in map(str, folders):
        if f"{folder}/" in text:
            return f"the baseline is not without the skill: the agent named {folder}"
    line = max(instruction_lines(skill), key=len, default="")
    if line and line in text and line not in given:
        return "the baseline is not without the skill: its transcript has a line of the instructions"
    return ""


def instruction_lines(skill: Skill) -> tuple[str, ...]:
    """Return the lines of a skill's instructions that are long enough to be recognized in a transcript."""
    lines = map(str.strip, skill.body.splitlines())
    return tuple(line for line in lines if len(line) >= _MIN_LINE)


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

    async def grade_run(self, iteration: IterationFolder, run: EvalRun) -> EvalRun:
        """Grade a run, and write `grading.json` if it has assertions; a failure becomes part of its outcome.

        Raises:
            FileRefusedError: a file cannot be written.
            BoundReachedError: the judge has bounds, and they leave no room; the run stays ungraded.
        """
        place = iteration.place(run.key)
        try:
            results, notes = await self.grade(run.case, iteration.folder(run.key))
        except BoundReachedError:
            raise
        except SkillsError as error:
            run = replace(run, outcome=replace(run.outcome, grading_error=one_line(str(error))))
        else:
            known = [note for note in run.outcome.notes if not note.startswith("judge: ")]
            outcome = replace(run.outcome, grading_error="", notes=(*known, *(f"judge: {note}" for note in notes)))
            run = replace(run, outcome=outcome, results=tuple(results))
            # A grading of nothing would count as a score of 0 for readers such as skill-creator's aggregator.
            document = grading_to_json(results, grading_basis(run.case, self.judge)) if results else None
            await anyio.to_thread.run_sync(iteration.write_or_remove, f"{place}/{GRADING}", document)
        await anyio.to_thread.run_sync(iteration.write, f"{place}/outcome.json", run.outcome.to_json())
        return run

    async def grade(self, case: EvalCase, folder: Path) -> tuple[list[AssertionResult], list[str]]:
        """Return the results of a case's assertions about the run in `folder`, and the judge's notes.

        Raises:
            NoAnswerError: the judge gave no usable answer.
            EvalError: the run left nothing to grade, or a check could not decide.
        """
        if not (folder / "outputs").is_dir() or not (folder / "transcript.jsonl").is_file():
            raise EvalError("the outputs or the transcript of the run are missing")
        checked = [each for each in case.assertions if each.check is not None]
        results = {each.text: await _run_check(each, folder, self.evals) for each in checked}
        notes: list[str] = []
        if judged := assertions_for_judge(case):
            material = await anyio.to_thread.run_sync(partial(read_material, folder, case, self.instructions))
            if material.is_empty:
                raise EvalError("the run left neither outputs nor a transcript, so there is nothing to judge")
            if self.model is None:
                raise EvalError("assertions without a check need a judge; name one with --judge-model or --judge-agent")
            async with connected(self.model):
                graded, notes = await judge(self.model, case, judged, material)
            results |= {each.text: each for each in graded}
        return [results[each.text] for each in case.assertions], notes


def read_material(folder: Path, case: EvalCase, instructions: tuple[str, ...] = ()) -> Material:
    """Return the outputs and the transcript in the folder of a run."""
    transcript = _bounded(folder / "transcript.jsonl").splitlines()
    # The run has seen the prompt, but neither assertions nor the expected output: what equals them is its own.
    return Material(tuple(output_files(folder / "outputs")), transcript_text(transcript), (case.prompt, *instructions))


def final_material(folder: Path) -> Material:
    """Return what a user would get of a run: the outputs, and the answer, but not how it was made.

    Paths in the run's own folders are left out, because that of the skill tells the arm.
    """
    files = tuple(
        each if each.text is None else replace(each, text=_without_places(each.text))
        for each in output_files(folder / "outputs")
    )
    return Material(files, _without_places(_bounded(folder / "answer.txt")))


def _without_places(text: str) -> str:
    return _PLACE.sub("…", text)


def output_files(outputs: Path) -> Iterator[OutputFile]:
    """Yield the files of a run's outputs in order, up to a number of them; links and ignored folders stay out."""
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


COMPARISON = "comparison.json"


def comparisons_of(iteration: IterationFolder, runs: Iterable[EvalRun]) -> dict[str, dict[str, Any]]:
    """Return the comparisons by case; one of outputs that have been replaced since is left out."""
    found: dict[str, dict[str, Any]] = {}
    for folder, now in _digests(runs).items():
        document = iteration.read(f"{folder}/{COMPARISON}")
        if isinstance(document, dict) and (not now or document.get("outputs_digest") in (None, now)):
            found[folder] = document
    return found


def uncompared(iteration: IterationFolder, runs: Sequence[EvalRun]) -> set[str]:
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

    iteration: IterationFolder
    model: Model
    baseline: Arm
    jobs: int

    async def run(self, runs: Sequence[EvalRun]) -> list[str]:
        """Compare the cases that are not compared yet; return what failed.

        Raises:
            BoundReachedError: the judge has bounds, and they leave no room.
        """
        by_key = {run.key: run for run in runs if run.outcome.status is EvalStatus.DONE}
        pending = uncompared(self.iteration, runs)
        problems: list[str] = []

        async def one(folder: str) -> None:
            try:
                await self._compare(folder, by_key)
            except BoundReachedError:
                raise
            except SkillsError as error:
                problems.append(one_line(f"{folder}: the outputs were not compared: {error}"))

        async with connected(self.model):
            await for_each(sorted(pending), self.jobs, one)
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
                pairs.append({**found, "run_number": number})
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
