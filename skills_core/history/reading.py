"""Read the state of a source from disk: every file with its bytes' git object, links as links, nothing outside."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import printable
from skills_core.disk.files import MAX_FILE_SIZE, Location, Reader
from skills_core.errors import FileRefusedError, HistoryError
from skills_core.history.entries import Entry, Kind, disk_mode, is_left_out
from skills_core.system_faults import is_absence, system_message

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Keep = Callable[[bytes], str]

__all__ = ["DiskState", "entry_at", "id_of", "read_state"]

_MAX_ENTRIES: Final = 50_000
_MAX_DEPTH: Final = 64


@dataclass(frozen=True, slots=True)
class DiskState:
    """What lies on disk: the entries, and the paths of everything that is not recorded.

    `unreadable` says why for those that would be recorded if they could be.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    unreadable: dict[str, str] = field(default_factory=dict)


def id_of(content: bytes) -> str:
    """Return the name that git gives to these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def read_state(
    root: Path, unit: str, keep: Keep = id_of, *, work_trees: bool = False, left_out: frozenset[str] = frozenset()
) -> DiskState:
    """Return the state of a unit: a folder, a file, or with `""` the whole source.

    `keep` stores bytes and returns their git object. A folder in which the user has a git repository is left out unless
    `work_trees` is set; its `.git` always is. So are files and folders with one of the names `left_out`.

    Raises:
        HistoryError: the source has too many files, or cannot be read.
    """
    found = DiskState()
    with Reader() as reader:
        walk = _Walk(reader, root, keep, found, work_trees, left_out)
        try:
            if unit:
                walk.enter(unit)
            else:
                walk.enter_content("")
        except OSError as error:
            if not is_absence(error):
                raise HistoryError(f"{printable(str(root / unit))}: {system_message(error)}") from None
    return found


def entry_at(root: Path, path: str) -> Entry | None:
    """Return what is at a path now, without what a folder holds; None if nothing is there, or nothing recordable.

    Raises:
        OSError: the system cannot read it.
    """
    with Reader() as reader:
        try:
            return _entry(reader, root, path, id_of)
        except (FileRefusedError, OSError) as error:
            if isinstance(error, OSError) and not is_absence(error):
                raise
            return None


@dataclass(frozen=True, slots=True)
class _Walk:
    reader: Reader
    root: Path
    keep: Keep
    found: DiskState
    work_trees: bool
    left_out: frozenset[str]

    def enter(self, path: str) -> None:
        """Enter what is at a path, with its content.

        Raises:
            OSError: it cannot be read; absence included.
        """
        try:
            entry = _entry(self.reader, self.root, path, self.keep)
        except FileRefusedError as error:
            self.leave_out(path, error.message)
            return
        if entry is None:
            self.found.others.add(path)
        elif entry.kind is not Kind.FOLDER:
            self.found.entries[path] = entry
        elif path.count("/") >= _MAX_DEPTH:
            self.leave_out(path, "lies too deep")
        else:
            self.found.entries[path] = entry
            self.enter_content(path)
        if len(self.found.entries) > _MAX_ENTRIES:
            where = printable(str(self.root))
            raise HistoryError(f"{where}: a history has room for {_MAX_ENTRIES} files; keep it for a smaller folder")

    def enter_content(self, folder: str) -> None:
        """Enter what a folder holds."""
        try:
            with self.reader.entries(Location(self.root, folder)) as listed:
                names = sorted(entry.name for entry in listed)
        except PermissionError as error:
            self.leave_out(folder, system_message(error))
            return
        if folder and not self.work_trees and any(name.lower() == ".git" for name in names):
            self.leave_out(folder, "is a git work tree of yours; see history.work_trees")
            return
        for name in names:
            path = f"{folder}/{name}" if folder else name
            if name in self.left_out or is_left_out(name):
                self.found.others.add(path)
                continue
            try:
                self.enter(path)
            except OSError as error:
                if not is_absence(error):
                    self.leave_out(path, system_message(error))

    def leave_out(self, path: str, why: str) -> None:
        self.found.entries.pop(path, None)
        self.found.others.add(path)
        self.found.unreadable[path] = why


def _entry(reader: Reader, root: Path, path: str, keep: Keep) -> Entry | None:
    """Return the entry at a path; None for special files.

    Raises:
        FileRefusedError: the file is too large or may not be read.
        OSError: nothing is there, or it cannot be read.
    """
    folder, _, name = path.rpartition("/")
    with reader.within(Location(root, folder)) as (handle, prefix):
        status = os.stat(prefix + name, dir_fd=handle, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return Entry(Kind.LINK, 0, keep(os.fsencode(os.readlink(prefix + name, dir_fd=handle))))
    if stat.S_ISDIR(status.st_mode):
        junction = getattr(status, "st_file_attributes", 0) & getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0)
        return None if junction else Entry(Kind.FOLDER, disk_mode(status.st_mode, Kind.FOLDER))
    if not stat.S_ISREG(status.st_mode):
        return None
    raw, _ = reader.read(Location(root, path), MAX_FILE_SIZE)
    return Entry(Kind.FILE, disk_mode(status.st_mode, Kind.FILE), keep(raw))
