"""How often skills were used here, so that those used most are offered first.

Counts are read once, at the start: the order in which skills are offered must not change under a client, whose model
would read the whole list again. What is used meanwhile is written now and then, beside what other servers of the same
user write. Nothing but names and counts is kept.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["MAX_REMEMBERED", "Usage", "read_counts", "usage_file"]

logger = logging.getLogger(__name__)

MAX_REMEMBERED = 1000
"""Most skills that are offered first for their use."""

WRITE_SECONDS = 30.0

_TABLE = "CREATE TABLE IF NOT EXISTS usage (skill TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID"
_ADD = "INSERT INTO usage VALUES (?, ?) ON CONFLICT (skill) DO UPDATE SET count = count + excluded.count"
_MOST = "SELECT skill, count FROM usage ORDER BY count DESC, skill LIMIT ?"


def usage_file(state: Path) -> Path:
    """Return where counts are kept below the folder for what outlives a server."""
    return state / "usage.db"


def read_counts(file: Path) -> dict[str, int]:
    """Return how often each of the skills used most was used; nothing where the file is not there or is damaged."""
    try:
        try:
            file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return {str(key): int(count) for key, count in connection.execute(_MOST, (MAX_REMEMBERED,))}
    except (OSError, sqlite3.Error, OverflowError, ValueError, TypeError) as error:
        logger.warning("how often skills were used is not known: %s: %s", file, error)
        return {}


class Usage:
    """Counts of this server. `before` is how often each skill was used before it started."""

    def __init__(self, file: Path | None = None) -> None:
        """Keep counts in `file`; without one they are kept nowhere."""
        self._file = file
        self.before: Mapping[str, int] = read_counts(file) if file else {}
        self._new: Counter[str] = Counter()
        self._failing = False

    def add(self, key: str) -> None:
        """Take note that a skill was used."""
        if self._file is not None:
            self._new[key] += 1

    async def keep(self) -> None:
        """Write what was used now and then, and at the end, until cancelled."""
        try:
            while True:
                await anyio.sleep(WRITE_SECONDS)
                await anyio.to_thread.run_sync(self.write)
        finally:
            # A write that is under way in another thread is finished with the process.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.write)

    def write(self) -> None:
        """Add what was used since the last time to the file; what cannot be written now is written the next time."""
        new, self._new = self._new, Counter()
        if not new or self._file is None:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with closing(sqlite3.connect(self._file, timeout=5)) as connection, connection:
                connection.execute(_TABLE)
                connection.executemany(_ADD, sorted(new.items()))
        except (OSError, sqlite3.Error) as error:
            self._new.update(new)
            if not self._failing:
                logger.warning("how often skills were used cannot be written now: %s: %s", self._file, error)
            self._failing = True
        else:
            self._failing = False
