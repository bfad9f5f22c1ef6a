"""The git repository of a history: objects, one branch, and nothing else of git.

Bytes go into and out of objects as they are. No index and no work tree exist, so that no filter, attribute or hook
applies, and neither the user's configuration of git nor that of the repository is read.
"""

from __future__ import annotations

import re
import secrets
import time
import weakref
import zlib
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar

from dulwich.errors import ChecksumMismatch, FileFormatException, RefFormatError
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tree
from dulwich.refs import DiskRefsContainer, Ref, SymrefLoop
from dulwich.repo import Repo

from skills_core.diagnostics import printable
from skills_core.disk.replacement import remove_tree
from skills_core.errors import HistoryError
from skills_core.history.commits import HistoryCommit, parse_commit
from skills_core.history.forgetting import Forgetter
from skills_core.history.packing import is_pack_due, pack_all, pack_reachable
from skills_core.history.trees import read_tree, unit_key, write_tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from skills_core.history.entries import Entry, State
    from skills_core.history.forgetting import Secret

__all__ = ["Repository", "create_repository"]

_Object = TypeVar("_Object", bound=ShaFile)

_BRANCH: Final = Ref(b"refs/heads/main")
_NAME: Final = b"skillserve <skillserve@localhost>"
_REV: Final = re.compile("[0-9a-f]{40}")
_MIN_DIGITS: Final = 4
_DAMAGES: Final = (KeyError, OSError, ValueError, AssertionError, ChecksumMismatch, FileFormatException, zlib.error)
# What reading an object raises that is missing or not what git wrote.
_BAD_REFS: Final = (ValueError, OSError, FileFormatException, RefFormatError, SymrefLoop)
# What reading the branch raises if its file is not what git wrote.
_MAX_LOOSE: Final = 30
_MAX_WAITING_BYTES: Final = 32 * 1024 * 1024


def create_repository(path: Path) -> None:
    """Create an empty bare repository unless there is one; after a crash there is a complete one or none."""
    if path.exists():
        return
    for begun in path.parent.glob(f"{path.name}.*"):
        # Left by a process that was killed.
        remove_tree(begun)
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    beside.mkdir(mode=0o700)
    try:
        Repo.init_bare(beside, default_branch=b"main").close()
        beside.rename(path)
    except BaseException:
        remove_tree(beside)
        raise


class Repository:
    """Reads and writes the objects and the branch; its caller holds the lock of the history while it writes."""

    def __init__(self, path: Path) -> None:
        """Open the repository at `path`."""
        self._path = path
        self._refs = DiskRefsContainer(path)
        self._waiting: dict[ObjectID, ShaFile] = {}
        self._waiting_bytes = 0
        self._has_grown = False
        self._open()

    def _open(self) -> None:
        self._objects = DiskObjectStore(self._path / "objects", fsync_object_files=True)
        # Closed at the latest before the interpreter ends, when the library could not do it any more.
        self.close = weakref.finalize(self, self._objects.close)

    def pack(self) -> None:
        """Pack the objects if there are many files since this repository was opened.

        Raises:
            HistoryError: the disk refuses.
        """
        head = self.head
        if not self._has_grown or head is None:
            return
        self._has_grown = False
        with self._closed():
            if is_pack_due(self._path / "objects"):
                pack_all(self._path / "objects", ObjectID(head.encode()))

    def forget(self, secret: Secret) -> tuple[int, tuple[str, ...]]:
        """Remove a secret from all commits, and all objects that no commit needs, whatever else refers to them.

        Return how many commits had it, and in which files.

        Raises:
            HistoryError: the disk refuses, or the history is damaged.
        """
        head = self.head
        if head is None:
            return 0, ()
        forgetter = Forgetter(secret, lambda number: self._load(number, ShaFile), self._store)
        new = forgetter.rewritten(reversed([*self.revs()]))
        self._flush()
        if new is not None and new != head:
            self.move_head(new, head)
        with self._closed():
            pack_reachable(self._path / "objects", ObjectID((new or head).encode()))
        return forgetter.changed, tuple(sorted(forgetter.files))

    @contextmanager
    def _closed(self) -> Iterator[None]:
        """Close the objects while files of the repository are removed; Windows removes no open file."""
        self.close()
        try:
            with self._writing():
                yield
        finally:
            self._open()

    @property
    def head(self) -> str | None:
        """The newest commit, None if there is none yet.

        Raises:
            HistoryError: the file of the branch is damaged.
        """
        file = self._path / "refs" / "heads" / "main"
        try:
            rev = self._refs[_BRANCH].decode()
        except KeyError as error:
            if file.exists():
                raise self._damaged(f"the file {file.name} of the branch") from error
            return None
        except _BAD_REFS as error:
            raise self._damaged(f"the file {file.name} of the branch") from error
        if not _REV.fullmatch(rev):
            raise self._damaged(f"the file {file.name} of the branch")
        return rev

    def move_head(self, rev: str, before: str | None) -> None:
        """Make `rev` the newest commit.

        Raises:
            HistoryError: another program has moved the branch, or the disk refuses.
        """
        old = None if before is None else ObjectID(before.encode())
        new = ObjectID(rev.encode())
        with self._writing():
            _remove_stale(self._path / "refs" / "heads" / "main.lock")
            done = self._refs.add_if_new(_BRANCH, new) if old is None else self._refs.set_if_equals(_BRANCH, old, new)
        if not done:
            raise HistoryError(f"{printable(str(self._path))}: another program has changed this history; try again")

    def keep(self, content: bytes) -> str:
        """Store bytes; return their object."""
        blob = Blob.from_string(content)
        self._store(blob)
        return blob.id.decode()

    def read(self, blob: str) -> bytes:
        """Return the bytes of an object."""
        data: bytes = self._load(ObjectID(blob.encode()), Blob).data
        return data

    def write_state(self, state: State) -> str:
        """Store a state, the blobs of which are stored; return its tree."""
        tree = write_tree(state, self._store).decode()
        self._flush()
        return tree

    def state(self, rev: str | None, unit: str = "") -> dict[str, Entry]:
        """Return the entries of a unit in a commit; none if there is no commit."""
        return {} if rev is None else self.state_of_tree(self.tree_of(rev), unit)

    def state_of_tree(self, tree: str, unit: str = "") -> dict[str, Entry]:
        """Return the entries of a unit in a tree."""
        return read_tree(ObjectID(tree.encode()), unit, self._load_tree, self.read)

    def tree_of(self, rev: str) -> str:
        """Return the tree of a commit."""
        tree: bytes = self._commit(rev).tree
        return tree.decode()

    def parent_of(self, rev: str) -> str | None:
        """Return the commit before a commit."""
        parents = self._commit(rev).parents
        return parents[0].decode() if parents else None

    def commit(self, tree: str, parent: str | None, message: bytes) -> str:
        """Store a commit of this moment; return its id. It becomes the newest by `move_head`."""
        commit = Commit()
        commit.tree = ObjectID(tree.encode())
        commit.parents = [] if parent is None else [ObjectID(parent.encode())]
        now = int(time.time())
        zone = datetime.fromtimestamp(now).astimezone().utcoffset()
        offset = 0 if zone is None else int(zone.total_seconds()) // 60 * 60
        commit.author = commit.committer = _NAME
        commit.author_time = commit.commit_time = now
        commit.author_timezone = commit.commit_timezone = offset
        commit.encoding = b"UTF-8"
        commit.message = message
        self._store(commit)
        self._flush()
        return commit.id.decode()

    def describe(self, rev: str) -> HistoryCommit:
        """Return a commit for people and programs."""
        commit = self._commit(rev)
        return parse_commit(rev, commit.message, commit.commit_time, commit.commit_timezone)

    def revs(self, unit: str | None = None) -> Iterator[str]:
        """Yield the commits from the newest, or only those that changed a unit."""
        rev = self.head
        while rev is not None:
            parent = self.parent_of(rev)
            if unit is None or self._key(rev, unit) != self._key(parent, unit):
                yield rev
            rev = parent

    def find(self, rev: str) -> str:
        """Return the commit whose id begins with `rev`.

        Raises:
            HistoryError: there is none, or more than one.
        """
        wanted = rev.lower()
        is_id = len(wanted) >= _MIN_DIGITS and not set(wanted) - set("0123456789abcdef")
        found = [each for each in self.revs() if each.startswith(wanted)] if is_id else []
        if len(found) == 1:
            return found[0]
        why = "several commits begin with it" if found else "there is no such commit"
        raise HistoryError(
            f"{rev[:100]!r}: {why}; expected the first digits, at least {_MIN_DIGITS}, of a commit that "
            "`skillserve history NAME` lists"
        )

    def _key(self, rev: str | None, unit: str) -> object:
        return None if rev is None else unit_key(self._commit(rev).tree, unit, self._load_tree, self.read)

    def _commit(self, rev: str) -> Commit:
        return self._load(ObjectID(rev.encode()), Commit)

    def _load_tree(self, number: ObjectID) -> Tree:
        return self._load(number, Tree)

    def _load(self, number: ObjectID, kind: type[_Object]) -> _Object:
        try:
            found = self._waiting.get(number) or self._objects[number]
        except _DAMAGES:
            # Another thread or process may just have packed the object.
            try:
                found = self._objects[number]
            except _DAMAGES as error:
                raise self._damaged(f"the object {number.decode()[:12]}") from error
        if not isinstance(found, kind):
            raise self._damaged(f"the object {number.decode()[:12]}")
        return found

    def _damaged(self, what: str) -> HistoryError:
        return HistoryError(
            f"{printable(str(self._path))}: this history is damaged ({what} cannot be read); restore it from a backup, "
            "or move the folder away to begin a new history"
        )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Report what the disk refuses.

        Raises:
            HistoryError: it does.
        """
        try:
            yield
        except FileFormatException as error:
            raise self._damaged("the file packed-refs") from error
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise HistoryError(f"{printable(str(self._path))}: the history cannot be written: {why}") from error

    def _store(self, item: ShaFile) -> None:
        self._waiting[item.id] = item
        self._waiting_bytes += item.raw_length()
        if self._waiting_bytes > _MAX_WAITING_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Write the objects that wait, each to a file, or many to one pack: the disk is waited for after each file."""
        new = [(item, None) for number, item in self._waiting.items() if number not in self._objects]
        self._has_grown |= bool(new)
        # What the disk refuses must not be written again with the next commit.
        self._waiting.clear()
        self._waiting_bytes = 0
        with self._writing():
            if len(new) > _MAX_LOOSE:
                self._objects.add_objects(new)
                return
            for item, _ in new:
                number = item.id.decode()
                _remove_stale(self._path / "objects" / number[:2] / f"{number[2:]}.lock")
                self._objects.add_object(item)


def _remove_stale(lock: Path) -> None:
    """Remove a lock file of git that a killed process has left; live processes hold the lock of the history."""
    with suppress(FileNotFoundError):
        lock.unlink()
