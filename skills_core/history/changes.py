"""Read the state of a source from disk, and change a skill there completely or not at all, whatever ends the process.

Every file is read with the git object of its bytes, and links as links. Every step names an entry of a folder that was
opened without following links, so that no link leads out of the source. A file is written beside its place and renamed,
so that its bytes and its mode change in one step.

A folder is written anew beside the old one, and the two are exchanged in one step. Where that is impossible (another
system, a file that is not a folder, the whole source, files that are not recorded), the entries are replaced one by
one. The change that is being made is in a file: after a crash, the next process that opens the history completes it.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import printable
from skills_core.disk.files import MAX_FILE_SIZE, Location, Reader
from skills_core.disk.replacement import exchange_within, remove_tree
from skills_core.disk.writing import InvalidJsonError, JsonFile, random_name, rename_within, replace_within
from skills_core.errors import FileRefusedError, HistoryError, is_absence, system_message
from skills_core.history.versions import (
    TEMPORARY,
    Cause,
    EntryKind,
    TreeEntry,
    changed_units,
    disk_mode,
    id_of,
    is_left_out,
    is_within,
    message_with_trailers,
    parents_of,
    part_of,
)

if TYPE_CHECKING:
    from skills_core.history.repository import Repository
    from skills_core.history.versions import SourceState

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
        walk = _SourceReader(reader, root, keep, found, work_trees, left_out)
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
class _SourceReader:
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
        elif entry.kind is not EntryKind.FOLDER:
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
            return TreeEntry(EntryKind.LINK, 0, keep(os.fsencode(os.readlink(prefix + name, dir_fd=handle))))
    if stat.S_ISDIR(status.st_mode):
        junction = getattr(status, "st_file_attributes", 0) & getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0)
        return None if junction else TreeEntry(EntryKind.FOLDER, disk_mode(status.st_mode, EntryKind.FOLDER))
    if not stat.S_ISREG(status.st_mode):
        return None
    raw, _ = reader.read(Location(root, path), MAX_FILE_SIZE)
    return TreeEntry(EntryKind.FILE, disk_mode(status.st_mode, EntryKind.FILE), keep(raw))


_OWNER = 0o700
_HAS_MODES = hasattr(os, "fchmod") and os.chmod in os.supports_dir_fd


def write_state(root: Path, before: SourceState, after: SourceState, read: Callable[[str], bytes]) -> None:
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
        is_folder = now is not None and now.kind is EntryKind.FOLDER
        if now is None or not is_same(now, before.get(path)):
            continue
        if wanted is not None and (wanted.kind is EntryKind.FOLDER) == is_folder:
            continue
        with suppress(FileNotFoundError):
            remove_entry(root, path, is_folder=is_folder)
    for path in sorted(changed & after.keys(), key=lambda each: each.count("/")):
        now, wanted = entry_at(root, path), after[path]
        if now == wanted or (now is not None and not is_same(now, before.get(path))):
            continue
        if wanted.kind is EntryKind.FOLDER:
            make_folder(root, path)
        else:
            _put(root, path, wanted, read(wanted.blob))
    for path in _deepest_first(path for path, entry in after.items() if entry.kind is EntryKind.FOLDER):
        _set_mode(root, path, after[path].mode)


def is_same(one: TreeEntry | None, other: TreeEntry | None) -> bool:
    """Tell whether two entries have the same content; the modes of folders do not count."""
    if one is None or other is None:
        return one is other
    return one == other or one.kind is other.kind is EntryKind.FOLDER


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


def _open_folders(root: Path, before: SourceState, changed: set[str]) -> None:
    """Let this user write in folders that are to change, whatever their modes were."""
    for path in sorted({path.rpartition("/")[0] for path in changed} & before.keys()):
        entry = before[path]
        if entry.kind is EntryKind.FOLDER and entry.mode & _OWNER != _OWNER and entry_at(root, path) == entry:
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
        if entry.kind is EntryKind.LINK:
            os.symlink(os.fsdecode(content), prefix + beside, dir_fd=handle)
            rename_within(handle, prefix, beside, name)
            return

        def finish(descriptor: int) -> None:
            if _HAS_MODES:
                os.fchmod(descriptor, entry.mode)

        replace_within(handle, prefix, name, content, beside=beside, finish=finish)


PENDING = "pending.json"
"""The name of the file."""


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A change that was begun: from the commit `head` to the tree `tree`, in one unit, with the message of its commit.

    With `staging` the new folder is written there first; `inode` is its number once it is complete, so that it is known
    again in the place of the old one.
    """

    unit: str
    head: str
    tree: str
    message: str
    staging: str | None = None
    inode: int | None = None


@dataclass(frozen=True, slots=True)
class Changer:
    """Makes the changes of one history; its caller holds the lock.

    `journal` is the file with the change that is being made. Methods raise `HistoryError` if a file that is not
    recorded is in the way, or files cannot be read or written.
    """

    root: Path
    repository: Repository
    journal: JsonFile
    work_trees: bool
    left_out: frozenset[str]

    def change(self, unit: str, tree: str, message: bytes) -> str:
        """Bring a unit on disk, which is as in the newest commit, to its state in `tree`; return the new commit."""
        head = self.repository.head
        assert head is not None  # noqa: S101 - what is on disk has just been recorded
        disk = read_state(self.root, unit, work_trees=self.work_trees, left_out=self.left_out)
        after = self.repository.state_of_tree(tree, unit)
        self._refuse_obstacles(disk, after)
        pending = PendingChange(unit, head, tree, message.decode())
        if self._is_exchangeable(unit, disk, after):
            folder = unit.rpartition("/")[0]
            name = f"{TEMPORARY}{secrets.token_hex(8)}"
            pending = replace(pending, staging=f"{folder}/{name}" if folder else name)
        try:
            self._write(pending)
            done = self._apply(pending)
        except OSError as error:
            self._take_back(pending)
            # The names in errors are relative to open folders.
            where = printable(str(self.root / unit))
            raise HistoryError(f"{where}: cannot be written: {(error.strerror or str(error)).lower()}") from error
        return done

    def recover(self) -> str | None:
        """Complete or drop the change that a crash interrupted; return the commit of a completed one."""
        pending = self._read()
        if pending is None:
            return None
        try:
            return self._recover(pending)
        except OSError as error:
            where = printable(str(self.root / pending.unit))
            why = (error.strerror or str(error)).lower()
            raise HistoryError(f"{where}: an interrupted change cannot be completed: {why}") from error

    def _write(self, pending: PendingChange) -> None:
        try:
            self.journal.write(asdict(pending), durable=True)
        except FileRefusedError as error:
            raise OSError(str(error)) from None

    def _read(self) -> PendingChange | None:
        where = printable(str(self.journal.path))
        try:
            value = self.journal.read()
            return None if value is None else PendingChange(**value)
        except (InvalidJsonError, TypeError):
            why = "this file is damaged; compare the skill with its history, then remove it"
            raise HistoryError(f"{where}: {why}") from None
        except FileRefusedError as error:
            raise HistoryError(str(error)) from None

    def _recover(self, pending: PendingChange) -> str | None:
        if self.repository.head != pending.head:
            self._clean(pending)
            return None
        if pending.staging is not None:
            if pending.inode is not None and _inode(self.root / pending.unit) == pending.inode:
                return self._finish(pending)
            self._clean(pending)
            return None
        before, after = self._states(pending)
        if all(is_same(entry_at(self.root, path), before.get(path)) for path in before.keys() | after.keys()):
            self._clean(pending)
            return None
        return self._apply(pending)

    def _apply(self, pending: PendingChange) -> str:
        before, after = self._states(pending)
        for folder in parents_of(pending.unit):
            make_folder(self.root, folder, 0o777)
        if pending.staging is None:
            write_state(self.root, before, after, self.repository.read)
            return self._finish(pending)
        moved = {pending.staging + path[len(pending.unit) :]: entry for path, entry in after.items()}
        write_state(self.root, {}, moved, self.repository.read)
        pending = replace(pending, inode=_inode(self.root / pending.staging))
        self._write(pending)
        if self._put_in_place(pending):
            return self._finish(pending)
        # The disk cannot exchange folders.
        remove_tree(self.root / (pending.staging or ""))
        pending = replace(pending, staging=None, inode=None)
        self._write(pending)
        return self._apply(pending)

    def _put_in_place(self, pending: PendingChange) -> bool:
        """Put the new folder into its place; return False if the disk cannot do it in one step."""
        folder, _, name = pending.unit.rpartition("/")
        staged = (pending.staging or "").rpartition("/")[2]
        with Reader() as reader, reader.within(Location(self.root, folder)) as (handle, prefix):
            if entry_at(self.root, pending.unit) is not None:
                return handle is not None and exchange_within(handle, staged, name)
            os.rename(prefix + staged, prefix + name, src_dir_fd=handle, dst_dir_fd=handle)
            return True

    def _finish(self, pending: PendingChange) -> str:
        """Make the commits of a change that is on disk, and remove what is left of it."""
        parent = pending.head
        if pending.staging is not None and (edited := self._edited_meanwhile(pending)) is not None:
            # The old folder was changed after it was recorded: nothing of it may be lost.
            parent = edited
        rev = self.repository.commit(pending.tree, parent, pending.message.encode())
        self.repository.move_head(rev, pending.head)
        self._clean(pending)
        return rev

    def _edited_meanwhile(self, pending: PendingChange) -> str | None:
        """Commit the state of the folder that was exchanged, if it is not the recorded one; return the commit."""
        staging = pending.staging or ""
        disk = read_state(self.root, staging, self.repository.keep, work_trees=True)
        old = disk.entries
        if staging not in old:
            return None
        for path in disk.others:
            # Created since the folder was read; it is not recorded, so it moves on to the new folder.
            with suppress(OSError):
                (self.root / path).rename(self.root / (pending.unit + path[len(staging) :]))
        found = {pending.unit + path[len(staging) :]: entry for path, entry in old.items()}
        whole = self.repository.state(pending.head)
        if found == part_of(whole, pending.unit):
            return None
        others = {path: entry for path, entry in whole.items() if not is_within(path, pending.unit)}
        skills = changed_units(whole, {**others, **found})
        message = message_with_trailers("Edited by hand", Cause.MANUAL, skills)
        return self.repository.commit(self.repository.write_state({**others, **found}), pending.head, message)

    def _take_back(self, pending: PendingChange) -> None:
        """Restore what was written of a change that failed; if that fails too, the next process completes it."""
        pending = self._read() or pending
        if self.repository.head != pending.head:
            return
        if pending.staging is None:
            before, after = self._states(pending)
            try:
                write_state(self.root, after, before, self.repository.read)
            except OSError:
                return
        elif pending.inode is not None and _inode(self.root / pending.unit) == pending.inode:
            return
        self._clean(pending)

    def _clean(self, pending: PendingChange) -> None:
        if pending.staging is not None:
            remove_tree(self.root / pending.staging)
        for path in read_state(self.root, pending.unit, work_trees=True).others:
            if path.rpartition("/")[2].startswith(TEMPORARY):
                with suppress(OSError):
                    remove_entry(self.root, path, is_folder=False)
        self.journal.path.unlink(missing_ok=True)

    def _states(self, pending: PendingChange) -> tuple[SourceState, SourceState]:
        before = self.repository.state(pending.head, pending.unit)
        return before, self.repository.state_of_tree(pending.tree, pending.unit)

    def _is_exchangeable(self, unit: str, disk: DiskState, after: SourceState) -> bool:
        wanted, now = after.get(unit), disk.entries.get(unit)
        both = all(entry is None or entry.kind is EntryKind.FOLDER for entry in (wanted, now))
        return bool(unit) and wanted is not None and both and not disk.others

    def _refuse_obstacles(self, disk: DiskState, after: SourceState) -> None:
        """Refuse to write over a file that is not recorded."""
        for path in sorted(disk.others):
            is_in_the_way = any(
                is_within(wanted, path) or (entry.kind is not EntryKind.FOLDER and is_within(path, wanted))
                for wanted, entry in after.items()
            )
            if is_in_the_way:
                why = disk.unreadable.get(path, "is not recorded")
                where = printable(str(self.root / path))
                raise HistoryError(f"{where}: {why}, and would be overwritten; move it away first")


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except OSError:
        return None
