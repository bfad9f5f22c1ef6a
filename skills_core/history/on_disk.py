"""Read the state of a source from disk, and write one: replace what differs, entry by entry, and nothing else.

Every file is read with the git object of its bytes, and links as links. Every step names an entry of a folder that was
opened without following links, so that no link leads out of the source. A file is written beside its place and renamed,
so that its bytes and its mode change in one step.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import printable
from skills_core.disk.files import MAX_FILE_SIZE, Location, Reader
from skills_core.disk.writing import random_name, rename_within, replace_within
from skills_core.errors import FileRefusedError, HistoryError, is_absence, system_message
from skills_core.history.states import TEMPORARY, Kind, TreeEntry, disk_mode, id_of, is_left_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from skills_core.history.states import State

    Keep = Callable[[bytes], str]


_MAX_ENTRIES: Final = 50_000
_MAX_DEPTH: Final = 64


@dataclass(frozen=True, slots=True)
class DiskState:
    """What lies on disk: the entries, and the paths of everything that is not recorded.

    `unreadable` says why for those that would be recorded if they could be.
    """

    entries: dict[str, TreeEntry] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    unreadable: dict[str, str] = field(default_factory=dict)


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


def entry_at(root: Path, path: str) -> TreeEntry | None:
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


def _entry(reader: Reader, root: Path, path: str, keep: Keep) -> TreeEntry | None:
    """Return the entry at a path; None for special files.

    Raises:
        FileRefusedError: the file is too large or may not be read.
        OSError: nothing is there, or it cannot be read.
    """
    folder, _, name = path.rpartition("/")
    with reader.within(Location(root, folder)) as (handle, prefix):
        status = os.stat(prefix + name, dir_fd=handle, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return TreeEntry(Kind.LINK, 0, keep(os.fsencode(os.readlink(prefix + name, dir_fd=handle))))
    if stat.S_ISDIR(status.st_mode):
        junction = getattr(status, "st_file_attributes", 0) & getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0)
        return None if junction else TreeEntry(Kind.FOLDER, disk_mode(status.st_mode, Kind.FOLDER))
    if not stat.S_ISREG(status.st_mode):
        return None
    raw, _ = reader.read(Location(root, path), MAX_FILE_SIZE)
    return TreeEntry(Kind.FILE, disk_mode(status.st_mode, Kind.FILE), keep(raw))


_OWNER = 0o700
_HAS_MODES = hasattr(os, "fchmod") and os.chmod in os.supports_dir_fd


def write_state(root: Path, before: State, after: State, read: Callable[[str], bytes]) -> None:
    """Change the entries on disk that `before` and `after` have from one to the other.

    An entry that is neither as before nor as after was changed by another program, and stays as it is.

    Raises:
        OSError: an entry cannot be written. Those written so far stay.
    """
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    _open_folders(root, before, changed)
    for path in _deepest_first(changed):
        now = entry_at(root, path)
        wanted = after.get(path)
        is_folder = now is not None and now.kind is Kind.FOLDER
        if now is None or not is_same(now, before.get(path)):
            continue
        if wanted is not None and (wanted.kind is Kind.FOLDER) == is_folder:
            continue
        with suppress(FileNotFoundError):
            remove_entry(root, path, is_folder=is_folder)
    for path in sorted(changed & after.keys(), key=lambda each: each.count("/")):
        now, wanted = entry_at(root, path), after[path]
        if now == wanted or (now is not None and not is_same(now, before.get(path))):
            continue
        if wanted.kind is Kind.FOLDER:
            make_folder(root, path)
        else:
            _put(root, path, wanted, read(wanted.blob))
    for path in _deepest_first(path for path, entry in after.items() if entry.kind is Kind.FOLDER):
        _set_mode(root, path, after[path].mode)


def is_same(one: TreeEntry | None, other: TreeEntry | None) -> bool:
    """Tell whether two entries have the same content; the modes of folders do not count."""
    if one is None or other is None:
        return one is other
    return one == other or one.kind is other.kind is Kind.FOLDER


def remove_entry(root: Path, path: str, *, is_folder: bool) -> None:
    """Remove a file, a link or an empty folder; a folder with content stays.

    Raises:
        OSError: it cannot be removed.
    """
    folder, _, name = path.rpartition("/")
    with Reader() as reader, reader.within(Location(root, folder)) as (handle, prefix):
        if not is_folder:
            os.unlink(prefix + name, dir_fd=handle)
            return
        try:
            os.rmdir(prefix + name, dir_fd=handle)
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise


def _deepest_first(paths: Iterable[str]) -> list[str]:
    return sorted(paths, key=lambda path: (path.count("/"), path), reverse=True)


def _open_folders(root: Path, before: State, changed: set[str]) -> None:
    """Let this user write in folders that are to change, whatever their modes were."""
    for path in sorted({path.rpartition("/")[0] for path in changed} & before.keys()):
        entry = before[path]
        if entry.kind is Kind.FOLDER and entry.mode & _OWNER != _OWNER and entry_at(root, path) == entry:
            _set_mode(root, path, entry.mode | _OWNER)


def make_folder(root: Path, path: str, mode: int = 0o700) -> None:
    """Create a folder unless it exists; the folder above it does.

    Raises:
        OSError: it cannot be created, or the path contains a link.
    """
    folder, _, name = path.rpartition("/")
    with Reader() as reader, reader.within(Location(root, folder)) as (handle, prefix), suppress(FileExistsError):
        os.mkdir(prefix + name, mode, dir_fd=handle)


def _set_mode(root: Path, path: str, mode: int) -> None:
    if not _HAS_MODES:
        return
    with suppress(FileNotFoundError), Reader() as reader, reader.within(Location(root, path)) as (handle, _):
        if handle is not None and os.fstat(handle).st_mode & 0o777 != mode:
            os.fchmod(handle, mode)


def _put(root: Path, path: str, entry: TreeEntry, content: bytes) -> None:
    folder, _, name = path.rpartition("/")
    beside = f"{TEMPORARY}{random_name()}"
    with Reader() as reader, reader.within(Location(root, folder)) as (handle, prefix):
        if entry.kind is Kind.LINK:
            os.symlink(os.fsdecode(content), prefix + beside, dir_fd=handle)
            rename_within(handle, prefix, beside, name)
            return

        def finish(descriptor: int) -> None:
            if _HAS_MODES:
                os.fchmod(descriptor, entry.mode)

        replace_within(handle, prefix, name, content, beside=beside, finish=finish)
