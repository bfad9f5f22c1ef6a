"""The folder of results beside a skill: its marker, and the iterations of evals in it.

Each file is written atomically, and read as if it might be damaged. An iteration belongs to the identity in its
`config.json`, which is what the agents saw: skill and baseline, prompts and input files, the agent and the number of
runs. A second call with the same identity continues it. Assertions are not part of it: they can be changed and added
later, and the outputs are graded again.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skills_core.disk.files import Location, read_bounded
from skills_core.disk.folders import NOT_A_SOURCE
from skills_core.disk.writing import InvalidJsonError, json_bytes, parse_json, try_lock, write_file
from skills_core.errors import FileRefusedError, SkillsError
from skills_core.evals.grading.results import (
    EvalRun,
    EvalStatus,
    grading_from_json,
    is_grading_of,
    outcome_from_json,
)

if TYPE_CHECKING:
    from skills_core.evals.grading.cases import EvalCase
    from skills_core.evals.grading.results import RunKey


class EvalError(SkillsError):
    """An eval or a trigger test cannot begin or continue; the message says what to do."""


_CONTENT: Final = b'{"about": "Results of skillserve; folders with this file are not searched for skills"}\n'


def open_workspace(workspace: Path) -> None:
    """Make the folder of a workspace, and mark it before a copy of a skill comes into it.

    Raises:
        OSError: the folder cannot be made.
        FileRefusedError: the marker cannot be written.
    """
    workspace.mkdir(parents=True, exist_ok=True)
    if not (workspace / NOT_A_SOURCE).exists():
        write_file(Location(workspace, NOT_A_SOURCE), _CONTENT)


CONFIG: Final = "config.json"
GRADING: Final = "grading.json"
_OUTCOME: Final = "outcome.json"
_WITH_CANARY: Final = frozenset({"benchmark.json", "eval_metadata.json", GRADING, _OUTCOME})
_NUMBERED: Final = re.compile(r"iteration-([1-9]\d{0,8})")
_MAX_FILE: Final = 64 * 1024 * 1024


class IterationFolder:
    """One iteration of a workspace; nothing is created before the first write."""

    def __init__(self, workspace: Path, number: int, runs: int) -> None:
        """Use the folder with this number; each case has `runs` runs in each arm."""
        self.workspace = workspace
        self.number = number
        self.runs = runs
        self.path = workspace / f"iteration-{number}"
        self.canary = ""

    def folder(self, key: RunKey) -> Path:
        """Return the folder of a run."""
        return self.path / self.place(key)

    def place(self, key: RunKey) -> str:
        """Return the folder of a run, relative to the iteration: `EVAL/ARM/run-K`.

        The only run of an arm stays in `EVAL/ARM` if an earlier version has begun it there.
        """
        usual, flat = str(key), self.path / key.flat
        if self.runs > 1 or (self.path / usual).is_dir():
            return usual
        return key.flat if (flat / _OUTCOME).is_file() or (flat / "outputs").is_dir() else usual

    def write(self, relative: str, value: object) -> None:
        """Write a JSON file; those that would tell a run the answers have the canary of the iteration, if it has one.

        Raises:
            FileRefusedError: the path contains a link, or cannot be written.
        """
        if self.canary and isinstance(value, dict) and relative.rpartition("/")[2] in _WITH_CANARY:
            value = {**value, "canary": self.canary}
        self._write(relative, json_bytes(value))

    def write_or_remove(self, relative: str, value: object | None) -> None:
        """Write a JSON file; without a value, remove it.

        Raises:
            FileRefusedError: the path contains a link, or cannot be written.
            EvalError: the file cannot be removed.
        """
        if value is not None:
            self.write(relative, value)
            return
        place = self.path / relative
        try:
            place.unlink(missing_ok=True)
        except OSError as error:
            raise EvalError(f"{place}: cannot be removed: {error.strerror}") from None

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
        Those of a case without assertions are none, and no file has them.
        """
        place = self.place(key)
        outcome = outcome_from_json(self.read(f"{place}/{_OUTCOME}"), self.read(f"{place}/timing.json"))
        if outcome is None:
            return None
        is_done = outcome.status is EvalStatus.DONE
        grading = self.read(f"{place}/{GRADING}") if is_done else None
        results = () if is_done and grading is None and not case.assertions else grading_from_json(grading)
        if results is not None and not is_grading_of(grading, results, case, judge):
            results = None
        return EvalRun(key, case, outcome, results, "" if place == str(key) else place)

    @property
    def config(self) -> Mapping[str, Any]:
        """What the iteration was started with; empty if that cannot be read."""
        config = self.read(CONFIG)
        return config if isinstance(config, dict) else {}

    def is_of(self, identity: Mapping[str, object]) -> bool:
        """Tell whether the iteration was started with this identity."""
        return self.config.get("identity") == identity


def iterations_of(workspace: Path, runs: int) -> Sequence[IterationFolder]:
    """Return the iterations of a workspace, latest first; a link to a folder is none."""
    numbers = [number for number, is_folder in _numbered(workspace) if is_folder]
    return [IterationFolder(workspace, number, runs) for number in sorted(numbers, reverse=True)]


def new_iteration(workspace: Path, runs: int) -> IterationFolder:
    """Return the iteration after all others. The number of a link is taken too: writing must not follow it."""
    return IterationFolder(workspace, max((number for number, _ in _numbered(workspace)), default=0) + 1, runs)


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


RENEWED_SECONDS: Final = 20.0
"""How often running work renews its sign, at least."""


STALE_SECONDS: Final = 90.0
"""Age from which a sign counts as that of a killed process."""


_SIGN: Final = ".running"


def renew_sign(workspace: Path) -> None:
    """Say that work runs in a workspace; on a disk that refuses it, readers take the work as interrupted."""
    with suppress(OSError):
        (workspace / _SIGN).touch()


def remove_sign(workspace: Path) -> None:
    """Say that no work runs in a workspace."""
    with suppress(OSError):
        (workspace / _SIGN).unlink(missing_ok=True)


def work_runs(root: Path) -> bool:
    """Tell whether work runs in a workspace, or in that of an iteration `root`."""
    for folder in (root, root.resolve().parent):
        with suppress(OSError):
            return abs(time.time() - (folder / _SIGN).lstat().st_mtime) < STALE_SECONDS
    return False
