"""Copies of skills for agents under test: read once, with another description if need be, and written for each run.

The folder `evals` is left out: no model that performs the skill may see it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skills_core.authoring.description import with_description
from skills_core.diagnostics import printable
from skills_core.disk.folders import MAIN_FILE
from skills_core.errors import SkillsError
from skills_core.single_skill import read_skill

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["SkillCopy", "SkillCopyError", "digest_of", "find_twins", "read_copy"]

_LEFT_OUT: Final = frozenset({"evals", ".git", "__pycache__", "node_modules", ".venv"})
_MAX_FILES: Final = 5000
_MAX_SIZE: Final = 100_000_000
_MAX_SEEN: Final = 50_000


class SkillCopyError(SkillsError):
    """A skill cannot be copied; the message says why."""


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    executable: bool


@dataclass(frozen=True, slots=True)
class SkillCopy:
    """A skill's name, description and body, and its files by path."""

    name: str
    description: str
    body: str
    files: Mapping[str, _File]

    @property
    def digest(self) -> str:
        """A digest of all names and bytes."""
        whole = hashlib.sha256()
        for path in sorted(self.files):
            file = self.files[path]
            whole.update(f"{path}\0{file.executable}\0{len(file.content)}\0".encode())
            whole.update(file.content)
        return f"sha256:{whole.hexdigest()}"

    def described(self, description: str) -> SkillCopy:
        """Return the skill with another description.

        Raises:
            DescriptionError: the description cannot be replaced.
        """
        if description == self.description:
            return self
        main = self.files[MAIN_FILE]
        content = with_description(main.content, description)
        files = {**self.files, MAIN_FILE: replace(main, content=content)}
        return replace(self, description=description, files=files)

    def write(self, folder: Path) -> None:
        """Write the skill into a folder of its name below `folder`."""
        for path, file in self.files.items():
            target = folder / self.name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.content)
            if file.executable:
                target.chmod(0o755)


def read_copy(folder: Path) -> SkillCopy:
    """Read the skill in `folder`; links are left out.

    Raises:
        InvalidSkillError: there is no valid skill.
        SkillCopyError: the skill is too large to be copied for each run, or cannot be read.
    """
    instructions = read_skill(folder)
    files: dict[str, _File] = {}
    size = 0
    try:
        for path in _walk(folder):
            file = folder / path
            size += file.stat().st_size
            if len(files) >= _MAX_FILES or size > _MAX_SIZE:
                raise SkillCopyError(
                    f"{printable(str(folder))}: the skill has more than {_MAX_FILES:,} files or {_MAX_SIZE:,} bytes; "
                    "it is copied for each run, so take out what it does not need"
                )
            name = MAIN_FILE if path.lower() == MAIN_FILE.lower() else path
            files[name] = _File(file.read_bytes(), bool(file.stat().st_mode & stat.S_IXUSR))
    except OSError as error:
        raise SkillCopyError(f"{printable(str(folder))}: cannot be copied: {error.strerror or error}") from error
    return SkillCopy(instructions.name, instructions.description, instructions.body, files)


def _walk(folder: Path) -> Iterator[str]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        here = Path(root)
        for name in sorted(names):
            if not (here / name).is_symlink() and (here / name).is_file():
                yield (here / name).relative_to(folder).as_posix()


def find_twins(name: str, roots: Iterable[Path], folders: Iterable[str]) -> list[Path]:
    """Return the skills and commands of this name that an agent would find below `roots`, in its `folders`."""
    bases = [root / folder for root in roots for folder in folders]
    return [found for base in dict.fromkeys(bases) if base.is_dir() for found in _twins_below(name, base)]


def _twins_below(name: str, base: Path) -> Iterator[Path]:
    seen = 0
    for root, _, names in os.walk(base, followlinks=True):
        seen += len(names) + 1
        if seen > _MAX_SEEN:
            return
        here = Path(root)
        if f"{name}.md" in names:
            yield here / f"{name}.md"
        if MAIN_FILE in names and (here.name == name or _name_in(here) == name):
            yield here / MAIN_FILE


def _name_in(folder: Path) -> str:
    try:
        return read_skill(folder).name
    except SkillsError:
        return ""


def digest_of(*values: object) -> str:
    """Return a digest of values that have one text each."""
    return hashlib.sha256("\0".join(map(str, values)).encode()).hexdigest()
