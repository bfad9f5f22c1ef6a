"""The folder of one run of an agent: a project, a home and a folder for temporary files of its own.

It lies among the system's temporary files and not beside the skill, where an agent would find the skills of the
project above it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from server.evals.skills.skill_copies import SkillCopy
    from skills_core.evals.agents.kind import AgentKind

__all__ = [
    "RunFolder",
    "agent_environment",
    "fill_folder",
    "install",
    "open_run_folder",
    "temporary_root",
    "write_files",
]

_HOME_VARIABLES: Final = ("HOME", "USERPROFILE")
_OWN_PREFIXES: Final = ("SKILLSERVE_", "XDG_")
_FOREIGN: Final = ("PWD", "OLDPWD", "TMPDIR", "TMP", "TEMP")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folders of a run below `root`."""

    root: Path

    @property
    def work(self) -> Path:
        """The project in which the agent works."""
        return self.root / "work"

    @property
    def home(self) -> Path:
        """The home of the agent."""
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        """The folder for temporary files."""
        return self.root / "tmp"

    @property
    def skills(self) -> Path:
        """The skills that a server serves to the agent."""
        return self.root / "skills"


def temporary_root() -> Path:
    """Return the folder in which folders of runs are made."""
    return Path(tempfile.gettempdir()).resolve()


@contextmanager
def open_run_folder() -> Iterator[RunFolder]:
    """Make the folder of a run, and remove it at the end."""
    root = Path(tempfile.mkdtemp(prefix="skillserve-run-", dir=temporary_root()))
    folder = RunFolder(root)
    try:
        yield folder
    finally:
        shutil.rmtree(root, ignore_errors=True)


def fill_folder(folder: RunFolder, home: Path | None) -> None:
    """Make the folders of a run, with a copy of `home` as its home."""
    if home is not None:
        shutil.copytree(home, folder.home, symlinks=True)
    for each in (folder.work, folder.home, folder.temporary):
        each.mkdir(exist_ok=True)


def install(skills: Sequence[SkillCopy], places: Sequence[Path]) -> None:
    """Write the skills into each of the places."""
    for place in places:
        for skill in skills:
            skill.write(place)


def write_files(folder: RunFolder, files: Mapping[str, str]) -> None:
    """Write files by their paths below the folder of the run."""
    for path, text in files.items():
        target = folder.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def agent_environment(environment: Mapping[str, str], kind: AgentKind, folder: RunFolder) -> dict[str, str]:
    """Return the environment of an agent: that of this process, with the run's folders as home and temporary folder.

    Variables that lead to settings elsewhere are left out; keys of providers are kept.
    """
    dropped = {*kind.variables, *_FOREIGN, *_HOME_VARIABLES}
    kept = {name: value for name, value in environment.items() if name not in dropped and _is_foreign(name)}
    home, temporary = str(folder.home), str(folder.temporary)
    kept |= dict.fromkeys(_HOME_VARIABLES if os.name == "nt" else _HOME_VARIABLES[:1], home)
    kept |= dict.fromkeys(("TMPDIR", "TMP", "TEMP") if os.name == "nt" else ("TMPDIR",), temporary)
    return kept


def _is_foreign(name: str) -> bool:
    return not name.startswith(_OWN_PREFIXES)
