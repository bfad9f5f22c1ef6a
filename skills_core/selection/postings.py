"""Which texts contain a word, in which fields and how often: an inverted index in SQLite, in memory or in a file.

A content is indexed once, under a key that is a digest of its texts, and has a row number that is never used again. A
content that no skill has any more stays: it may come back, and whoever searches knows which rows count. So one index
serves searches over different skills, whose scores do not depend on what the others hold.

Contents that come one after the other are a segment, which has the postings of each stem as arrays: to read a stem is
to join some arrays. What is added becomes a segment of its own. Once there are some that are not much larger, they
become one with it, so that there are few segments, and adding costs by what is added.

Processes share a file: each adds what it misses, in transactions that look first whether another has added it. The file
is only a cache. If it cannot be read or written, or is damaged, the index goes on in memory, without what was in it:
`generation` changes, and whoever searches adds its texts again.

What is added or looked up in a file has a connection and a lock of its own, so that searches go on meanwhile.
"""

from __future__ import annotations

import logging
import sqlite3
import sys
import weakref
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from zlib import crc32

from skills_core.diagnostics import one_line
from skills_core.disk.files import make_private
from skills_core.selection.fulltext import FIELDS, Stems
from skills_core.selection.twins import Bands, checked_signature

if TYPE_CHECKING:
    from skills_core.selection.fulltext import Pieces

logger = logging.getLogger(__name__)

# The weight of each field in BM25, before saturation; tuned on the first half of the labelled queries.
_WEIGHTS = (10, 8, 5, 1)

FIELD_BITS = len(FIELDS)
"""Low bits of a packed count, one for each field that has the stem."""

_BITS = (1 << FIELD_BITS) - 1
_MOST = 0xFFFF
# Packed counts have 16 bits: a higher count adds nothing to a score.

_VERSION = f"4 {sys.byteorder}"
# Of the tables and of what makes words, stems and signatures; a file of another version is emptied.

_MAX_ROW = 50_000_000
# What a damaged file says beyond must not fill the memory.

_SEGMENT, _JOINED = 2048, 4
# Most contents of a segment that is made of others, and how many it is made of at least. Of 100,000 contents, half the
# time of a search with new words is that of reading segments of 512; joining these costs a tenth of indexing.

_CACHED = 4_000_000
# Postings that are kept in memory, of 6 bytes each: common words are in most queries.

_BUSY_SECONDS = 2.0

_ABOUT = "CREATE TABLE IF NOT EXISTS about(name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID"
_TABLES = {
    "contents": "(row INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB UNIQUE, length INTEGER)",
    # Apart from the contents, of which the keys are read most.
    "signatures": "(row INTEGER PRIMARY KEY, signature BLOB)",
    # By its first row.
    "segments": "(first INTEGER PRIMARY KEY, contents INTEGER)",
    # The arrays of `Postings`, and their checksum.
    "postings": "(segment INTEGER, stem TEXT, rows BLOB, packed BLOB, checksum INTEGER, PRIMARY KEY(segment, stem)) "
    "WITHOUT ROWID",
}
_READ_STEM = (
    "SELECT rows, packed, checksum FROM segments CROSS JOIN postings "
    "ON segment = first AND stem = ? WHERE first < ? ORDER BY first"
)
_READ_SEGMENT = "SELECT stem, rows, packed, checksum FROM postings WHERE segment = ?"

_Result = TypeVar("_Result")

_FAILURES = sqlite3.Error, ValueError, OverflowError
# Of a file that cannot be used, or is damaged.


class Postings(NamedTuple):
    """The rows that have a stem, in order, and for each its weighted count, above the bits of the fields that have it.

    A count is `packed >> FIELD_BITS`; the lowest bit is that of the first field.
    """

    rows: array[int]
    packed: array[int]

    def extend(self, rows: bytes, packed: bytes, checksum: int) -> None:
        """Add what a file has.

        Raises:
            ValueError: it is damaged.
        """
        if crc32(packed, crc32(rows)) != checksum:
            raise ValueError("damaged postings")
        self.rows.frombytes(rows)
        self.packed.frombytes(packed)


class Counts(NamedTuple):
    """The number of words of a content, and its packed count of each stem."""

    length: int
    packed: Mapping[str, int]


class TextIndex:
    """An inverted index of texts, which threads may share.

    `bands` are those of the signatures that have been compared.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Open the index in a file, which is made if it is missing; without a path it is in memory.

        Raises:
            sqlite3.Error: this build of SQLite has no FTS5, whose stems the index uses.
        """
        self.stems = Stems()
        self.generation = 0
        self.bands = Bands()
        self.lengths = array("I", [0])
        # A thread that takes both takes `_lock` last. Searches take `_lock` alone, and no thread holds it for long.
        self._writing, self._lock = RLock(), RLock()
        self._cache: dict[str, Postings] = {}
        self._cached = 0
        self._path = path
        # The same connection, where the index is in memory.
        self._writer, self._db = self._opened(path)
        self._written = self._generation_in_file()

    def __len__(self) -> int:
        """How many contents are indexed, be they of a skill now or not."""
        return self._safely(self._size, lambda: 0)

    def _size(self) -> int:
        low, high = self._db.execute(
            "SELECT (SELECT min(row) FROM contents), (SELECT max(row) FROM contents)"
        ).fetchone()
        return 0 if low is None else high - low + 1

    def rows_of(self, keys: Sequence[bytes]) -> list[int]:
        """Return the row of each key; 0 if it is not indexed."""
        return self._beside_searches(lambda writer: self._noted(_found(writer, keys)))

    def count(self, contents: Sequence[Pieces]) -> list[Counts]:
        """Count the stems of contents, of several at once in less time. Any thread may call it."""
        stems = self.stems.known(set[str]().union(*chain.from_iterable(contents)))
        return [_counts(pieces, stems) for pieces in contents]

    def add(self, counts: Mapping[bytes, Counts], signatures: Mapping[bytes, bytes] | None = None) -> list[int]:
        """Index contents that are not indexed yet, by key; return their rows.

        `signatures` are those of `twins.signature`, by key.
        """
        return self._beside_searches(lambda writer: self._added(writer, counts, signatures or {}))

    def signatures_of(self, rows: Sequence[int]) -> list[bytes | None]:
        """Return the signature of each row; None for those for which none has been made."""
        return self._beside_searches(lambda writer: _signatures(writer, rows))

    def sign(self, signatures: Mapping[int, bytes]) -> None:
        """Keep signatures by row."""
        generation = self.generation

        def signed(writer: sqlite3.Connection) -> None:
            with _transaction(writer):
                if self._followed() == generation:
                    writer.executemany("INSERT OR REPLACE INTO signatures VALUES (?, ?)", signatures.items())

        self._beside_searches(signed)

    def postings(self, stem: str) -> Postings:
        """Return the postings of a stem, also those of rows that the caller does not know."""
        found = self._cache.get(stem)
        return self._safely(lambda: self._read(stem), _no_postings) if found is None else found

    def follow(self) -> int:
        """Return the generation, after a look whether another process has emptied the file."""
        return self._safely(self._followed, lambda: self.generation)

    def clear(self) -> None:
        """Forget all texts, because most of them are of no skill any more."""
        self._beside_searches(self._emptied)

    def _safely(self, act: Callable[[], _Result], otherwise: Callable[[], _Result]) -> _Result:
        """Return what `act` returns; if the file fails, go on in memory, where `otherwise` is called."""
        with self._lock:
            try:
                return act()
            except _FAILURES as error:
                self._give_up(error)
                return otherwise()

    def _beside_searches(self, act: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Return what `act` returns, which gets a connection; if the file fails, it is called again in memory.

        Searches go on meanwhile if the index is in a file. In memory they wait.
        """
        with self._writing:
            while (writer := self._writer) is not self._db:
                try:
                    result = act(writer)
                except _FAILURES as error:
                    with self._lock:
                        if self._writer is writer:
                            self._give_up(error)
                    continue
                # A search may have found the file damaged meanwhile.
                if self._writer is writer:
                    return result
            with self._lock:
                return act(self._db)

    def _give_up(self, error: Exception) -> None:
        """Go on in memory. Another thread may be using the connection that writes, which is closed with the index."""
        if self._path is None:
            raise error
        self._db.close()
        self._writer = self._db = self._in_memory(self._path, error)
        self._forget()

    def _opened(self, path: Path | None) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        """Return a connection that writes, and one that reads."""
        if path is not None:
            try:
                make_private(path)
                return _connected(self, path), _connected(self, path)
            except (OSError, sqlite3.Error) as error:
                found = self._in_memory(path, error)
        else:
            found = _connected(self, None)
        return found, found

    def _in_memory(self, path: Path, error: Exception) -> sqlite3.Connection:
        """Give up the file, which is removed if it is damaged."""
        logger.warning("the search index is kept in memory: %s: %s", one_line(str(path)), one_line(str(error)))
        self._path = None
        if not isinstance(error, OSError | sqlite3.OperationalError):
            for suffix in ("", "-wal", "-shm"):
                with suppress(OSError):
                    Path(f"{path}{suffix}").unlink()
        return _connected(self, None)

    def _noted(self, found: Iterable[tuple[int, int]]) -> list[int]:
        """Note the lengths of contents by row, and return the rows; 0 is of none."""
        with self._lock:
            rows: list[int] = []
            for row, length in found:
                if not 0 <= row <= _MAX_ROW:
                    raise ValueError(f"row {row}")
                if row >= len(self.lengths):
                    self.lengths.extend([0] * (row + 1 - len(self.lengths)))
                self.lengths[row] = length
                rows.append(row)
            if any(rows):
                # Another process may have added postings.
                self._cache, self._cached = {}, 0
            return rows

    def _added(
        self, writer: sqlite3.Connection, counts: Mapping[bytes, Counts], signatures: Mapping[bytes, bytes]
    ) -> list[int]:
        with _transaction(writer):
            self._followed()
            found = _found(writer, counts)
            new: dict[int, Mapping[str, int]] = {}
            for at, (key, (length, packed)) in enumerate(counts.items()):
                if found[at][0]:
                    continue
                added = "INSERT INTO contents(key, length) VALUES (?, ?)"
                row = writer.execute(added, (key, length)).lastrowid or 0
                if (signed := signatures.get(key)) is not None:
                    writer.execute("INSERT OR REPLACE INTO signatures VALUES (?, ?)", (row, signed))
                found[at] = row, length
                new[row] = packed
            if new:
                _add_segment(writer, new)
        return self._noted(found)

    def _read(self, stem: str) -> Postings:
        found = _no_postings()
        known = len(self.lengths)
        for stored in self._db.execute(_READ_STEM, (stem, known)):
            found.extend(*stored)
        # Another process may have added more.
        for each in found:
            del each[bisect_left(found.rows, known) :]
        while self._cache and self._cached + len(found.rows) > _CACHED:
            self._cached -= len(self._cache.pop(next(iter(self._cache))).rows)
        self._cache[stem] = found
        self._cached += len(found.rows)
        return found

    def _generation_in_file(self) -> str:
        (found,) = self._db.execute("SELECT value FROM about WHERE name = 'generation'").fetchone() or ("0",)
        return str(found)

    def _followed(self) -> int:
        with self._lock:
            if self._path is not None and (written := self._generation_in_file()) != self._written:
                self._forget()
                self._written = written
            return self.generation

    def _emptied(self, writer: sqlite3.Connection) -> None:
        with _transaction(writer):
            self._followed()
            written = str(int(self._written) + 1)
            _empty(writer, written)
        with self._lock:
            self._written = written
            self._forget()

    def _forget(self) -> None:
        self._cache, self._cached = {}, 0
        self.bands = Bands()
        self.generation += 1


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _counts(fields: Pieces, stems: Mapping[str, Sequence[str]]) -> Counts:
    length, packed = 0, dict[str, int]()
    # The innermost loop of indexing.
    known = packed.get
    for number, (pieces, weight) in enumerate(zip(fields, _WEIGHTS, strict=True)):
        one, bit = weight << FIELD_BITS, 1 << number
        for piece, times in pieces.items():
            for stem in stems[piece]:
                length += times
                packed[stem] = known(stem, 0) + one * times | bit
    if packed and max(packed.values()) > _MOST:
        packed = {stem: min(count, _MOST & ~_BITS | count & _BITS) for stem, count in packed.items()}
    return Counts(length, packed)


def _found(database: sqlite3.Connection, keys: Iterable[bytes]) -> list[tuple[int, int]]:
    """Return the row and the length of each key; zeros if it is not indexed."""
    read = "SELECT row, length FROM contents WHERE key = ?"
    return [database.execute(read, (key,)).fetchone() or (0, 0) for key in keys]


def _signatures(database: sqlite3.Connection, rows: Iterable[int]) -> list[bytes | None]:
    read = "SELECT signature FROM signatures WHERE row = ?"
    found = (database.execute(read, (row,)).fetchone() for row in rows)
    return [checked_signature(one[0]) if one else None for one in found]


def _add_segment(database: sqlite3.Connection, contents: Mapping[int, Mapping[str, int]]) -> None:
    """Write new contents, by row, as a segment, which may take the place of those before it."""
    first, size, merged = _joined(database, min(contents), len(contents))
    found: dict[str, Postings] = defaultdict(_no_postings)
    for segment in merged:
        for stem, *stored in database.execute(_READ_SEGMENT, (segment,)):
            found[stem].extend(*stored)
        database.execute("DELETE FROM postings WHERE segment = ?", (segment,))
        database.execute("DELETE FROM segments WHERE first = ?", (segment,))
    for row, packed in contents.items():
        for stem, count in packed.items():
            rows, counts = found[stem]
            rows.append(row)
            counts.append(count)
    database.execute("INSERT INTO segments VALUES (?, ?)", (first, size))
    stored = ((stem, rows.tobytes(), counts.tobytes()) for stem, (rows, counts) in sorted(found.items()))
    database.executemany(
        "INSERT INTO postings VALUES (?, ?, ?, ?, ?)",
        ((first, stem, rows, counts, crc32(counts, crc32(rows))) for stem, rows, counts in stored),
    )


def _joined(database: sqlite3.Connection, first: int, size: int) -> tuple[int, int, list[int]]:
    """Return the first row and the size of a segment to write, and the segments whose place it takes, in order."""
    merged: list[int] = []
    several: list[int] = []
    begin, total = first, size
    for before, having in database.execute("SELECT first, contents FROM segments ORDER BY first DESC"):
        if having >= _JOINED * size or having + total > _SEGMENT:
            break
        several.append(before)
        begin, total = before, total + having
        if len(several) >= _JOINED - 1:
            merged += several
            several = []
            first, size = begin, total
    return first, size, merged[::-1]


def _connected(owner: object, path: Path | None) -> sqlite3.Connection:
    """Return a connection to a database with the tables."""
    database = sqlite3.connect(
        ":memory:" if path is None else path, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None
    )
    weakref.finalize(owner, database.close)
    if path is not None:
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "cache_size = -8000"):
            database.execute(f"PRAGMA {pragma}")
    database.execute("BEGIN IMMEDIATE")
    database.execute(_ABOUT)
    existing = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    for table, columns in _TABLES.items():
        database.execute(f"CREATE TABLE IF NOT EXISTS {table}{columns}")
    about: dict[str, str] = dict(database.execute("SELECT name, value FROM about"))
    if about.get("version") != _VERSION or not existing.issuperset(_TABLES):
        # Up to version 2, a table of FTS5.
        database.execute("DROP TABLE IF EXISTS texts")
        _empty(database, str(int(about.get("generation", 0)) + 1))
        database.execute("INSERT OR REPLACE INTO about VALUES ('version', ?)", (_VERSION,))
    database.execute("COMMIT")
    return database


def _empty(database: sqlite3.Connection, generation: str) -> None:
    """Delete all contents; other processes see that by the generation."""
    for table in _TABLES:
        database.execute(f"DELETE FROM {table}")  # noqa: S608
    database.execute("INSERT OR REPLACE INTO about VALUES ('generation', ?)", (generation,))


def _no_postings() -> Postings:
    return Postings(array("I"), array("H"))
