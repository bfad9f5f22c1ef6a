"""Input files of cases: where they lie in the skill, and in the workspace of a run."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from server.evals.errors import EvalError
from skills_core.disk.files import Location, read_file
from skills_core.errors import FileRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from skills_core.evals.grading.cases import EvalCase

__all__ = ["check_input_files", "input_files", "input_paths"]

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
