"""The index: what loading a source produced, kept in a SQLite file, so that the next start parses only what changed.

The files stay the only truth. `SourceIndex.restore` returns a source as it was loaded last; `reload_source` compares
the metadata of each folder and each file with the disk, lists what changed, and loads what differs. An entry holds one
skill with all its folders, or one folder outside of skills, and so is as a whole what one load produced. It has a
checksum, because SQLite does not notice every torn page, and stands below a key of all that decides how files are read:
the options of the source, and the version of this program.

A load is saved in stages, so that the next start goes on where one was ended. A folder that is not finished is kept
as an empty one: what belongs to it may be missing in the stage, so the next load lists and loads it again.

Nothing depends on the file: if it is missing, locked, damaged, not this user's own, or the disk is full, skills are
loaded from their files, and the log says so once. Files that could not be read, or whose fingerprint might hide a later
change (`SkillFile.settled`), are not kept. Bodies are never kept.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import yaml

from skills_core.diagnostics import one_line
from skills_core.disk.files import is_private, make_private
from skills_core.disk.tree import Tree, join, parent
from skills_core.loading.discovery import LoadedSource, Part, enclosing

if TYPE_CHECKING:
    from skills_core.disk.sources import Source

logger = logging.getLogger(__name__)

WORTHWHILE: Final = 200
"""Skills from which on a source is kept; a smaller one is loaded in less than a tenth of a second."""

_FORMAT: Final = 4
# Of the tables; a file with another one is thrown away.

_TABLES: Final = f"""
CREATE TABLE IF NOT EXISTS sources (id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, saved REAL NOT NULL);
CREATE TABLE IF NOT EXISTS entries (
    source INTEGER NOT NULL, place TEXT NOT NULL, sum INTEGER NOT NULL, record BLOB NOT NULL,
    PRIMARY KEY (source, place)
);
PRAGMA user_version = {_FORMAT};
"""
_ADD: Final = "INSERT INTO sources (key, saved) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET saved = excluded.saved"
_FORGET: Final = (
    "DELETE FROM entries WHERE source IN (SELECT id FROM sources WHERE saved < ?)",
    "DELETE FROM sources WHERE saved < ?",
)
_READ: Final = "SELECT place, sum, record FROM entries WHERE source = ? AND place >= ? ORDER BY place LIMIT ?"
_COUNT: Final = "SELECT count(*) FROM entries WHERE source = ?"
_DELETE: Final = "DELETE FROM entries WHERE source = ? AND place = ?"
_WRITE: Final = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)"

_BUSY_SECONDS: Final = 2.0
_BATCH: Final = 64
# Entries in one transaction: encoding them takes a few milliseconds.

_STEP: Final = 500
# Entries that are restored in one step: that takes some tens of milliseconds.

_KEPT_SECONDS: Final = 30 * 86_400.0
# How long a source that is not served any more stays.

_DAMAGED: Final = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA}
)
# With `SQLITE_ERROR`, a table or a column is missing.


Row = tuple[str, int, bytes]
"""An entry in a file: its place, its checksum and its record."""


class IndexState(NamedTuple):
    """What an index has: its file, the bytes of it, and the number of entries; None if it cannot be read."""

    path: Path
    size: int
    entries: int | None


class SourceIndex:
    """The index in one file, which other processes may use at the same time; nothing here raises.

    All methods may be called from any thread.
    """

    def __init__(self, path: Path, program: str = "", *, least: int = WORTHWHILE) -> None:
        """Read nothing yet; `program` is the version of the program, and sources of fewer skills are not kept."""
        self.path = path
        self._program = program
        self._least = least
        self._held: dict[Source, LoadedSource] = {}
        self._has_failed = False
        self._writing = threading.Lock()

    def restore(self, source: Source) -> LoadedSource | None:
        """Return a source as it was loaded last, to be compared with the disk; None if nothing is known of it."""
        found = None
        for part in self.restore_in_parts(source):
            found = part
        known = None if found is None else found.source()
        return known if known is not None and known.complete else None

    def restore_in_parts(self, source: Source) -> Iterator[Part]:
        """Yield after each step what is restored until then; nothing if nothing is known of the source.

        The last one has all that the file has, and is complete unless reading the file failed.
        """
        self._held.pop(source, None)
        try:
            if not is_private(self.path):
                return
            from skills_core.loading.records import Restoration  # noqa: PLC0415 - few users have an index

            restoration, following, count, total = Restoration(source), "", 0, 0
            while True:
                # A connection for each step: steps may run in different threads, and nothing is locked between them.
                with closing(self._connect()) as connection:
                    number = self._number(connection, source)
                    rows = connection.execute(_READ, (number, following, _STEP)).fetchall()
                    if not count:
                        (total,) = connection.execute(_COUNT, (number,)).fetchone()
                if not rows:
                    break
                for row in rows:
                    restoration.add(*row)
                if not isinstance(last := rows[-1][0], str):
                    # The file is torn; what is left of it is loaded from the files.
                    break
                # No text is between a place and this one: SQLite finds it without passing the places before.
                following = f"{last}\0"
                count += len(rows)
                yield Part(restoration.loaded, partial(min, 1.0, count / max(total, 1)))
        except (OSError, sqlite3.Error, UnicodeError) as error:
            self._note(error)
            return
        whole = replace(restoration.loaded(), complete=True)
        if whole.tree:
            self._held[source] = whole
            yield Part(lambda: whole, lambda: 1.0)

    def keeps(self, loaded: LoadedSource) -> bool:
        """Tell whether a source has as many skills as the index is worth."""
        return not loaded.main_only and len(loaded.contents) >= self._least

    def holds(self, loaded: LoadedSource) -> bool:
        """Tell whether the file has a source as it is; then nothing has to be saved."""
        return self._held.get(loaded.source) is loaded

    def save(self, loaded: LoadedSource, pause: Callable[[], None] | None = None) -> None:
        """Bring the entries of a source up to date with what was loaded since; `pause` is called often meanwhile.

        Its `renewed` must be of all loads since one that the file had. One that is not complete is a stage of a load:
        what is known by then is kept, and the next start loads the rest.
        """
        with self._writing:
            if loaded.complete or not self._has_failed:
                self._save(loaded, pause)

    def add(self, source: Source, rows: Iterable[Row]) -> None:
        """Add entries of a source, as `rows_below` makes them, to those that the file has."""
        with self._writing:
            if self._has_failed:
                return
            try:
                if not is_private(self.path):
                    make_private(self.path)
                with closing(self._connect()) as connection:
                    connection.executescript(_TABLES)
                    with connection:
                        connection.execute(_ADD, (self.key_of(source), time.time()))
                        number = self._number(connection, source)
                        connection.executemany(_WRITE, [(number, *row) for row in rows])
            except (OSError, sqlite3.Error, UnicodeError) as error:
                self._note(error)

    def hold(self, loaded: LoadedSource) -> None:
        """Note that all entries of a source were added as they are."""
        if not self._has_failed:
            self._held[loaded.source] = loaded

    def _save(self, loaded: LoadedSource, pause: Callable[[], None] | None) -> None:
        source = loaded.source
        before = self._held.get(source)
        if before is loaded or loaded.main_only or (before is None and not self.keeps(loaded)):
            return
        try:
            if not is_private(self.path):
                before = None
                make_private(self.path)
            with closing(self._connect()) as connection:
                connection.executescript(_TABLES)
                self._write(connection, before, loaded, pause)
        except (OSError, sqlite3.Error, UnicodeError) as error:
            self._note(error)
        else:
            self._held[source] = loaded
            if before is not None:
                places = loaded.renewed or [*before.contents]
                gone = [before.contents.get(place) for place in places]
                before = None
                while gone:
                    # Often the last that have them. All at once, they would hold up requests while they are freed.
                    gone.pop()

    def state(self) -> IndexState | None:
        """Return what the file has; None if there is none, or none that is used."""
        try:
            if not is_private(self.path):
                return None
            size = self.path.stat().st_size
        except OSError:
            return None
        try:
            with closing(self._connect()) as connection:
                (count,) = connection.execute("SELECT count(*) FROM entries").fetchone()
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
        from skills_core.loading.records import encoded  # noqa: PLC0415 - few users have an index

        now = time.time()
        with connection:
            for forget in _FORGET:
                connection.execute(forget, (now - _KEPT_SECONDS,))
            connection.execute(_ADD, (self.key_of(loaded.source), now))
            number = self._number(connection, loaded.source)
            if before is None:
                connection.execute("DELETE FROM entries WHERE source = ?", (number,))
        changed = [each for each in _differences(before, loaded) if _is_text(each[0])]
        for start in range(0, len(changed), _BATCH):
            if pause is not None:
                pause()
            batch = changed[start : start + _BATCH]
            records = [(place, encoded(loaded, folders)) for place, folders in batch]
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
            _check_format(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _note(self, error: Exception) -> None:
        """Throw a damaged file away, and log the first failure."""
        self._held.clear()
        if isinstance(error, sqlite3.DatabaseError):
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code in _DAMAGED:
                for suffix in ("", "-journal", "-wal", "-shm"):
                    with suppress(OSError):
                        Path(f"{self.path}{suffix}").unlink()
        if not self._has_failed:
            self._has_failed = True
            message = "the index of skills is not used, so a start reads all files: %s: %s"
            logger.info(message, self.path, one_line(str(error)))

    def _number(self, connection: sqlite3.Connection, source: Source) -> int:
        """Return the number of a source in the file; -1 if it has none."""
        row = connection.execute("SELECT id FROM sources WHERE key = ?", (self.key_of(source),)).fetchone()
        return int(row[0]) if row else -1

    def key_of(self, source: Source) -> str:
        """Return the key of a source: it differs if anything differs that decides how its files are read."""
        from msgspec import json  # noqa: PLC0415 - few users have an index

        options = json.encode(source, enc_hook=str, order="deterministic")
        return hashlib.sha256(b"\0".join((options, self._program.encode(), _modules()))).hexdigest()


def rows_below(loaded: LoadedSource, folders: Iterable[str]) -> list[Row]:
    """Return the entries of a source that are not above `folders`, as a file has them, those above others first."""
    from skills_core.loading.records import encoded  # noqa: PLC0415 - few users have an index

    above = enclosing(map(parent, folders))
    places = [each for each in _differences(None, loaded) if each[0] not in above and _is_text(each[0])]
    records = ((place, encoded(loaded, inside)) for place, inside in sorted(places))
    return [(place, zlib.crc32(record), record) for place, record in records if record]


def _is_text(place: str) -> bool:
    """Tell whether a path is not one of bytes, which SQLite cannot hold as text."""
    try:
        place.encode()
    except UnicodeError:
        return False
    return True


def _check_format(connection: sqlite3.Connection) -> None:
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found not in {0, _FORMAT}:
        raise sqlite3.DatabaseError("another version of the format")


@cache
def _modules() -> bytes:
    """Return what tells apart the copies of this program that read files: Python, the parser, and its own modules."""
    found = [sys.version, yaml.__version__]
    core = Path(__file__).parents[1]
    for folder in (core, *(core / name for name in ("disk", "format", "loading", "skills"))):
        for path in sorted(folder.glob("*.py")):
            status = path.stat()
            found.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return "\0".join(found).encode("utf-8", "surrogateescape")


def _differences(before: LoadedSource | None, loaded: LoadedSource) -> Iterator[tuple[str, list[str]]]:
    """Yield the entries that are to be written, each with the folders in it; one without folders is gone."""
    known = before or LoadedSource(loaded.source, Tree())
    if before is None:
        waiting = {*loaded.tree}
    else:
        waiting = set(_changes(before, loaded) if loaded.renewed is None else loaded.renewed)
    now, then = _Entries(loaded), _Entries(known)
    seen, done = set[str](), set[str]()
    while waiting:
        place = waiting.pop()
        seen.add(place)
        folder = place if place in loaded.tree or place in known.tree else parent(place)
        for entry in {now.entry_of(folder), then.entry_of(folder)} - done:
            done.add(entry)
            folders, former = now.folders_of(entry), then.folders_of(entry)
            if (entry in loaded.contents) is not (entry in known.contents):
                # What was in one entry is now in several, or the other way round. The entry of an unfinished folder has
                # nothing of what is below it.
                below = folders if entry in loaded.contents else _below(loaded.tree, entry)
                waiting.update(each for each in (*below, *former) if each not in seen)
            if folders != former or any(_differs(known, loaded, each) for each in folders):
                yield entry, folders


def _changes(before: LoadedSource, loaded: LoadedSource) -> Iterator[str]:
    """Yield the folders and places whose listings, contents or texts are not as before."""
    yield from loaded.tree.differing(before.tree)
    for now, then in ((loaded.contents, before.contents), (loaded.texts, before.texts)):
        yield from now.keys() ^ then.keys()
        yield from (place for place, each in now.items() if then.get(place, each) is not each)


class _Entries:
    """Which folders of a source are in which entry; a first load asks for each folder several times."""

    def __init__(self, loaded: LoadedSource) -> None:
        self._loaded = loaded
        self._found = {"": ""}

    def entry_of(self, folder: str) -> str:
        """Return the place of the entry with a folder: the outermost skill around it, or else the folder itself."""
        found = self._found.get(folder)
        if found is None:
            above = self.entry_of(parent(folder))
            found = self._found[folder] = above if above in self._loaded.contents else folder
        return found

    def folders_of(self, place: str) -> list[str]:
        """Return the folders of an entry, the one that holds the others first; none if there is no such entry."""
        if place not in self._loaded.tree or self.entry_of(place) != place:
            return []
        return _below(self._loaded.tree, place) if place in self._loaded.contents else [place]


def _below(tree: Tree, folder: str) -> list[str]:
    """Return a folder and all below it, each after the one that holds it; none if it is not in the tree."""
    if (branch := tree.branches.get(folder)) is not None:
        return [folder, *[join(folder, each) for each in branch.folder_names]]
    found = [folder] if folder in tree else []
    # The list grows meanwhile.
    for each in found:
        found += [below for name in tree[each].folders if (below := join(each, name)) in tree]
    return found


def _differs(before: LoadedSource, loaded: LoadedSource, folder: str) -> bool:
    """Tell whether a folder, the skill of it, or a single file in it is not the same object as before."""
    listing = loaded.tree[folder]
    if listing != before.tree.get(folder) or loaded.contents.get(folder) is not before.contents.get(folder):
        return True
    places = [join(folder, name) for name in listing.file_names]
    return any(
        loaded.documents.get(place) is not before.documents.get(place)
        or loaded.texts.get(place) is not before.texts.get(place)
        for place in places
    )
