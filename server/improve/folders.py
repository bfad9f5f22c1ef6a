"""Copies of a skill for an improvement: one that the model changes, and the two versions that are measured."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.disk.files import Location
from skills_core.disk.removal import remove_tree
from skills_core.disk.writing import write_file
from skills_core.run.scripts.private_copy import copy_skill

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skills_core.skill import Skill

__all__ = ["ImprovementFolders", "files_below", "opened_folders"]

_MAX_FILE = 4 * 1024 * 1024
_MAX_FILES = 10_000


@dataclass(frozen=True, slots=True)
class ImprovementFolders:
    """A folder for one improvement that only this user can enter."""

    root: Path
    name: str

    @property
    def workspace(self) -> Path:
        """The copy that the model changes; it has no eval files."""
        return self.root / "workspace" / self.name

    @property
    def before(self) -> Path:
        """The skill as it is, with its eval files."""
        return self.root / "before" / self.name

    @property
    def after(self) -> Path:
        """The skill with the change, with its eval files."""
        return self.root / "after" / self.name

    @property
    def evals(self) -> Path:
        """Where results of evals go."""
        return self.root / "evals"

    def write_change(self, skill: Skill, change: Mapping[str, bytes]) -> None:
        """Write the versions to measure: the skill as it was loaded, and the same with the changed files.

        Raises:
            SkillChangedError: the skill was edited meanwhile.
            OSError: a file cannot be written.
        """
        for folder in (self.before, self.after):
            folder.parent.mkdir()
            copy_skill(skill, folder, with_evals=True, read_only=False)
        for path, content in change.items():
            write_file(Location(self.after, path), content)


@contextmanager
def opened_folders(skill: Skill, root: Path) -> Iterator[ImprovementFolders]:
    """Create `root` with the copy for the model, yield the folders in it, and remove them in the end.

    Raises:
        SkillChangedError: the skill was edited since it was loaded.
        OSError: it cannot be copied.
    """
    root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    root.mkdir(mode=0o700)
    root = root.resolve()
    folders = ImprovementFolders(root, Path(skill.content.folder or skill.source.root).name)
    try:
        folders.workspace.parent.mkdir()
        copy_skill(skill, folders.workspace, read_only=False)
        yield folders
    finally:
        remove_tree(root)


def files_below(root: Path) -> tuple[dict[str, bytes], frozenset[str]]:
    """Return the regular files below a folder with their bytes, and the paths of everything else but folders.

    A file that cannot be read whole counts as something else.
    """
    files: dict[str, bytes] = {}
    others: set[str] = set()
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(root / folder) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    waiting.append(path)
                elif not stat.S_ISREG(mode) or len(files) >= _MAX_FILES:
                    others.add(path)
                else:
                    _read_into(files, others, root, path)
    return files, frozenset(others)


def _read_into(files: dict[str, bytes], others: set[str], root: Path, path: str) -> None:
    try:
        descriptor = os.open(root / path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    except OSError:
        others.add(path)
        return
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(_MAX_FILE + 1)
    if len(content) > _MAX_FILE:
        others.add(path)
    else:
        files[path] = content
