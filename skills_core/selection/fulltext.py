"""Texts in an index of SQLite's FTS5, in memory: which rows have a word, and how much of them it is.

Knows rows of texts and nothing of skills. An index has one connection; whoever shares it between threads guards it.
"""

from __future__ import annotations

import sqlite3
import weakref
from contextlib import contextmanager
from math import log
from threading import Lock
from typing import TYPE_CHECKING

from skills_core.selection.fields import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["FullText", "Stems"]

# How much a word counts in each field, before it saturates; found on the first half of the labelled queries.
_WEIGHTS = (10.0, 8.0, 5.0, 1.0)

_COLUMNS = ", ".join(FIELDS)
_TOKENIZE = "tokenize='porter unicode61'"
_TABLES = (
    # Without content: the texts are in memory already.
    f"CREATE VIRTUAL TABLE texts USING fts5({_COLUMNS}, content='', {_TOKENIZE})",
    "CREATE VIRTUAL TABLE terms USING fts5vocab(texts, row)",
)
_STEM_TABLES = (
    f"CREATE VIRTUAL TABLE probe USING fts5(word, content='', {_TOKENIZE})",
    "CREATE VIRTUAL TABLE stems USING fts5vocab(probe, instance)",
)

MAX_STEMS = 50_000
"""Words whose stems are kept; queries bring new ones without end."""

_SATURATIONS = f"SELECT rowid, -bm25(texts, {', '.join(map(str, _WEIGHTS))}) / ? FROM texts WHERE texts MATCH ?"  # noqa: S608


class Stems:
    """The stems of words, as an index has them. May be shared between threads, which wait for new words alone."""

    def __init__(self) -> None:
        """Begin with no words.

        Raises:
            sqlite3.Error: this build of SQLite has no FTS5.
        """
        self._db = _opened(self, _STEM_TABLES)
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
                # Nothing is taken out of a mapping that another thread may be reading.
                self._known = {}
            self._known |= found
        return found


class FullText:
    """Rows of four texts each, by number."""

    def __init__(self) -> None:
        """Begin with no rows.

        Raises:
            sqlite3.Error: this build of SQLite has no FTS5.
        """
        self._db = _opened(self, _TABLES)
        self._counts: dict[str, int] = {}

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Keep all changes that are made meanwhile, or none if there was an error."""
        self._counts.clear()
        self._db.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def insert(self, row: int, texts: Sequence[str]) -> None:
        """Add a row; `texts` are in the order of `FIELDS`."""
        self._db.execute(f"INSERT INTO texts(rowid, {_COLUMNS}) VALUES (?, ?, ?, ?, ?)", (row, *texts))  # noqa: S608

    def delete(self, row: int, texts: Sequence[str]) -> None:
        """Take away a row; `texts` must be those that it was added with, which the index itself does not keep."""
        command = f"INSERT INTO texts(texts, rowid, {_COLUMNS}) VALUES ('delete', ?, ?, ?, ?, ?)"  # noqa: S608
        self._db.execute(command, (row, *texts))

    def counts(self, stems: Iterable[str]) -> dict[str, int]:
        """Return in how many rows each of the stems is."""
        return {stem: self._counts.get(stem) or self._count(stem) for stem in stems}

    def _count(self, stem: str) -> int:
        found = self._db.execute("SELECT doc FROM terms WHERE term = ?", (stem,)).fetchone()
        if found is None:
            return 0
        # Kept until the next change: to count the rows of a common word takes longer than all else.
        self._counts[stem] = found[0]
        return int(found[0])

    def saturations(self, word: str, count: int, total: int) -> list[tuple[int, float]]:
        """Return the rows that have the word, in no order, with the part of BM25 that tells how much of each it is.

        `count` is in how many of the `total` rows the word is.
        """
        # A word in quotes is never a part of the query language.
        query = '"' + word.replace('"', '""') + '"'
        # The engine's own weight of a rare word, which makes nothing of one that half of the rows have.
        rarity = max(log((total - count + 0.5) / (count + 0.5)), 1e-6)
        return self._db.execute(_SATURATIONS, (rarity, query)).fetchall()


def _opened(owner: object, tables: Iterable[str]) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    weakref.finalize(owner, database.close)
    for table in tables:
        database.execute(table)
    return database
