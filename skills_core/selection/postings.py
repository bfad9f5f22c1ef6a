"""Which texts contain a word, in which fields and how often: an inverted index in SQLite, in memory or in a file.

A content is indexed once, under a key that is a digest of its texts, and has a row number that is never used again. The
postings of a stem are its rows, in blocks of `BLOCK` rows, each in the order of the rows. A content that no skill has
any more stays: it may come back, and whoever searches names the rows that count. So one index serves searches over
different skills, whose scores do not depend on what the others hold.

Processes share a file: each adds what it misses, in transactions that look first whether another has added it. The file
is only a cache. If it cannot be read or written, or is damaged, the index goes on in memory, without what was in it:
`generation` changes, and whoever searches adds its texts again.
"""

from __future__ import annotations

import logging
import sqlite3
import sys
import weakref
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import NamedTuple, TypeVar

from skills_core.diagnostics import one_line
from skills_core.selection.fulltext import Stems, words_of

logger = logging.getLogger(__name__)

BLOCK = 1024
"""Rows of one block: what an added content writes anew of the postings of each of its words."""

# The weight of each field in BM25, before saturation; tuned on the first half of the labelled queries.
_WEIGHTS = (10, 8, 5, 1)

_BITS = (1, 2, 4, 8)
# Of the fields.

_MAX_COUNT = 0xFFFF

_VERSION = f"1 {sys.byteorder}"
# Of the tables and of what makes words and stems; a file of another version is emptied.

_CACHED = 2_000_000
# Postings that are kept in memory, of 5 bytes each: common words are in most queries.

_TABLES = (
    "CREATE TABLE IF NOT EXISTS about(name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS contents(row INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB UNIQUE, length INTEGER)",
    """CREATE TABLE IF NOT EXISTS postings(
        stem TEXT, block INTEGER, rows BLOB, counts BLOB, fields BLOB, PRIMARY KEY(stem, block)) WITHOUT ROWID""",
)
_APPEND = """INSERT INTO postings VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    rows = CAST(rows || excluded.rows AS BLOB), counts = CAST(counts || excluded.counts AS BLOB),
    fields = CAST(fields || excluded.fields AS BLOB)"""

_Result = TypeVar("_Result")


class Block(NamedTuple):
    """Postings of one stem: `rows`, less `first`, with the weighted count of the stem in each and a bit per field."""

    first: int
    rows: array[int]
    counts: array[int]
    fields: array[int]


class CountedTexts(NamedTuple):
    """The texts of one content: their number of words and, by stem, the weighted count and a bit per field."""

    key: bytes
    length: int
    counts: Mapping[str, int]
    fields: Mapping[str, int]


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
        self._cache: dict[str, list[Block]] = {}
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

    def counted(self, key: bytes, texts: Iterable[str]) -> CountedTexts:
        """Count the words of texts in the order of `fulltext.FIELDS`, for `add`."""
        words = [Counter(words_of(text)) for text in texts]
        stems = self.stems.known(set[str]().union(*words))
        counts: dict[str, int] = {}
        fields: dict[str, int] = {}
        for bit, weight, each in zip(_BITS, _WEIGHTS, words, strict=True):
            for word, times in each.items():
                stem = stems[word]
                if stem is None:
                    continue
                counts[stem] = counts.get(stem, 0) + weight * times
                fields[stem] = fields.get(stem, 0) | bit
        length = sum(each.total() for each in words)
        if length * max(_WEIGHTS) > _MAX_COUNT:
            counts = {stem: min(count, _MAX_COUNT) for stem, count in counts.items()}
        return CountedTexts(key, length, counts, fields)

    def add(self, counted: Sequence[CountedTexts]) -> list[int]:
        """Index texts that are not indexed yet; return their rows."""
        return self._safely(lambda: self._added(counted), lambda: self._added(counted))

    def postings(self, stem: str) -> list[Block]:
        """Return the postings of a stem, which may name rows that the caller does not know."""
        found = self._cache.get(stem)
        return self._safely(lambda: self._read(stem), list) if found is None else found

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
                logger.warning("the search index goes on in memory: %s: %s", one_line(str(self._path)), error)
                self._path = None
                self._db.close()
                self._db = _connected(self, None)
                self._forget()
                return otherwise()

    def _opened(self, path: Path | None) -> sqlite3.Connection:
        try:
            return _connected(self, path)
        except sqlite3.DatabaseError as error:
            if path is None:
                raise
            logger.warning("the search index is kept in memory: %s: %s", one_line(str(path)), error)
            self._path = None
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
        if row >= len(self.lengths):
            self.lengths.extend([0] * (row + 1 - len(self.lengths)))
        self.lengths[row] = length
        return row

    def _added(self, counted: Sequence[CountedTexts]) -> list[int]:
        coming: dict[int, dict[str, Block]] = {}
        with self._transaction():
            self._follow()
            rows = self._found([key for key, *_ in counted])
            for at, (key, length, counts, fields) in enumerate(counted):
                if rows[at]:
                    continue
                made = self._db.execute("INSERT INTO contents(key, length) VALUES (?, ?)", (key, length)).lastrowid
                rows[at] = row = self._noted(made or 0, length)
                number, low = divmod(row, BLOCK)
                blocks = coming.setdefault(number, {})
                for (stem, count), bits in zip(counts.items(), fields.values(), strict=True):
                    block = blocks.get(stem)
                    if block is None:
                        block = blocks[stem] = Block(number, array("H"), array("H"), array("B"))
                    block.rows.append(low)
                    block.counts.append(count)
                    block.fields.append(bits)
            for blocks in coming.values():
                self._db.executemany(_APPEND, ((stem, *block) for stem, block in sorted(blocks.items())))
        self._cache, self._cached = {}, 0
        return rows

    def _read(self, stem: str) -> list[Block]:
        select = "SELECT block, rows, counts, fields FROM postings WHERE stem = ? ORDER BY block"
        blocks = [
            Block(number * BLOCK, array("H", rows), array("H", counts), array("B", fields))
            for number, rows, counts, fields in self._db.execute(select, (stem,))
        ]
        size = sum(len(block.rows) for block in blocks)
        if self._cached + size > _CACHED:
            self._cache, self._cached = {}, 0
        self._cache[stem] = blocks
        self._cached += size
        return blocks

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
            self._db.execute("DELETE FROM postings")
            self._db.execute("DELETE FROM contents")
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
    database = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False, isolation_level=None)
    weakref.finalize(owner, database.close)
    if path is not None:
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "cache_size = -8000"):
            database.execute(f"PRAGMA {pragma}")
    database.execute("BEGIN IMMEDIATE")
    for table in _TABLES:
        database.execute(table)
    known = database.execute("SELECT value FROM about WHERE name = 'version'").fetchone()
    if known != (_VERSION,):
        database.execute("DELETE FROM postings")
        database.execute("DELETE FROM contents")
        database.execute("INSERT OR REPLACE INTO about VALUES ('version', ?)", (_VERSION,))
    database.execute("COMMIT")
    return database
