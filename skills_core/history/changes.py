"""Change a skill on disk completely or not at all, whatever ends the process.

A folder is written anew beside the old one, and the two are exchanged in one step. Where that is impossible (another
system, a file that is not a folder, the whole source, files that are not recorded), the entries are replaced one by
one. The change that is being made is in a file: after a crash, the next process that opens the history completes it.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from skills_core.diagnostics import printable
from skills_core.disk.files import Location, Reader
from skills_core.disk.replacement import exchange_within, remove_tree
from skills_core.disk.writing import InvalidJsonError, JsonFile
from skills_core.errors import FileRefusedError, HistoryError
from skills_core.history.commits import Cause, message_with_trailers
from skills_core.history.on_disk import DiskState, entry_at, is_same, make_folder, read_state, remove_entry, write_state
from skills_core.history.states import TEMPORARY, Kind, changed_units, is_within, parents_of, part_of

if TYPE_CHECKING:
    from pathlib import Path

    from skills_core.history.repository import Repository
    from skills_core.history.states import State


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
class PendingFile:
    """The file with the pending change, at `path`."""

    path: Path

    def write(self, pending: PendingChange) -> None:
        """Write the pending change; a crash leaves the file as it was, or complete.

        Raises:
            OSError: the file cannot be written.
        """
        try:
            JsonFile(self.path).write(asdict(pending), durable=True)
        except FileRefusedError as error:
            raise OSError(str(error)) from None

    def read(self) -> PendingChange | None:
        """Return the pending change, None if there is none.

        Raises:
            HistoryError: the file cannot be read, or is damaged.
        """
        try:
            value = JsonFile(self.path).read()
            return None if value is None else PendingChange(**value)
        except (InvalidJsonError, TypeError):
            where = printable(str(self.path))
            raise HistoryError(
                f"{where}: this file is damaged; compare the skill with its history, then remove it"
            ) from None
        except FileRefusedError as error:
            raise HistoryError(str(error)) from None

    def clear(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Changer:
    """Makes the changes of one history; its caller holds the lock."""

    root: Path
    repository: Repository
    pending_file: PendingFile
    work_trees: bool
    left_out: frozenset[str]

    def change(self, unit: str, tree: str, message: bytes) -> str:
        """Bring a unit on disk, which is as in the newest commit, to its state in `tree`; return the new commit.

        Raises:
            HistoryError: a file that is not recorded is in the way, or the system refuses to write.
        """
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
            self.pending_file.write(pending)
            done = self._apply(pending)
        except OSError as error:
            self._take_back(pending)
            # The names in errors are relative to open folders.
            where = printable(str(self.root / unit))
            raise HistoryError(f"{where}: cannot be written: {(error.strerror or str(error)).lower()}") from error
        return done

    def recover(self) -> str | None:
        """Complete or drop the change that a crash interrupted; return the commit of a completed one.

        Raises:
            HistoryError: the files cannot be read or written now.
        """
        pending = self.pending_file.read()
        if pending is None:
            return None
        try:
            return self._recover(pending)
        except OSError as error:
            where = printable(str(self.root / pending.unit))
            why = (error.strerror or str(error)).lower()
            raise HistoryError(f"{where}: an interrupted change cannot be completed: {why}") from error

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
        self.pending_file.write(pending)
        if self._put_in_place(pending):
            return self._finish(pending)
        # The disk cannot exchange folders.
        remove_tree(self.root / (pending.staging or ""))
        pending = replace(pending, staging=None, inode=None)
        self.pending_file.write(pending)
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
        pending = self.pending_file.read() or pending
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
        self.pending_file.clear()

    def _states(self, pending: PendingChange) -> tuple[State, State]:
        before = self.repository.state(pending.head, pending.unit)
        return before, self.repository.state_of_tree(pending.tree, pending.unit)

    def _is_exchangeable(self, unit: str, disk: DiskState, after: State) -> bool:
        wanted, now = after.get(unit), disk.entries.get(unit)
        both = all(entry is None or entry.kind is Kind.FOLDER for entry in (wanted, now))
        return bool(unit) and wanted is not None and both and not disk.others

    def _refuse_obstacles(self, disk: DiskState, after: State) -> None:
        """Refuse to write over a file that is not recorded.

        Raises:
            HistoryError: one is in the way.
        """
        for path in sorted(disk.others):
            is_in_the_way = any(
                is_within(wanted, path) or (entry.kind is not Kind.FOLDER and is_within(path, wanted))
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
