"""Which texts contain a word, in which fields and how often: an index over SQLite's FTS5, in memory or in a file.

A content is indexed once, under a key that is a digest of its texts, and has a row number that is never used again. A
content that no skill has any more stays: it may come back, and whoever searches knows which rows count. So one index
serves searches over different skills, whose scores do not depend on what the others hold.

Processes share a file: each adds what it misses, in transactions that look first whether another has added it. The file
is only a cache. If it cannot be read or written, or is damaged, the index goes on in memory, without what was in it:
`generation` changes, and whoever searches adds its texts again.
"""

from __future__ import annotations

import logging
import sqlite3
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import NamedTuple, TypeVar

from skills_core.diagnostics import one_line
from skills_core.disk.files import make_private
from skills_core.selection.fulltext import FIELDS, Stems
from skills_core.selection.twins import checked_signature

logger = logging.getLogger(__name__)

# The weight of each field in BM25, before saturation; tuned on the first half of the labelled queries.
_WEIGHTS = dict(zip(FIELDS, (10, 8, 5, 1), strict=True))

_BITS = {field: 1 << number for number, field in enumerate(FIELDS)}

_VERSION = "3"
# Of the tables and of what makes words, stems and signatures; a file of another version is emptied.

_MAX_ROW = 50_000_000
# What a damaged file says beyond must not fill the memory.

_CACHED = 4_000_000
# Postings that are kept in memory, of 9 bytes each: common words are in most queries.

_BUSY_SECONDS = 2.0

_COLUMNS = ", ".join(FIELDS)
_TABLES = (
    "CREATE TABLE IF NOT EXISTS about(name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS contents(row INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB UNIQUE, length INTEGER)",
    # Apart from the contents, of which the keys are read most.
    "CREATE TABLE IF NOT EXISTS signatures(row INTEGER PRIMARY KEY, signature BLOB)",
    # Contentless: the texts are those of the files.
    f"CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5({_COLUMNS}, content='', tokenize='porter unicode61')",
)
_ADD = f"INSERT INTO texts(rowid, {_COLUMNS}) VALUES (?, ?, ?, ?, ?)"  # noqa: S608

_Result = TypeVar("_Result")


class Postings(NamedTuple):
    """The rows that have a stem, in order, with its weighted count in each, and a bit for each field that has it."""

    rows: array[int]
    counts: array[int]
    fields: array[int]


class TextIndex:
    """An inverted index of texts, which threads may share."""

    def __init__(self, path: Path | None = None) -> None:
        """Open the index in a file, which is made if it is missing; without a path it is in memory.

        Raises:
            sqlite3.Error: this build of SQLite has no FTS5, whose stems the index uses.
        """
        self.stems = Stems()
        self.generation = 0
        self.lengths = array("I", [0])
        self._lock = RLock()
        self._cache: dict[str, Postings] = {}
        self._cached = 0
        self._path = path
        self._db = self._opened(path)
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
        return self._safely(lambda: self._found(keys), lambda: [0] * len(keys))

    def add(self, texts: Mapping[bytes, Sequence[str]], signatures: Mapping[bytes, bytes] | None = None) -> list[int]:
        """Index texts that are not indexed yet, by key and in the order of `fulltext.FIELDS`; return their rows.

        `signatures` are those of `twins.signature`, by key.
        """
        given = signatures or {}
        return self._safely(lambda: self._added(texts, given), lambda: self._added(texts, given))

    def signatures_of(self, rows: Sequence[int]) -> list[bytes | None]:
        """Return the signature of each row; None for those for which none has been made."""
        return self._safely(lambda: self._signatures(rows), lambda: [None] * len(rows))

    def _signatures(self, rows: Sequence[int]) -> list[bytes | None]:
        read = "SELECT signature FROM signatures WHERE row = ?"
        found = (self._db.execute(read, (row,)).fetchone() for row in rows)
        return [checked_signature(one[0]) if one else None for one in found]

    def sign(self, signatures: Mapping[int, bytes]) -> None:
        """Keep signatures by row."""
        self._safely(lambda: self._signed(signatures), lambda: None)

    def _signed(self, signatures: Mapping[int, bytes]) -> None:
        with self._transaction():
            self._db.executemany("INSERT OR REPLACE INTO signatures VALUES (?, ?)", signatures.items())

    def postings(self, stem: str) -> Postings:
        """Return the postings of a stem, also those of rows that the caller does not know."""
        found = self._cache.get(stem)
        return self._safely(lambda: self._read(stem), _no_postings) if found is None else found

    def follow(self) -> int:
        """Return the generation, after a look whether another process has emptied the file."""
        return self._safely(self._follow, lambda: self.generation)

    def clear(self) -> None:
        """Forget all texts, because most of them are of no skill any more."""
        self._safely(self._emptied, lambda: None)

    def _safely(self, act: Callable[[], _Result], otherwise: Callable[[], _Result]) -> _Result:
        """Return what `act` returns; if the file fails, go on in memory, where `otherwise` is called."""
        with self._lock:
            try:
                return act()
            except (sqlite3.Error, ValueError, OverflowError) as error:
                if self._path is None:
                    raise
                self._db.close()
                self._db = self._in_memory(self._path, error)
                self._forget()
                return otherwise()

    def _opened(self, path: Path | None) -> sqlite3.Connection:
        if path is not None:
            try:
                make_private(path)
                return _connected(self, path)
            except (OSError, sqlite3.Error) as error:
                return self._in_memory(path, error)
        return _connected(self, None)

    def _in_memory(self, path: Path, error: Exception) -> sqlite3.Connection:
        """Give up the file, which is removed if it is damaged."""
        logger.warning("the search index is kept in memory: %s: %s", one_line(str(path)), one_line(str(error)))
        self._path = None
        if not isinstance(error, OSError | sqlite3.OperationalError):
            for suffix in ("", "-wal", "-shm"):
                with suppress(OSError):
                    Path(f"{path}{suffix}").unlink()
        return _connected(self, None)

    def _found(self, keys: Iterable[bytes]) -> list[int]:
        rows: list[int] = []
        for key in keys:
            found = self._db.execute("SELECT row, length FROM contents WHERE key = ?", (key,)).fetchone()
            rows.append(0 if found is None else self._noted(*found))
        if any(rows):
            # Another process may have added postings.
            self._cache, self._cached = {}, 0
        return rows

    def _noted(self, row: int, length: int) -> int:
        if not 0 < row <= _MAX_ROW:
            raise ValueError(f"row {row}")
        if row >= len(self.lengths):
            self.lengths.extend([0] * (row + 1 - len(self.lengths)))
        self.lengths[row] = length
        return row

    def _added(self, texts: Mapping[bytes, Sequence[str]], signatures: Mapping[bytes, bytes]) -> list[int]:
        with self._transaction():
            self._follow()
            rows = self._found(texts)
            for at, (key, fields) in enumerate(texts.items()):
                if rows[at]:
                    continue
                row = self._db.execute("INSERT INTO contents(key) VALUES (?)", (key,)).lastrowid or 0
                self._db.execute(_ADD, (row, *fields))
                if (signed := signatures.get(key)) is not None:
                    self._db.execute("INSERT OR REPLACE INTO signatures VALUES (?, ?)", (row, signed))
                (sizes,) = self._db.execute("SELECT sz FROM texts_docsize WHERE id = ?", (row,)).fetchone()
                length = sum(_numbers(sizes))
                self._db.execute("UPDATE contents SET length = ? WHERE row = ?", (length, row))
                rows[at] = self._noted(row, length)
        self._cache, self._cached = {}, 0
        return rows

    def _read(self, stem: str) -> Postings:
        found = _no_postings()
        rows, counts, fields = found
        last, known = 0, len(self.lengths)
        for row, field in self._db.execute("SELECT doc, col FROM instances WHERE term = ?", (stem,)):
            if row != last:
                if row >= known:
                    # Another process has just added it.
                    break
                rows.append(row)
                counts.append(_WEIGHTS[field])
                fields.append(_BITS[field])
                last = row
            else:
                counts[-1] += _WEIGHTS[field]
                fields[-1] |= _BITS[field]
        while self._cache and self._cached + len(rows) > _CACHED:
            self._cached -= len(self._cache.pop(next(iter(self._cache))).rows)
        self._cache[stem] = found
        self._cached += len(rows)
        return found

    def _generation_in_file(self) -> str:
        (found,) = self._db.execute("SELECT value FROM about WHERE name = 'generation'").fetchone() or ("0",)
        return str(found)

    def _follow(self) -> int:
        if self._path is not None and (written := self._generation_in_file()) != self._written:
            self._forget()
            self._written = written
        return self.generation

    def _emptied(self) -> None:
        with self._transaction():
            self._follow()
            self._written = str(int(self._written) + 1)
            self._db.execute("INSERT INTO texts(texts) VALUES ('delete-all')")
            self._db.execute("DELETE FROM contents")
            self._db.execute("DELETE FROM signatures")
            self._db.execute("INSERT OR REPLACE INTO about VALUES ('generation', ?)", (self._written,))
        self._forget()

    def _forget(self) -> None:
        self._cache, self._cached = {}, 0
        self.generation += 1

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


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
    for table in _TABLES:
        database.execute(table)
    known = database.execute("SELECT value FROM about WHERE name = 'version'").fetchone()
    if known != (_VERSION,):
        database.execute("INSERT INTO texts(texts) VALUES ('delete-all')")
        database.execute("DELETE FROM contents")
        database.execute("DELETE FROM signatures")
        database.execute("INSERT OR REPLACE INTO about VALUES ('version', ?)", (_VERSION,))
    database.execute("COMMIT")
    database.execute("CREATE VIRTUAL TABLE temp.instances USING fts5vocab(main, texts, instance)")
    return database


def _no_postings() -> Postings:
    return Postings(array("I"), array("I"), array("B"))


def _numbers(raw: bytes) -> Iterator[int]:
    """Yield the numbers of a text in SQLite's format, in which all bytes but the last of a number have the high bit."""
    number = 0
    for byte in raw:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004 - the high bit
            yield number
            number = 0
