"""An in-memory full-text index of SQLite's FTS5: which rows contain a word, and with what weight.

Works on rows of texts and knows nothing of skills. An index has one connection; callers that share it between threads
hold a lock.
"""

from __future__ import annotations

import sqlite3
import weakref
from contextlib import contextmanager
from math import log
from threading import Lock
from typing import TYPE_CHECKING

from skills_core.selection.words import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


# The weight of each field in BM25, before saturation; tuned on the first half of the labelled queries.
_WEIGHTS = (10.0, 8.0, 5.0, 1.0)

_COLUMNS = ", ".join(FIELDS)
_TOKENIZE = "tokenize='porter unicode61'"
_TABLES = (
    # Contentless: the texts are in memory already.
    f"CREATE VIRTUAL TABLE texts USING fts5({_COLUMNS}, content='', {_TOKENIZE})",
    "CREATE VIRTUAL TABLE terms USING fts5vocab(texts, row)",
)
_STEM_TABLES = (
    f"CREATE VIRTUAL TABLE probe USING fts5(word, content='', {_TOKENIZE})",
    "CREATE VIRTUAL TABLE stems USING fts5vocab(probe, instance)",
)

MAX_STEMS = 50_000
"""Maximum number of cached stems; queries bring new words without end."""

_SATURATIONS = f"SELECT rowid, -bm25(texts, {', '.join(map(str, _WEIGHTS))}) / ? FROM texts WHERE texts MATCH ?"  # noqa: S608


class Stems:
    """A cache of word stems, as the index computes them. Threads may share it and only wait for unknown words."""

    def __init__(self) -> None:
        """Start with an empty cache.

        Raises:
            sqlite3.Error: this build of SQLite has no FTS5.
        """
        self._db = _connect(self, _STEM_TABLES)
        self._lock = Lock()
        self._known: dict[str, str | None] = {}

    def of(self, words: Iterable[str]) -> dict[str, str]:
        """Return the stem of each word that has one, in the order of the words."""
        listed = list(dict.fromkeys(words))
        known = self._known
        new = [word for word in listed if word not in known]
        if new:
            known = {**{word: known[word] for word in listed if word in known}, **self._found(new)}
        return {word: stem for word in listed if (stem := known[word]) is not None}

    def _found(self, words: list[str]) -> dict[str, str | None]:
        found: dict[str, str | None] = dict.fromkeys(words)
        with self._lock:
            self._db.execute("BEGIN")
            try:
                self._db.executemany("INSERT INTO probe(rowid, word) VALUES (?, ?)", enumerate(words))
                rows = self._db.execute("SELECT doc, term FROM stems").fetchall()
            finally:
                self._db.execute("ROLLBACK")
            found |= {words[row]: term for row, term in sorted(rows)}
            if len(self._known) >= MAX_STEMS:
                # Replaced rather than cleared, because another thread may be reading it.
                self._known = {}
            self._known |= found
        return found


class FullTextIndex:
    """Numbered rows of four texts each."""

    def __init__(self, keep: int = 0) -> None:
        """Start without rows; keep up to `keep` rows that words were found in, for further searches for these words.

        Raises:
            sqlite3.Error: this build of SQLite has no FTS5.
        """
        self._db = _connect(self, _TABLES)
        self._counts: dict[str, int] = {}
        self._keep = keep
        self._found: dict[str, list[tuple[int, float]]] = {}
        self._kept = 0

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all changes of the block, or none if it raises."""
        self._counts.clear()
        self._found, self._kept = {}, 0
        self._db.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def insert(self, row: int, texts: Sequence[str]) -> None:
        """Add a row with texts in the order of `FIELDS`."""
        self._db.execute(f"INSERT INTO texts(rowid, {_COLUMNS}) VALUES (?, ?, ?, ?, ?)", (row, *texts))  # noqa: S608

    def delete(self, row: int, texts: Sequence[str]) -> None:
        """Delete a row; `texts` must equal those it was added with, because a contentless index does not keep them."""
        command = f"INSERT INTO texts(texts, rowid, {_COLUMNS}) VALUES ('delete', ?, ?, ?, ?, ?)"  # noqa: S608
        self._db.execute(command, (row, *texts))

    def counts(self, stems: Iterable[str]) -> dict[str, int]:
        """Return the number of rows that contain each stem."""
        return {stem: self._counts.get(stem) or self._count(stem) for stem in stems}

    def _count(self, stem: str) -> int:
        found = self._db.execute("SELECT doc FROM terms WHERE term = ?", (stem,)).fetchone()
        if found is None:
            return 0
        # Cached until the next change: counting the rows of a common word is the slowest part of a search.
        self._counts[stem] = found[0]
        return int(found[0])

    def saturations(self, word: str, count: int, total: int) -> list[tuple[int, float]]:
        """Return the rows that contain the word, unordered, with BM25's saturated term frequency for each.

        `count` of the `total` rows contain the word.
        """
        if (known := self._found.get(word)) is not None:
            return known
        # Quoted, so that a word is never taken for an operator of the query language.
        query = '"' + word.replace('"', '""') + '"'
        # FTS5's inverse document frequency, which is divided out: it is zero for a word in half of the rows.
        rarity = max(log((total - count + 0.5) / (count + 0.5)), 1e-6)
        found: list[tuple[int, float]] = self._db.execute(_SATURATIONS, (rarity, query)).fetchall()
        if self._keep:
            if self._kept + len(found) > self._keep:
                self._found, self._kept = {}, 0
            self._found[word] = found
            self._kept += len(found)
        return found


def _connect(owner: object, tables: Iterable[str]) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    weakref.finalize(owner, database.close)
    for table in tables:
        database.execute(table)
    return database
