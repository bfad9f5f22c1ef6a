"""Copies of a skill for an improvement: one that the model changes, and the two versions that are measured."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from skills_core.disk.files import Location, open_to_read
from skills_core.disk.replacement import remove_tree
from skills_core.disk.writing import write_file
from skills_core.scripts.private_copy import copy_skill

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skills_core.skills.skill import Skill


_MAX_ENTRIES = 10_000
_MAX_KEPT = 1024 * 1024
_MAX_KEPT_TOGETHER = 32 * 1024 * 1024
_BLOCK = 1024 * 1024


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

    A file that is too large for a text has a zero byte and its digest in place of its bytes. What exceeds the number of
    entries, or cannot be read, counts as something else.
    """
    found = _Found(root)
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(root / folder) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                found.entries += 1
                if found.entries > _MAX_ENTRIES:
                    found.others.add(path)
                    return found.files, frozenset(found.others)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                else:
                    found.add(path)
    return found.files, frozenset(found.others)


@dataclass(slots=True)
class _Found:
    """What lies below `root`: files with their bytes, the paths of other things, and how much of each."""

    root: Path
    files: dict[str, bytes] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    entries: int = 0
    kept: int = 0

    def add(self, path: str) -> None:
        """Read a file, or note that it is not a regular file."""
        try:
            with open(open_to_read(self.root / path), "rb") as file:  # noqa: PTH123 - it is a descriptor
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    self.others.add(path)
                    return
                self.files[path] = content = self._content(file)
        except OSError:
            self.others.add(path)
        else:
            self.kept += len(content)

    def _content(self, file: BinaryIO) -> bytes:
        content = file.read(_MAX_KEPT + 1)
        if len(content) <= _MAX_KEPT and self.kept + len(content) <= _MAX_KEPT_TOGETHER:
            return content
        digest = hashlib.sha256(content)
        while block := file.read(_BLOCK):
            digest.update(block)
        return b"\0" + digest.digest()
