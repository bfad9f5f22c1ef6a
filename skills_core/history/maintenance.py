"""Keep a repository small, and free of secrets.

Single objects become packs, in which each version is stored as its difference to another. The library packs objects
without differences unless its caller says which are alike: those of one path. A tree that names a thousand skills then
costs some bytes for each change, and not 40 KiB.

A secret is removed from all versions: commits are written anew, and the old ones are gone.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dulwich.object_store import DiskObjectStore
from dulwich.objects import S_ISGITLINK, Blob, Commit, ObjectID, ShaFile, Tree
from dulwich.pack import deltas_from_sorted_objects, full_unpacked_object

from skills_core.errors import HistoryError

if TYPE_CHECKING:
    from dulwich.objects import ShaFile
    from dulwich.pack import UnpackedObject


MAX_LOOSE: Final = 512
"""Files with single objects beyond which they are packed; a change adds about four."""

MAX_PACKS: Final = 20
"""Packs beyond which they become one."""

_CHAIN: Final = 32
# Versions that are stored as differences in a row: to read the last one, all before it are read.
_MAX_ALIKE: Final = 128 * 1024
# Larger objects are stored whole: to find the differences would take long.


def is_pack_due(objects: Path) -> bool:
    """Tell whether the folder with the objects of a repository has become large."""
    if sum(1 for _ in objects.glob("pack/*.pack")) > MAX_PACKS:
        return True
    return next(islice(_loose_files(objects), MAX_LOOSE, None), None) is not None


def pack_all(objects: Path, head: ObjectID) -> None:
    """Put the single objects into one pack, or if there are many packs, all objects; nothing is lost.

    The caller holds the lock of the history, and has closed the store.

    Raises:
        OSError: the disk refuses.
    """
    store = DiskObjectStore(objects, fsync_object_files=True)
    try:
        wanted = {_id_of(file) for file in _loose_files(objects)}
        old = [*objects.glob("pack/*.pack")] if len(store.packs) > MAX_PACKS else []
        if old:
            wanted.update(number for pack in store.packs for number in pack)
        kept = _write_pack(store, head, wanted)
    finally:
        store.close()
    gone = [file for file in _loose_files(objects) if _id_of(file) in wanted]
    _remove([*gone, *(part for pack in old if pack.stem != kept for part in _parts_of(pack))])
    _remove(objects.glob("pack/tmp_pack_*"))


def pack_reachable(objects: Path, head: ObjectID) -> None:
    """Put the objects of the commits up to `head` into one pack, and remove all others, whatever refers to them.

    The caller holds the lock of the history, and has closed the store.

    Raises:
        OSError: the disk refuses.
    """
    store = DiskObjectStore(objects, fsync_object_files=True)
    try:
        kept = _write_pack(store, head, {number for _, number in reachable_objects(store, head)})
    finally:
        store.close()
    others = [file for file in (objects / "pack").iterdir() if file.stem != kept]
    _remove([*_loose_files(objects), *others])


def reachable_objects(store: DiskObjectStore, head: ObjectID) -> Iterator[tuple[str, ObjectID]]:
    """Yield the objects of the commits up to `head`, the newest first, each once, with a path that it had.

    Commits have no path. Of a commit with several parents only the first is followed, as in all of a history.
    """
    seen: set[ObjectID] = set()
    number: ObjectID | None = head
    while number is not None:
        commit = store[number]
        assert isinstance(commit, Commit)  # noqa: S101 - as the history wrote it
        yield "", number
        waiting = [("/", commit.tree)]
        while waiting:
            path, each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            yield path, each
            found = store[each]
            if isinstance(found, Tree):
                for item in found.items():
                    below = path + os.fsdecode(item.path or b"")
                    if not S_ISGITLINK(item.mode or 0):
                        is_folder = stat.S_ISDIR(item.mode or 0)
                        waiting.append((f"{below}/" if is_folder else below, ObjectID(item.sha or b"")))
        number = commit.parents[0] if commit.parents else None


def _write_pack(store: DiskObjectStore, head: ObjectID, wanted: set[ObjectID]) -> str:
    """Write a pack with the wanted objects, and return the name of its files without their suffixes."""
    paths: dict[str, list[ObjectID]] = {}
    left = set(wanted)
    for path, number in reachable_objects(store, head):
        if number in left:
            left.remove(number)
            paths.setdefault(path, []).append(number)
        if not left:
            break
    whole = [*paths.pop("", []), *left]
    pack = store.add_pack_data(len(wanted), _unpacked(store, whole, paths.values()))
    return "" if pack is None else f"pack-{pack.name().decode()}"


def _unpacked(
    store: DiskObjectStore, whole: Iterable[ObjectID], alike: Iterable[list[ObjectID]]
) -> Iterator[UnpackedObject]:
    for number in whole:
        yield full_unpacked_object(store[number])
    for versions in alike:
        for start in range(0, len(versions), _CHAIN):
            small: list[tuple[ShaFile, bytes | None]] = []
            for number in versions[start : start + _CHAIN]:
                item = store[number]
                if item.raw_length() > _MAX_ALIKE:
                    yield full_unpacked_object(item)
                else:
                    small.append((item, None))
            yield from deltas_from_sorted_objects(iter(small), window_size=1)


def _loose_files(objects: Path) -> Iterator[Path]:
    for folder in objects.iterdir():
        if len(folder.name) == 2:  # noqa: PLR2004 - the first digits of the objects in it
            yield from (file for file in folder.iterdir() if len(file.name) == 38)  # noqa: PLR2004 - the others


def _id_of(file: Path) -> ObjectID:
    return ObjectID(f"{file.parent.name}{file.name}".encode())


def _parts_of(pack: Path) -> list[Path]:
    return [file for file in pack.parent.iterdir() if file.stem == pack.stem]


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        if os.name == "nt":
            # Git's files are read-only, which protects them from removal there.
            file.chmod(stat.S_IWRITE)
        file.unlink(missing_ok=True)


FORGOTTEN: Final = "[forgotten]"
"""What stands in the place of a forgotten secret."""

MIN_SECRET: Final = 8
"""Characters of the shortest secret: shorter ones occur in other texts by chance."""

_ENCODINGS: Final = ("utf-8", "utf-16-le", "utf-16-be")
_REVISION: Final = re.compile(rb"\b[0-9a-f]{10,40}\b")
_SHORT: Final = 10
# Digits by which the message of a rollback names a commit.


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret, found as UTF-8 and UTF-16, and in JSON as that writes it."""

    text: str = field(repr=False)

    def __post_init__(self) -> None:
        """Check the length.

        Raises:
            HistoryError: it is too short.
        """
        if len(self.text) < MIN_SECRET:
            raise HistoryError(f"expected a secret of at least {MIN_SECRET} characters; shorter ones occur by chance")

    def is_in(self, content: bytes) -> bool:
        """Tell whether bytes contain it."""
        return any(form in content for form, _ in self._forms)

    def removed_from(self, content: bytes) -> bytes:
        """Return the bytes without it."""
        for form, instead in self._forms:
            content = content.replace(form, instead)
        return content

    @property
    def _forms(self) -> Iterable[tuple[bytes, bytes]]:
        forms = {self.text.encode(encoding, "surrogatepass"): FORGOTTEN.encode(encoding) for encoding in _ENCODINGS}
        # Names with other characters are escaped in the files with modes and in the messages of commits.
        escaped = "".join(char if " " <= char <= "~" else f"\\u{ord(char):04x}" for char in self.text)
        return {**forms, escaped.encode(): FORGOTTEN.encode()}.items()


@dataclass(slots=True)
class Forgetter:
    """Writes commits anew without a secret; `load` reads objects, `store` keeps them."""

    secret: Secret
    load: Callable[[ObjectID], ShaFile]
    store: Callable[[ShaFile], None]
    files: set[str] = field(default_factory=set)
    changed: int = 0
    _done: dict[ObjectID, ObjectID] = field(default_factory=dict)
    _revs: dict[bytes, bytes] = field(default_factory=dict)

    def rewritten(self, revs: Iterable[str]) -> str | None:
        """Return the newest of the rewritten commits; `revs` are all commits, the oldest first."""
        newest: ObjectID | None = None
        for rev in revs:
            number = ObjectID(rev.encode())
            commit = self.load(number)
            assert isinstance(commit, Commit)  # noqa: S101 - as the history wrote it
            newest = self._commit(number, commit, newest)
        return None if newest is None else newest.decode()

    def _commit(self, number: ObjectID, old: Commit, parent: ObjectID | None) -> ObjectID:
        new = Commit.from_string(old.as_raw_string())
        new.tree = self._tree(old.tree, "")
        new.parents = [] if parent is None else [parent]
        message = self.secret.removed_from(_REVISION.sub(self._renamed, old.message))
        new.message = message
        if new.id == number:
            return number
        self.changed += new.tree != old.tree or message != old.message
        self._revs |= {number: new.id, number[:_SHORT]: new.id[:_SHORT]}
        self.store(new)
        return new.id

    def _renamed(self, match: re.Match[bytes]) -> bytes:
        return self._revs.get(match[0], match[0])

    def _tree(self, number: ObjectID, path: str) -> ObjectID:
        if (done := self._done.get(number)) is not None:
            return done
        old, new = self.load(number), Tree()
        assert isinstance(old, Tree)  # noqa: S101 - as the history wrote it
        for item in old.items():
            name, mode, child = item.path or b"", item.mode or 0, ObjectID(item.sha or b"")
            where = f"{path}{name.decode('utf-8', 'surrogateescape')}"
            is_folder = isinstance(self.load(child), Tree)
            kept = self._tree(child, f"{where}/") if is_folder else self._blob(child, where)
            new.add(self.secret.removed_from(name), mode, kept)
        if new.id != number:
            self.store(new)
        self._done[number] = new.id
        return new.id

    def _blob(self, number: ObjectID, path: str) -> ObjectID:
        if (done := self._done.get(number)) is not None:
            return done
        old = self.load(number)
        assert isinstance(old, Blob)  # noqa: S101 - as the history wrote it
        if not self.secret.is_in(old.data):
            self._done[number] = number
            return number
        new = Blob.from_string(self.secret.removed_from(old.data))
        self.store(new)
        self.files.add(path)
        self._done[number] = new.id
        return new.id
