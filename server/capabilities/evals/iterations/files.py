"""The files of an eval: `<workspace>/iteration-N/`, and the input files of the cases.

Each file is written atomically, and read as if it might be damaged. An iteration belongs to the identity in its
`config.json`, which is what the agents saw: skill and baseline, prompts and input files, the agent and the number of
runs. A second call with the same identity continues it. Assertions are not part of it: they can be changed and added
later, and the outputs are graded again.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.evals.errors import EvalError
from server.capabilities.evals.workspace_marker import open_workspace
from skills_core.disk.files import Location, read_bounded, read_file
from skills_core.disk.writing import InvalidJsonError, json_bytes, parse_json, try_lock, write_file
from skills_core.errors import FileRefusedError
from skills_core.evals.grading.results import (
    EvalRun,
    EvalStatus,
    grading_from_json,
    is_grading_of,
    outcome_from_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from skills_core.evals.grading.cases import EvalCase
    from skills_core.evals.grading.results import RunKey


CONFIG: Final = "config.json"
_NUMBERED: Final = re.compile(r"iteration-([1-9]\d{0,8})")
_MAX_FILE: Final = 64 * 1024 * 1024


class Iteration:
    """One iteration of a workspace; nothing is created before the first write."""

    def __init__(self, workspace: Path, number: int, runs: int) -> None:
        """Use the folder with this number; each case has `runs` runs in each arm."""
        self.workspace = workspace
        self.number = number
        self.runs = runs
        self.path = workspace / f"iteration-{number}"

    def folder(self, key: RunKey) -> Path:
        """Return the folder of a run."""
        return self.path / key.path(self.runs)

    def write(self, relative: str, value: object) -> None:
        """Write a JSON file.

        Raises:
            FileRefusedError: the path contains a link, or cannot be written.
        """
        self._write(relative, json_bytes(value))

    def write_text(self, relative: str, text: str) -> None:
        """Write a text file; see `write`."""
        self._write(relative, text.encode("utf-8", "backslashreplace"))

    def _write(self, relative: str, content: bytes) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_file(Location(self.path, relative), content)

    def read(self, relative: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value of a JSON file; None if it is missing or damaged."""
        raw = self.read_bytes(relative)
        with suppress(InvalidJsonError):
            return None if raw is None else parse_json(raw, relative)
        return None

    def read_bytes(self, relative: str) -> bytes | None:
        """Return the content of a file; None if it cannot be read."""
        with suppress(FileRefusedError):
            return read_bounded(self.path / relative, _MAX_FILE)
        return None

    def run(self, key: RunKey, case: EvalCase, judge: str | None = None) -> EvalRun | None:
        """Return a run from its files; None if it has not ended.

        It has results if it was graded by the assertions of `case`, and by `judge`, or by any one if that is None.
        """
        place = key.path(self.runs)
        outcome = outcome_from_json(self.read(f"{place}/outcome.json"), self.read(f"{place}/timing.json"))
        if outcome is None:
            return None
        grading = self.read(f"{place}/grading.json") if outcome.status is EvalStatus.DONE else None
        results = grading_from_json(grading)
        if results is not None and not is_grading_of(grading, results, case, judge):
            results = None
        return EvalRun(key, case, outcome, results)

    @property
    def config(self) -> Mapping[str, Any]:
        """What the iteration was started with; empty if that cannot be read."""
        config = self.read(CONFIG)
        return config if isinstance(config, dict) else {}

    def is_of(self, identity: Mapping[str, object]) -> bool:
        """Tell whether the iteration was started with this identity."""
        return self.config.get("identity") == identity


def iterations_of(workspace: Path, runs: int) -> Sequence[Iteration]:
    """Return the iterations of a workspace, latest first; a link to a folder is none."""
    numbers = [number for number, is_folder in _numbered(workspace) if is_folder]
    return [Iteration(workspace, number, runs) for number in sorted(numbers, reverse=True)]


def new_iteration(workspace: Path, runs: int) -> Iteration:
    """Return the iteration after all others. The number of a link is taken too: writing must not follow it."""
    return Iteration(workspace, max((number for number, _ in _numbered(workspace)), default=0) + 1, runs)


def _numbered(workspace: Path) -> Iterator[tuple[int, bool]]:
    """Yield the numbers of the entries with the name of an iteration, and whether they are folders."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(workspace) as entries:
        for entry in entries:
            if found := _NUMBERED.fullmatch(entry.name):
                yield int(found[1]), entry.is_dir(follow_symlinks=False)


@contextmanager
def locked(workspace: Path) -> Iterator[None]:
    """Hold the lock of a workspace; a killed process loses it.

    Raises:
        EvalError: another process evaluates there, or the folder cannot be written.
    """
    try:
        open_workspace(workspace)
        file = (workspace / ".lock").open("a+b")
    except (OSError, FileRefusedError) as error:
        why = error.message if isinstance(error, FileRefusedError) else error.strerror
        raise EvalError(f"{workspace}: cannot be written: {why}; name another --workspace") from None
    with file:
        try:
            try_lock(file.fileno())
        except OSError:
            raise EvalError(f"{workspace}: another eval works here; wait for it, or name another --workspace") from None
        yield


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
