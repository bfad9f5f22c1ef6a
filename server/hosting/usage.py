"""Counts of how often each skill was used, so that the most used ones are offered first.

The counts are read once, at the start: if the order of skills changed while a client is connected, its model would
have to read the whole list again. New uses are added to the file periodically, as other servers of the same user do.
The file contains keys and counts, nothing else. All views share the counts: among the skills that a caller sees, the
order tells how often all callers used them.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import anyio
import anyio.to_thread

logger = logging.getLogger(__name__)

MAX_REMEMBERED = 1000
"""Most skills whose use is considered."""

WRITE_SECONDS = 30.0

_TABLE = "CREATE TABLE IF NOT EXISTS usage (skill TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID"
_ADD = "INSERT INTO usage VALUES (?, ?) ON CONFLICT (skill) DO UPDATE SET count = count + excluded.count"
_MOST = "SELECT skill, count FROM usage ORDER BY count DESC, skill LIMIT ?"


def usage_file(state: Path) -> Path:
    """Return the path of the file of counts below the state folder."""
    return state / "usage.db"


def read_counts(file: Path, most: int = MAX_REMEMBERED) -> dict[str, int]:
    """Return the counts of the `most` used skills; none if the file is missing or damaged."""
    try:
        try:
            file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return {str(key): int(count) for key, count in connection.execute(_MOST, (most,))}
    except (OSError, sqlite3.Error, OverflowError, ValueError, TypeError) as error:
        logger.warning("cannot read how often skills were used: %s: %s", file, error)
        return {}


class UsageCounts:
    """The counts of one server. `before` counts the uses of each skill before the server started."""

    def __init__(self, file: Path | None = None) -> None:
        """Store counts in `file`; without a file, count nothing."""
        self._file = file
        self.before: Mapping[str, int] = read_counts(file) if file else {}
        self._new: Counter[str] = Counter()
        self._failing = False

    def add(self, key: str) -> None:
        """Count a use of a skill."""
        if self._file is not None:
            self._new[key] += 1

    async def run(self) -> None:
        """Write new counts periodically and at the end, until cancelled."""
        try:
            while True:
                await anyio.sleep(WRITE_SECONDS)
                await anyio.to_thread.run_sync(self.write)
        finally:
            # A cancelled write in a worker thread still finishes before the process ends.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.write)

    def write(self) -> None:
        """Add the new counts to the file; if that fails, try again with the next write."""
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
                logger.warning("cannot write how often skills were used: %s: %s", self._file, error)
            self._failing = True
        else:
            self._failing = False
