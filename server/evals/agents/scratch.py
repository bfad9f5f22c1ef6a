"""A fresh folder for each run: its workspace with the input files, a home of its own, and a copy of the skill.

The folders lie in the system's temporary folder, away from the skill, its evals and other runs: agents look for
instructions in the folders above theirs, and no path tells an agent which arm it is in.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.evals.errors import EvalError
from skills_core.disk.files import Location, read_file
from skills_core.disk.removal import remove_tree
from skills_core.disk.writing import write_file
from skills_core.errors import FileRefusedError
from skills_core.evals.agents.all_agents import ANY_AGENT
from skills_core.run.scripts.private_copy import copy_skill

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from server.evals.skills.skill_versions import SkillVersion
    from skills_core.evals.grading.cases import EvalCase
    from skills_core.evals.grading.results import RunKey

__all__ = ["SCRATCH_PREFIX", "RunScratch", "ScratchFolder", "agent_environment", "check_input_files", "input_paths"]

SCRATCH_PREFIX: Final = "skillserve-eval-"
"""How the name of a scratch folder begins."""

_EVAL_FILES: Final = ("evals/files/", "evals/")
_HOME_FOLDERS: Final = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
    "XDG_CACHE_HOME": ".cache",
}
_NOT_PASSED: Final = ("SKILLSERVE_", "XDG_RUNTIME_DIR", *ANY_AGENT.variables)
# Beginnings of variables that lead an agent to settings and skills outside of its own home.


@dataclass(frozen=True, slots=True)
class RunScratch:
    """The folders of one run; `skill` is None in the arm without a skill. `files` are the input files."""

    root: Path
    files: tuple[Path, ...]
    skill: Path | None

    @property
    def workspace(self) -> Path:
        """The working directory of the agent."""
        return self.root / "workspace"

    @property
    def outputs(self) -> Path:
        """Where the agent puts its files."""
        return self.workspace / "outputs"

    @property
    def home(self) -> Path:
        """The agent's home."""
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        """The agent's folder for temporary files."""
        return self.root / "tmp"


class ScratchFolder:
    """The folder of an iteration's runs in the system's temporary folder, which only this user can enter."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def open(cls, known: object) -> ScratchFolder:
        """Return the folder that an earlier call has recorded if it is still ours, else a new one."""
        if isinstance(known, str) and _is_ours(Path(known)):
            return cls(Path(known))
        return cls(Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX)).resolve())

    def of(self, key: RunKey, attempt: int) -> Path:
        """Return the folder of one attempt at a run; its name does not tell case and arm."""
        name = hashlib.sha256(f"{self.root.name}/{key}/{attempt}".encode()).hexdigest()[:12]
        return self.root / name

    def prepare(
        self, key: RunKey, attempt: int, source: Path, case: EvalCase, version: SkillVersion | None
    ) -> RunScratch:
        """Return the fresh folders of a run; what an interrupted attempt has left is removed.

        Raises:
            EvalError: an input file cannot be read.
            SkillChangedError: the skill has changed.
        """
        root = self.of(key, attempt)
        remove_tree(root)
        scratch = self.existing(key, attempt, case, version)
        for folder in (scratch.outputs, scratch.home, scratch.temporary):
            folder.mkdir(parents=True)
        for path, target in zip(case.files, scratch.files, strict=True):
            write_file(
                Location(scratch.workspace, target.relative_to(scratch.workspace).as_posix()), _read(source, path)
            )
        if version is not None and scratch.skill is not None:
            scratch.skill.parent.mkdir()
            copy_skill(version.skill, scratch.skill, read_only=False)
        return scratch

    def existing(self, key: RunKey, attempt: int, case: EvalCase, version: SkillVersion | None) -> RunScratch:
        """Return the folders of a run without creating them."""
        root = self.of(key, attempt)
        placed = input_paths(case)
        files = tuple(root / "workspace" / path for path in placed)
        return RunScratch(root, files, None if version is None else root / "skill" / version.folder.name)

    def remove(self, path: Path | None = None) -> None:
        """Remove the folder of a run, or all of it; what cannot be removed stays for the system."""
        remove_tree(path or self.root)


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


def agent_environment(scratch: RunScratch, host: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an agent: that of this process, with a home and temporary folder of the run's own."""
    passed = {name: value for name, value in host.items() if not name.startswith(_NOT_PASSED)}
    home = {"HOME": str(scratch.home), "USERPROFILE": str(scratch.home)}
    home |= {name: str(scratch.home / folder) for name, folder in _HOME_FOLDERS.items()}
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch.temporary))
    return {**passed, **home, **temporary, "PWD": str(scratch.workspace), "NO_COLOR": "1"}


def _is_ours(path: Path) -> bool:
    try:
        status = path.lstat()
    except (OSError, ValueError):
        return False
    owned = not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077)
    return stat.S_ISDIR(status.st_mode) and owned and path.name.startswith(SCRATCH_PREFIX)
