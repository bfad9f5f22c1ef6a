"""The git repository of a history: objects, one branch, and nothing else of git.

Bytes go into and out of objects as they are. No index and no work tree exist, so that no filter, attribute or hook
applies, and neither the user's configuration of git nor that of the repository is read.

The state of a source is stored as git trees. A tree has the files of its folder under their names. Git knows two modes
of files and none of folders; where a mode differs from those, or a folder is empty, a blob in the tree says so. A
folder's tree thus has everything about it.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from dulwich.errors import ChecksumMismatch, FileFormatException, RefFormatError
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tree
from dulwich.refs import DiskRefsContainer, Ref, SymrefLoop
from dulwich.repo import Repo

from skills_core.diagnostics import printable
from skills_core.disk.replacement import remove_tree
from skills_core.errors import HistoryError
from skills_core.history.maintenance import Forgetter, is_pack_due, pack_all, pack_reachable
from skills_core.history.versions import (
    FILE_MODE,
    FOLDER_MODE,
    TEMPORARY,
    EntryKind,
    HistoryCommit,
    SourceState,
    TreeEntry,
    is_within,
    parse_commit,
)

if TYPE_CHECKING:
    from skills_core.history.maintenance import Secret
    from skills_core.history.versions import SourceState

    Load = Callable[[ObjectID], Tree]
    Modes = dict[str, int]


MODES: Final = f"{TEMPORARY}modes"
"""The blob with the modes; such names are never recorded as files."""

_TREE: Final = 0o040000
_LINK: Final = 0o120000
_FILE: Final = 0o100644
_EXECUTABLE: Final = 0o100755
_OWN: Final = "."


def write_tree(state: SourceState, store: Callable[[ShaFile], None]) -> ObjectID:
    """Store the trees of a state whose blobs are stored already; return the root tree."""
    children: dict[str, dict[str, TreeEntry]] = {"": {}}
    for path, entry in state.items():
        folder, _, name = path.rpartition("/")
        children.setdefault(folder, {})[name] = entry
        if entry.kind is EntryKind.FOLDER:
            children.setdefault(path, {})
    written: dict[str, ObjectID] = {}
    # The deepest first: a tree names the trees below it.
    for folder in sorted(children, key=lambda each: each.count("/") + bool(each), reverse=True):
        own = state[folder].mode if folder else None
        written[folder] = _write_folder(folder, children[folder], own, written, store)
    return written[""]


def _write_folder(
    folder: str,
    entries: dict[str, TreeEntry],
    own: int | None,
    written: dict[str, ObjectID],
    store: Callable[[ShaFile], None],
) -> ObjectID:
    tree, modes = Tree(), {}
    if own is not None and (own != FOLDER_MODE or not entries):
        modes[_OWN] = own
    for name, entry in entries.items():
        if entry.kind is EntryKind.FOLDER:
            tree.add(os.fsencode(name), _TREE, written[f"{folder}/{name}" if folder else name])
            continue
        git_mode = _git_mode(entry)
        if entry.kind is EntryKind.FILE and entry.mode != git_mode & 0o777:
            modes[name] = entry.mode
        tree.add(os.fsencode(name), git_mode, ObjectID(entry.blob.encode()))
    if modes:
        blob = Blob.from_string(json.dumps({name: f"{modes[name]:04o}" for name in sorted(modes)}).encode())
        store(blob)
        tree.add(MODES.encode(), _FILE, blob.id)
    store(tree)
    return tree.id


def _git_mode(entry: TreeEntry) -> int:
    if entry.kind is EntryKind.LINK:
        return _LINK
    return _EXECUTABLE if entry.mode & 0o100 else _FILE


def read_tree(root: ObjectID, unit: str, load: Load, read: Callable[[str], bytes]) -> dict[str, TreeEntry]:
    """Return the entries of a unit in a tree, and none of the folders above it."""
    found: dict[str, TreeEntry] = {}
    waiting = [("", root)]
    while waiting:
        folder, number = waiting.pop()
        tree = load(number)
        modes = _modes(tree, read)
        if folder and is_within(folder, unit):
            found[folder] = TreeEntry(EntryKind.FOLDER, modes.get(_OWN, FOLDER_MODE))
        for name, mode, child in _items(tree):
            path = f"{folder}/{name}" if folder else name
            if mode == _TREE:
                if is_within(path, unit) or is_within(unit, path):
                    waiting.append((path, child))
            elif is_within(path, unit):
                found[path] = _entry(mode, modes.get(name), child)
    return found


def unit_key(root: ObjectID, unit: str, load: Load, read: Callable[[str], bytes]) -> object:
    """Return a value that is the same for two trees if the unit is the same in both; None if there is none."""
    number = root
    *folders, last = unit.split("/")
    if not unit:
        return number
    for folder in folders:
        below = _child(load(number), folder)
        if below is None or below[0] != _TREE:
            return None
        number = below[1]
    tree = load(number)
    child = _child(tree, last)
    return None if child is None else (child, _modes(tree, read).get(last))


def _child(tree: Tree, name: str) -> tuple[int, ObjectID] | None:
    try:
        return tree[os.fsencode(name)]
    except KeyError:
        return None


def _items(tree: Tree) -> Iterator[tuple[str, int, ObjectID]]:
    for item in tree.items():
        name = os.fsdecode(item.path or b"")
        if name and name not in {".", ".."} and "/" not in name and not name.startswith(TEMPORARY):
            yield name, item.mode or 0, ObjectID(item.sha or b"")


def _modes(tree: Tree, read: Callable[[str], bytes]) -> Modes:
    child = _child(tree, MODES)
    if child is None:
        return {}
    return {name: int(mode, 8) & 0o777 for name, mode in json.loads(read(child[1].decode())).items()}


def _entry(git_mode: int, mode: int | None, number: ObjectID) -> TreeEntry:
    if git_mode == _LINK:
        return TreeEntry(EntryKind.LINK, 0, number.decode())
    usual = FOLDER_MODE if git_mode & 0o100 else FILE_MODE
    return TreeEntry(EntryKind.FILE, usual if mode is None else mode, number.decode())


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
    """Reads and writes the objects and the branch; its caller holds the lock of the history while it writes.

    Methods raise `HistoryError` if the history is damaged, or the disk refuses.
    """

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
        """Pack the objects if there are many files since this repository was opened."""
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
        """The newest commit, None if there is none yet."""
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
        """Make `rev` the newest commit."""
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

    def write_state(self, state: SourceState) -> str:
        """Store a state whose blobs are stored; return its tree."""
        tree = write_tree(state, self._store).decode()
        self._flush()
        return tree

    def state(self, rev: str | None, unit: str = "") -> dict[str, TreeEntry]:
        """Return the entries of a unit in a commit; none if there is no commit."""
        return {} if rev is None else self.state_of_tree(self.tree_of(rev), unit)

    def state_of_tree(self, tree: str, unit: str = "") -> dict[str, TreeEntry]:
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

    def revs(self, unit: str | None = None, since: str | None = None) -> Iterator[str]:
        """Yield the commits from the newest, or only those that changed a unit; from `since` on they are left out."""
        rev = self.head
        after = None if unit is None else self._key(rev, unit)
        while rev is not None and rev != since:
            parent = self.parent_of(rev)
            before = None if unit is None else self._key(parent, unit)
            if unit is None or after != before:
                yield rev
            rev, after = parent, before

    def has(self, rev: str) -> bool:
        """Tell whether there is a commit with this id; of what was forgotten nothing is left."""
        return ObjectID(rev.encode()) in self._objects

    def find(self, rev: str) -> str:
        """Return the commit whose id begins with `rev`."""
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
        """Report what the disk refuses."""
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
