"""The index: what loading a source produced, kept in one SQLite file, so that the next start parses only what changed.

The files stay the only truth. `SourceIndex.restore` returns a source as it was loaded last, and `reload_source` compares
the listing of each folder and the fingerprint of each file with the disk before anything of it is used. An entry holds
one skill with all its folders, or one folder outside of skills, so that it is as a whole what one load produced. It has
a checksum, because SQLite does not notice every torn page, and stands below a key of all that decides how files are
read: the options of the source, and the version of this program.

Nothing depends on the file: if it is missing, locked, damaged, not this user's own, or the disk is full, skills are
loaded from their files, and the log says so once. Files that could not be read, or whose fingerprint might hide a later
change (`SkillFile.settled`), are not kept. Bodies are never kept.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import MISSING, fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from skills_core.diagnostics import Diagnostic, Reason, one_line
from skills_core.disk.files import open_to_change
from skills_core.disk.folders import Listing
from skills_core.disk.scan import Tree, join, parent
from skills_core.disk.sources import SkillKind
from skills_core.format.frontmatter import Evaluation, Frontmatter, ToolDeclaration
from skills_core.format.gate import Gate
from skills_core.format.instructions import Instructions
from skills_core.loading.discovery import LoadedSource, links_of, problems_of
from skills_core.skills.skill import SkillContent, SkillFile

if TYPE_CHECKING:
    from skills_core.disk.sources import Source

logger = logging.getLogger(__name__)

WORTHWHILE: Final = 200
"""Skills from which on a source is kept; a smaller one is loaded as fast as its entries would be read."""

_FORMAT: Final = 1
# Of the tables and records; another one in the file makes it useless.

_TABLES: Final = f"""
CREATE TABLE IF NOT EXISTS sources (id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, saved REAL NOT NULL);
CREATE TABLE IF NOT EXISTS entries (
    source INTEGER NOT NULL, place TEXT NOT NULL, sum INTEGER NOT NULL, record BLOB NOT NULL,
    PRIMARY KEY (source, place)
);
PRAGMA user_version = {_FORMAT};
"""
_READ: Final = "SELECT place, sum, record FROM entries WHERE source = ? ORDER BY place"
_DELETE: Final = "DELETE FROM entries WHERE source = ? AND place = ?"
_WRITE: Final = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)"

_BUSY_SECONDS: Final = 2.0
_BATCH: Final = 64
# Entries in one transaction: encoding them takes a few milliseconds.

_KEPT_SECONDS: Final = 30 * 86_400.0
# How long a source that is not served any more stays.

_DAMAGED: Final = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA}
)
# With `SQLITE_ERROR`, a table or a column is missing.


class IndexState(NamedTuple):
    """What an index has: its file, the bytes of it, and the number of entries; None if it cannot be read."""

    path: Path
    size: int
    entries: int | None


class SourceIndex:
    """The index in one file, which other processes may use at the same time; nothing here raises.

    `restore` and `save` may be called from any thread, one at a time.
    """

    def __init__(self, path: Path, *, least: int = WORTHWHILE) -> None:
        """Read nothing yet; sources of fewer than `least` skills are not kept."""
        self.path = path
        self._least = least
        self._held: dict[Source, LoadedSource] = {}
        self._has_failed = False

    def restore(self, source: Source) -> LoadedSource | None:
        """Return a source as it was loaded last, to be compared with the disk; None if nothing is known of it."""
        try:
            if not self._is_usable():
                return None
            with closing(self._connect()) as connection:
                found = _restored(source, connection.execute(_READ, (_number(connection, source),)))
        except (OSError, sqlite3.Error, UnicodeError) as error:
            self._note(error)
            return None
        if not found.tree:
            return None
        self._held[source] = found
        return found

    def save(self, loaded: LoadedSource, pause: Callable[[], None] | None = None) -> None:
        """Bring the entries of a source up to date with what was loaded since; `pause` is called often meanwhile."""
        source = loaded.source
        before = self._held.get(source)
        if loaded.main_only or before is loaded or (before is None and len(loaded.contents) < self._least):
            return
        try:
            if not self._is_usable():
                before = None
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                # SQLite would create it for everyone to read.
                os.close(open_to_change(self.path))
                if not self._is_usable():
                    return
            with closing(self._connect()) as connection:
                connection.executescript(_TABLES)
                self._write(connection, before, loaded, pause)
        except (OSError, sqlite3.Error, UnicodeError) as error:
            self._note(error)
        else:
            self._held[source] = loaded

    def state(self) -> IndexState | None:
        """Return what the file has; None if there is none, or none that is used."""
        try:
            if not self._is_usable():
                return None
            size = self.path.stat().st_size
            with closing(self._connect()) as connection:
                (count,) = connection.execute("SELECT count(*) FROM entries").fetchone()
        except OSError:
            return None
        except sqlite3.Error:
            return IndexState(self.path, size, None)
        return IndexState(self.path, size, int(count))

    def _write(
        self,
        connection: sqlite3.Connection,
        before: LoadedSource | None,
        loaded: LoadedSource,
        pause: Callable[[], None] | None,
    ) -> None:
        now = time.time()
        with connection:
            old = "SELECT id FROM sources WHERE saved < ?"
            connection.execute(f"DELETE FROM entries WHERE source IN ({old})", (now - _KEPT_SECONDS,))  # noqa: S608 - a constant
            connection.execute("DELETE FROM sources WHERE saved < ?", (now - _KEPT_SECONDS,))
            add = (
                "INSERT INTO sources (key, saved) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET saved = excluded.saved"
            )
            connection.execute(add, (key_of(loaded.source), now))
            number = _number(connection, loaded.source)
            if before is None:
                connection.execute("DELETE FROM entries WHERE source = ?", (number,))
        changed = list(_differences(before, loaded))
        for start in range(0, len(changed), _BATCH):
            if pause is not None:
                pause()
            batch = changed[start : start + _BATCH]
            records = [(place, _encoded(loaded, folders)) for place, folders in batch]
            with connection:
                connection.executemany(_DELETE, [(number, place) for place, _ in records])
                connection.executemany(
                    _WRITE, [(number, place, zlib.crc32(record), record) for place, record in records if record]
                )

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS)
        try:
            # What a power failure tears is noticed, and loaded again.
            connection.execute("PRAGMA synchronous = OFF")
            (found,) = connection.execute("PRAGMA user_version").fetchone()
            if found not in {0, _FORMAT}:
                raise sqlite3.DatabaseError("another version of the format")
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_usable(self) -> bool:
        """Tell whether there is a file that only this user can have written.

        Raises:
            PermissionError: the file or its folder belongs to another user, or others may access it.
        """
        try:
            folder, file = self.path.parent.stat(), self.path.lstat()
        except FileNotFoundError:
            return False
        if not (stat.S_ISREG(file.st_mode) and stat.S_ISDIR(folder.st_mode)):
            raise PermissionError(f"{self.path} is not a regular file")
        if hasattr(os, "geteuid"):
            if {folder.st_uid, file.st_uid} != {os.geteuid()}:
                raise PermissionError(f"{self.path} or its folder belongs to another user")
            if file.st_mode & 0o077 or folder.st_mode & 0o022:
                raise PermissionError(f"other users may access {self.path} or write its folder")
        return True

    def _note(self, error: Exception) -> None:
        """Throw a damaged file away, and log the first failure."""
        self._held.clear()
        if isinstance(error, sqlite3.DatabaseError):
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code in _DAMAGED:
                for suffix in ("", "-journal", "-wal", "-shm"):
                    with suppress(OSError):
                        os.unlink(f"{self.path}{suffix}")
        if not self._has_failed:
            self._has_failed = True
            message = "the index of skills is not used, so a start reads all files: %s: %s"
            logger.info(message, self.path, one_line(str(error)))


def _number(connection: sqlite3.Connection, source: Source) -> int:
    """Return the number of a source in the file; -1 if it has none."""
    row = connection.execute("SELECT id FROM sources WHERE key = ?", (key_of(source),)).fetchone()
    return int(row[0]) if row else -1


def key_of(source: Source) -> str:
    """Return the key of a source: it differs if anything differs that decides how its files are read."""
    options = msgspec.json.encode(source, enc_hook=str, order="deterministic")
    return hashlib.sha256(options + _program()).hexdigest()


@cache
def _program() -> bytes:
    """Return what tells the programs apart that read files: their versions, and the modules of this copy."""
    found = [str(_FORMAT), sys.version, *map(_version_of, ("skillserve", "pyyaml"))]
    core = Path(__file__).parents[1]
    for folder in (core, *(core / name for name in ("disk", "format", "loading", "skills"))):
        for path in sorted(folder.glob("*.py")):
            status = path.stat()
            found.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return "\0".join(found).encode("utf-8", "surrogateescape")


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _differences(before: LoadedSource | None, loaded: LoadedSource) -> Iterator[tuple[str, list[str]]]:
    """Yield the entries that are to be written, each with the folders in it; one without folders is gone."""
    entries, single = _entries(loaded), _single_files(loaded)
    if before is None:
        yield from entries.items()
        return
    known = _single_files(before)
    for place, folders in entries.items():
        if any(
            loaded.tree[folder] is not before.tree.get(folder)
            or loaded.contents.get(folder) is not before.contents.get(folder)
            or not _are_same(single.get(folder, {}), known.get(folder, {}))
            for folder in folders
        ):
            yield place, folders
    for place in _entries(before).keys() - entries.keys():
        yield place, []


def _entries(loaded: LoadedSource) -> dict[str, list[str]]:
    """Return the folders of each entry: a skill has one with all folders in it, each other folder has its own."""
    found: dict[str, list[str]] = {}
    place_of: dict[str, str] = {}
    # A folder comes before those in it.
    for folder in sorted(loaded.tree):
        above = place_of.get(parent(folder), "") if folder else ""
        place = above if above in found and above in loaded.contents else folder
        place_of[folder] = place
        found.setdefault(place, []).append(folder)
    return found


def _single_files(loaded: LoadedSource) -> dict[str, dict[str, SkillContent | SkillFile]]:
    """Return what is in single files, by folder and path."""
    found: dict[str, dict[str, SkillContent | SkillFile]] = {}
    for place, each in (*loaded.documents.items(), *loaded.texts.items()):
        found.setdefault(parent(place), {})[place] = each
    return found


def _are_same(one: dict[str, SkillContent | SkillFile], other: dict[str, SkillContent | SkillFile]) -> bool:
    return one.keys() == other.keys() and all(each is other[place] for place, each in one.items())


class _Content(msgspec.Struct, array_like=True, gc=False):
    """A content; `front` has the fields of the frontmatter that are not as by default, `same` those as in `raw`."""

    place: str
    kind: SkillKind
    name: str
    raw: dict[str, Any]
    same: tuple[str, ...]
    front: dict[str, Any]
    diagnostics: tuple[Diagnostic, ...]
    fault: Reason | None
    verbatim: bool
    body_offset: int
    files: list[SkillFile]
    has_main: bool
    folders: frozenset[str]
    notes: tuple[Diagnostic, ...]
    published: bool


class _Entry(msgspec.Struct, array_like=True, gc=False):
    """An entry: its folders with files, folders, refused entries and links, what is a skill in it, and what is not."""

    listings: list[tuple[str, Listing]]
    contents: list[_Content]
    texts: list[tuple[str, SkillFile]]


def _from_text(kind: type, value: object) -> Path:
    if kind is not Path or not isinstance(value, str):
        raise NotImplementedError
    return Path(value)


# These make most of the objects of a start; msgspec makes them several times as fast as their classes do.
_encode: Final = msgspec.msgpack.Encoder(enc_hook=str).encode
_decode: Final = msgspec.msgpack.Decoder(_Entry, dec_hook=_from_text).decode


def _encoded(loaded: LoadedSource, folders: list[str]) -> bytes | None:
    """Return the record of an entry; None if it is gone, or cannot be kept."""
    if not folders:
        return None
    try:
        listings = [(folder, loaded.tree[folder]) for folder in folders]
        if any(listing.unread or any(file[1] is None for file in listing.files) for _, listing in listings):
            return None
        single = [join(folder, name) for folder, listing in listings for name, _ in listing.files]
        documents = [loaded.documents[place] for place in single if place in loaded.documents]
        contents = [each for folder in folders if (each := loaded.contents.get(folder)) is not None]
        texts = [(place, loaded.texts[place]) for place in single if place in loaded.texts]
        files = [file for each in (*contents, *documents) for file in each.files.values()]
        if not all(file.settled for file in (*files, *(file for _, file in texts))):
            return None
        if not all(loaded.unread.isdisjoint(_read_for(each)) for each in (*contents, *documents)):
            return None
        return _encode(_Entry(listings, [_content_record(each) for each in (*contents, *documents)], texts))
    except (ValueError, TypeError, OverflowError, RecursionError):
        # Among these are names that are not UTF-8, and numbers that are longer than 64 bits.
        return None


def _read_for(content: SkillContent) -> Iterator[str]:
    """Yield what was read for a content."""
    yield content.place
    yield from (join(content.folder, path) for path in content.files)


def _content_record(content: SkillContent) -> _Content:
    read = content.instructions
    front, raw = read.frontmatter, read.frontmatter.raw
    given = {name: value for name, default in _DEFAULTS.items() if (value := getattr(front, name)) != default}
    same = tuple(name for name, value in given.items() if name in raw and _is_same(raw[name], value))
    return _Content(
        content.place,
        content.kind,
        read.name,
        dict(raw),
        same,
        {name: value for name, value in given.items() if name not in same},
        read.diagnostics,
        read.fault,
        read.verbatim,
        read.body_offset,
        [*content.files.values()],
        content.main is not None,
        content.folders,
        content.notes,
        content.published,
    )


def _is_same(written: object, value: object) -> bool:
    """Tell whether a field is exactly as written; `1`, `1.0` and `True` are equal, but not the same."""
    return written is value or (isinstance(value, str) and type(written) is str and written == value)


_DEFAULTS: Final = {
    field.name: None if field.default is MISSING else field.default
    for field in fields(Frontmatter)
    if field.init and field.name != "raw"
}


def _restored(source: Source, rows: Iterable[tuple[Any, ...]]) -> LoadedSource:
    """Return what the entries of a source hold, without those that are torn, or do not belong to one tree."""
    tree = Tree()
    contents: dict[str, SkillContent] = {}
    documents: dict[str, SkillContent] = {}
    texts: dict[str, SkillFile] = {}
    for place, checksum, record in rows:
        # The folder above, which decides what is a skill in this one, comes before it.
        if place in tree or (place and parent(place) not in tree):
            continue
        if not isinstance(record, bytes) or zlib.crc32(record) != checksum:
            continue
        try:
            entry = _decode(record)
        except (msgspec.MsgspecError, UnicodeError):
            continue
        if not entry.listings or entry.listings[0][0] != place:
            continue
        tree.update(entry.listings)
        for each in entry.contents:
            content = _content(each)
            contents[each.place] = content
            if each.kind is not SkillKind.FOLDER:
                documents[each.place] = content
        texts.update(entry.texts)
    tree.entries = sum(len(each.files) + len(each.folders) + len(each.refused) for each in tree.values())
    return LoadedSource(
        source,
        tree,
        MappingProxyType(dict(sorted(contents.items()))),
        MappingProxyType(documents),
        MappingProxyType(texts),
        problems_of(source, tree, contents),
        links=links_of(source, tree),
    )


def _content(record: _Content) -> SkillContent:
    raw, front = record.raw, record.front
    for name in record.same:
        front[name] = raw[name]
    for name in front.keys() & _CONVERTED.keys():
        front[name] = _CONVERTED[name](front[name])
    front.setdefault("metadata", {})
    frontmatter = Frontmatter(raw=raw, **front)
    read = Instructions(
        record.name, frontmatter, "", record.diagnostics, record.fault, record.verbatim, record.body_offset
    )
    files = {each.path: each for each in record.files}
    return SkillContent(
        record.place,
        read,
        MappingProxyType(files),
        record.files[0] if record.has_main else None,
        record.folders,
        record.notes,
        record.published,
        record.kind,
    )


def _gates(values: list[dict[str, Any]]) -> tuple[Gate, ...]:
    def gate(value: dict[str, Any]) -> Gate:
        config = tuple((key, wanted) for key, wanted in value.pop("config"))
        return Gate(config=config, **{name: tuple(each) for name, each in value.items()})

    return tuple(map(gate, values))


def _evaluation(value: dict[str, Any]) -> Evaluation:
    return Evaluation(**{**value, "criteria": tuple(value["criteria"])})


_CONVERTED: Final[dict[str, Callable[[Any], Any]]] = {
    **{name: tuple for name, default in _DEFAULTS.items() if default == () or name == "allowed_tools"},
    "gates": _gates,
    "evaluation": _evaluation,
    "tools": lambda values: tuple(ToolDeclaration(**value) for value in values),
}
# JSON has no tuples and no classes.
