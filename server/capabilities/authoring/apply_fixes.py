"""Write the fixes of `validate --fix`: replace a SKILL.md completely or not at all, and keep its mode.

`skills_core.authoring.fixes` decides what to write. Nothing is written through a link, outside the given folder, or
over a file that has changed since it was read.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from skills_core.authoring.draft import Fix
from skills_core.authoring.fixes import fix_main
from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.disk.files import Fingerprint, Location, Reader
from skills_core.disk.folders import MAIN_FILE, MAIN_FILE_LOWERCASE
from skills_core.disk.sources import SkillKind
from skills_core.disk.writing import random_name, replace_within
from skills_core.errors import FileRefusedError
from skills_core.loading.loader import MAX_MAIN_SIZE

if TYPE_CHECKING:
    from skills_core.skills.skill import Skill


@dataclass(frozen=True, slots=True)
class AppliedFixes:
    """The fixes applied to one SKILL.md with the printable path `path`; `fault` says why it could not be written."""

    path: str
    fixes: tuple[Fix, ...] = ()
    fault: Diagnostic | None = None


def apply_fixes(skill: Skill) -> AppliedFixes | None:
    """Fix the SKILL.md of a skill on disk; None if nothing is to be fixed or the file was reached by a link.

    Single documents and convention files follow other rules and are not changed.
    """
    main = skill.content.main
    if main is None or main.linked is not None or skill.content.kind is not SkillKind.FOLDER:
        return None
    location = Location(skill.source.root, skill.content.folder)
    shown = printable(str(location.path / main.path))
    try:
        with Reader() as reader:
            fixes = _fix_file(reader, location, main.path, skill.source.name_of(skill.content.folder))
    except (OSError, FileRefusedError) as error:
        why = error.message if isinstance(error, FileRefusedError) else (error.strerror or str(error)).lower()
        fault = Diagnostic(Severity.ERROR, Reason.UNWRITABLE, f"cannot be fixed: {why}", shown)
        return AppliedFixes(shown, fault=fault)
    return AppliedFixes(printable(str(location.path / MAIN_FILE)), fixes) if fixes else None


def _fix_file(reader: Reader, location: Location, name: str, folder: str) -> tuple[Fix, ...]:
    relative = f"{location.relative}/{name}" if location.relative else name
    raw, fingerprint = reader.read(Location(location.root, relative), MAX_MAIN_SIZE)
    fixed = fix_main(raw, folder)
    fixes = fixed.fixes
    with reader.within(location) as (handle, prefix):
        place = _Folder(handle, prefix)
        if name != MAIN_FILE and MAIN_FILE in place.names():
            raise FileExistsError(errno.EEXIST, f"a {MAIN_FILE} has appeared meanwhile")
        if fixed.fixes:
            place.replace(name, fixed.raw, fingerprint)
        if name == MAIN_FILE_LOWERCASE:
            place.rename(name, MAIN_FILE)
            fixes = (Fix(Reason.FILE_NAME_CASE, f"renamed {name} to {MAIN_FILE}", 1), *fixes)
    return fixes


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder to write into, given by a handle, or by a path prefix where the system has no directory handles."""

    handle: int | None
    prefix: str

    def replace(self, name: str, raw: bytes, before: Fingerprint) -> None:
        """Replace the content of a file that has not changed since it was read.

        Raises:
            OSError: the file has changed or cannot be written.
        """
        status = os.stat(self.prefix + name, dir_fd=self.handle, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or Fingerprint.of(status) != before:
            raise BlockingIOError(errno.EAGAIN, "the file has just changed; try again")
        finish = partial(_copy_owner_and_mode, status)
        replace_within(self.handle, self.prefix, name, raw, beside=f".skillserve-{random_name()}", finish=finish)

    def rename(self, name: str, to: str) -> None:
        """Rename a file, also between two spellings that the disk treats as the same name.

        Raises:
            OSError: the folder cannot be written.
        """
        self._move(name, to)
        if to not in self.names():
            # On some disks that ignore case, a rename between spellings has no effect.
            temporary = f".skillserve-{random_name()}"
            self._move(name, temporary)
            self._move(temporary, to)

    def names(self) -> list[str]:
        """Return the names in the folder as spelled on disk."""
        return os.listdir(self.prefix if self.handle is None else self.handle)  # noqa: PTH208 - pathlib takes no handle

    def _move(self, name: str, to: str) -> None:
        os.replace(self.prefix + name, self.prefix + to, src_dir_fd=self.handle, dst_dir_fd=self.handle)


def _copy_owner_and_mode(status: os.stat_result, descriptor: int) -> None:
    """Give an open file the owner and mode of another, as far as the system and the permissions allow."""
    if hasattr(os, "fchown"):
        with suppress(OSError):
            os.fchown(descriptor, status.st_uid, status.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
