"""Read what an iteration of evals says about a skill: grades, feedback, transcripts and names of outputs.

Runs wrote into these folders, so nothing is read through a link, and files and folders have a maximum size.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import printable
from skills_core.disk.files import Location, Reader
from skills_core.disk.folders import EVALS, MAIN_FILE, find_main, list_folder
from skills_core.errors import FileRefusedError, SkillsError
from skills_core.evals.feedback import FEEDBACK_FILE, digest_of_case, read_feedback
from skills_core.evals.proposals.proposed_change import CurrentSkill
from skills_core.evals.proposals.signals import (
    CaseSignals,
    RunSignals,
    read_grades,
    read_object,
    shortened_transcript,
)
from skills_core.loading.loader import MAX_MAIN_SIZE
from skills_core.system_faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["MissingIterationError", "find_iteration", "read_cases", "read_current_skill"]

_ITERATION: Final = re.compile(r"iteration-([1-9]\d{0,8})")
_WITH_SKILL: Final = "with_skill"
_BASELINES: Final = ("without_skill", "old_skill")

_MAX_JSON: Final = 4 * 1024 * 1024
_MAX_TRANSCRIPT: Final = 16 * 1024 * 1024
_MAX_ENTRIES: Final = 500
_MAX_SKILL_FILES: Final = 4096
_MAX_DEPTH: Final = 6


class MissingIterationError(SkillsError):
    """A workspace has no iteration of evals."""


def find_iteration(workspace: Path) -> Path:
    """Return the folder of the latest iteration in a workspace.

    Raises:
        MissingIterationError: there is none.
    """
    with Reader() as reader:
        numbers = [int(found[1]) for name in _names(reader, workspace, "")[1] if (found := _ITERATION.fullmatch(name))]
    if not numbers:
        raise MissingIterationError(
            f"{printable(str(workspace))}: no folder `iteration-N` is here. Run `skillserve eval` on the skill first, "
            "or name the workspace with --workspace."
        )
    return workspace / f"iteration-{max(numbers)}"


def read_current_skill(folder: Path) -> CurrentSkill:
    """Return the skill in a folder, with the paths of all its files but those of its evals.

    Raises:
        FileRefusedError: the folder has no SKILL.md, or it is a link or cannot be read.
    """
    with Reader() as reader:
        try:
            with reader.entries(Location(folder, "")) as entries:
                main = find_main(list_folder(entries, fingerprints=False)) or MAIN_FILE
        except OSError:
            main = MAIN_FILE
        raw, _ = reader.read(Location(folder, main), MAX_MAIN_SIZE)
        paths, closed = _tree(reader, folder)
    return CurrentSkill(folder.resolve().name, raw, frozenset(paths), main, frozenset(closed))


def _tree(reader: Reader, folder: Path) -> tuple[set[str], set[str]]:
    """Return the paths of the files in a skill, and those of links and of other things that are no files."""
    paths: set[str] = set()
    closed: set[str] = set()
    waiting = [""]
    while waiting and len(paths) < _MAX_SKILL_FILES:
        prefix = waiting.pop()
        files, folders, refused = _names(reader, folder, prefix.removesuffix("/"))
        paths.update(f"{prefix}{name}" for name in files)
        closed.update(f"{prefix}{name}" for name in refused)
        inner = [f"{prefix}{name}/" for name in folders if prefix or name.casefold() != EVALS]
        waiting += inner if prefix.count("/") < _MAX_DEPTH else []
    return paths, closed


def read_cases(iteration: Path) -> tuple[CaseSignals, ...]:
    """Return the signals of each case in an iteration; what is missing or damaged counts as absent.

    Feedback on outputs that were replaced says nothing of the skill as it is and is left out.
    """
    with Reader() as reader:
        files = _Files(reader, iteration)
        names = [name for name in files.folders("") if name.startswith("eval-")]
        value = read_object(files.read(FEEDBACK_FILE, _MAX_JSON))
        feedback = read_feedback(value, names, _WITH_SKILL)
        return tuple(_case(files, name, feedback.on(name, _outputs_of(files, name)).now or "") for name in names)


def _outputs_of(files: _Files, case: str) -> str:
    """Return the digest of the outputs of a case; empty if it is unknown."""
    runs = _runs(files, f"{case}/{_WITH_SKILL}")
    found = (read_object(files.read(f"{run}/outcome.json", _MAX_JSON)).get("outputs_digest") for run in runs)
    return digest_of_case(each if isinstance(each, str) else None for each in found)


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of an iteration."""

    reader: Reader
    root: Path

    def read(self, path: str, limit: int) -> bytes | None:
        try:
            return self.reader.read(Location(self.root, path), limit)[0]
        except FileRefusedError:
            return None

    def transcript(self, path: str) -> str:
        try:
            return shortened_transcript(_spoken(self.reader.read(Location(self.root, path), _MAX_TRANSCRIPT)[0]))
        except FileRefusedError as error:
            return "" if error.fault is Fault.ABSENT else f"[the transcript cannot be read: {error.message}]"

    def folders(self, path: str) -> list[str]:
        return sorted(_names(self.reader, self.root, path)[1], key=_natural)[:_MAX_ENTRIES]

    def written(self, path: str) -> Iterator[str]:
        """Yield the names of the files in a folder and in the folders directly in it."""
        files, folders, _ = _names(self.reader, self.root, path)
        yield from sorted(files)[:_MAX_ENTRIES]
        for folder in sorted(folders)[:_MAX_ENTRIES]:
            inner = _names(self.reader, self.root, f"{path}/{folder}")[0]
            yield from (f"{folder}/{name}" for name in sorted(inner)[:_MAX_ENTRIES])


def _case(files: _Files, name: str, feedback: str) -> CaseSignals:
    about = read_object(files.read(f"{name}/eval_metadata.json", _MAX_JSON))
    prompt, expected = about.get("prompt"), about.get("expected_output")
    arms = set(files.folders(name))
    baseline = next((arm for arm in _BASELINES if arm in arms), None)
    return CaseSignals(
        printable(name),
        prompt if isinstance(prompt, str) else "",
        expected if isinstance(expected, str) else "",
        feedback,
        tuple(_run(files, name, place) for place in _runs(files, f"{name}/{_WITH_SKILL}")),
        {} if baseline is None else _passed(files, _runs(files, f"{name}/{baseline}")),
    )


def _runs(files: _Files, arm: str) -> Sequence[str]:
    """Return the folders of the runs of an arm: `run-K`, or the arm itself if it has none."""
    runs = [name for name in files.folders(arm) if name.startswith("run-")]
    return [f"{arm}/{name}" for name in runs] or [arm]


def _run(files: _Files, case: str, place: str) -> RunSignals:
    outcome = read_object(files.read(f"{place}/outcome.json", _MAX_JSON))
    status, error = outcome.get("status"), outcome.get("error")
    ended = status in {None, "done"}
    return RunSignals(
        printable(place.removeprefix(f"{case}/")),
        read_grades(files.read(f"{place}/grading.json", _MAX_JSON)) if ended else (),
        tuple(map(printable, files.written(f"{place}/outputs"))),
        files.transcript(f"{place}/transcript.jsonl"),
        "" if ended else str(error or status),
    )


def _passed(files: _Files, runs: Sequence[str]) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    for place in runs:
        for grade in read_grades(files.read(f"{place}/grading.json", _MAX_JSON)):
            passed, total = counts.get(grade.text, (0, 0))
            counts[grade.text] = (passed + grade.passed, total + 1)
    return counts


def _spoken(raw: bytes) -> str:
    """Return a transcript as text: a line that holds only `text` is plain output of the agent."""
    return "\n".join(map(_plain, raw.decode("utf-8", "replace").split("\n")))


def _plain(line: str) -> str:
    if not line.startswith('{"text":'):
        return line
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return line
    text = value.get("text") if len(value) == 1 else None
    return text if isinstance(text, str) else line


def _natural(name: str) -> tuple[str, int, str]:
    """Sort `run-10` after `run-9`."""
    start, _, number = name.rpartition("-")
    digits = number.isascii() and number.isdigit() and len(number) <= 9  # noqa: PLR2004 - a number that is no name
    return (start, int(number), "") if digits else (name, 0, name)


def _names(reader: Reader, root: Path, path: str) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the files, folders and other entries in a folder; none if it cannot be listed."""
    try:
        with reader.entries(Location(root, path)) as entries:
            listing = list_folder(entries, fingerprints=False)
    except OSError:
        return [], [], []
    return [name for name, _ in listing.files], list(listing.folders), [name for name, _ in listing.refused]
