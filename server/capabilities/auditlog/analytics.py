"""Count how skills are used, in memory, and write the counts now and then; no request waits for the disk.

The counts for `skillserve analytics`: a SQLite file with numbers by day, skill, event, client and user.

A user is stored as a hash with a random key, which lies in another file. The counts tell how many users there are, and
who only to those who have the key and guess the name.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import sqlite3
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from server.capabilities.auditlog.records import AuditLogError, bounded, timestamp_of
from server.requests import RequestDecision, Use
from skills_core.disk.files import Location, open_to_change, read_bounded
from skills_core.disk.writing import PRIVATE, write_file
from skills_core.errors import FileRefusedError

if TYPE_CHECKING:
    from server.requests import RequestRecord


_TABLE: Final = """CREATE TABLE IF NOT EXISTS uses (
    day TEXT, skill TEXT, event TEXT, client TEXT, user TEXT, count INTEGER NOT NULL,
    PRIMARY KEY (day, skill, event, client, user)) WITHOUT ROWID"""
_ADD: Final = """INSERT INTO uses VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (day, skill, event, client, user) DO UPDATE SET count = count + excluded.count"""
_READ: Final = "SELECT skill, event, client, user, sum(count) FROM uses WHERE day >= ? AND day < ? GROUP BY 1, 2, 3, 4"
_READ_DAYS: Final = """SELECT day, event, client, sum(count) FROM uses
    WHERE day >= ? AND day < ? AND (? IS NULL OR skill = ?) GROUP BY 1, 2, 3"""
_KEY_BYTES: Final = 32
_BUSY_SECONDS: Final = 5


class UsageEvent(StrEnum):
    """What was done with a skill."""

    ACTIVATED = "activated"
    READ = "read"
    RAN = "ran"
    FOUND = "found"
    """A search returned it."""
    FAILED = "failed"
    DENIED = "denied"


USES: Final = frozenset({UsageEvent.ACTIVATED, UsageEvent.READ, UsageEvent.RAN})
"""The events that are successful uses of a skill."""


class Counted(NamedTuple):
    """What is counted: equal uses are one row. `user` is not stored as it is."""

    day: str
    skill: str
    event: UsageEvent
    client: str
    user: str


@dataclass(slots=True)
class SkillCounts:
    """The counts of one skill: by event, and those of uses by client; `users` is how many used it."""

    events: dict[UsageEvent, int] = field(default_factory=lambda: dict.fromkeys(UsageEvent, 0))
    clients: dict[str, int] = field(default_factory=dict)
    users: int = 0


class DayCount(NamedTuple):
    """How often something was done on a day with a client."""

    day: str
    event: UsageEvent
    client: str
    number: int


class UsageFile:
    """The file of counts below a folder, and the file of its key."""

    def __init__(self, folder: Path) -> None:
        """Read nothing yet."""
        self.path = folder / "analytics.db"
        self._key_path = folder / "analytics.key"
        self._key: bytes | None = None

    def add(self, counts: Mapping[Counted, int], keep_since: str) -> None:
        """Add counts, and delete those of days before `keep_since`.

        Raises:
            OSError: the files cannot be written.
            sqlite3.Error: the counts cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # SQLite would create it for everyone to read.
        os.close(open_to_change(self.path))
        with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS)) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_TABLE)
            rows = [(c.day, c.skill, c.event, c.client, self._hashed(c.user), count) for c, count in counts.items()]
            connection.executemany(_ADD, sorted(rows))
            connection.execute("DELETE FROM uses WHERE day < ?", (keep_since,))

    def read(self, since: str, until: str) -> dict[str, SkillCounts]:
        """Return the counts of each skill from the day `since` to before the day `until`; none if there is no file.

        Raises:
            AuditLogError: the file cannot be read.
        """
        found: dict[str, SkillCounts] = defaultdict(SkillCounts)
        users: dict[str, set[str]] = defaultdict(set)
        with self._reading() as connection:
            for skill, event, client, user, count in connection.execute(_READ, (since, until)) if connection else ():
                counts = found[str(skill)]
                counts.events[UsageEvent(event)] += int(count)
                if event in USES:
                    counts.clients[str(client)] = counts.clients.get(str(client), 0) + int(count)
                    users[str(skill)].add(str(user))
        for skill, names in users.items():
            found[skill].users = len(names)
        return dict(found)

    def days(self, since: str, until: str, skill: str | None = None) -> list[DayCount]:
        """Return the counts by day, event and client, of one skill or of all; none if there is no file.

        Raises:
            AuditLogError: the file cannot be read.
        """
        with self._reading() as connection:
            rows = connection.execute(_READ_DAYS, (since, until, skill, skill)) if connection else ()
            return [
                DayCount(str(day), UsageEvent(event), str(client), int(count)) for day, event, client, count in rows
            ]

    def first_day(self) -> str | None:
        """Return the first day with a count, None if nothing is counted.

        Raises:
            AuditLogError: the file cannot be read.
        """
        with self._reading() as connection:
            row = connection.execute("SELECT min(day) FROM uses").fetchone() if connection else None
            return None if row is None or row[0] is None else date.fromisoformat(row[0]).isoformat()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """Yield a connection that writes nothing, None if there is no file; what fails in the block is reported."""
        try:
            if not self.path.exists():
                yield None
                return
            with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
                yield connection
        except (OSError, sqlite3.Error, OverflowError, ValueError, TypeError) as error:
            raise AuditLogError(f"{self.path}: the counts cannot be read: {error}") from None

    def _hashed(self, user: str) -> str:
        if self._key is None:
            self._key = self._read_key()
        return hmac.new(self._key, user.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:16]

    def _read_key(self) -> bytes:
        """Return the key; create it if there is none. The database is locked, so no other server does so too."""
        try:
            key = read_bounded(self._key_path)
            if key is None:
                key = secrets.token_bytes(_KEY_BYTES)
                write_file(Location(self._key_path.parent, self._key_path.name), key, PRIVATE)
        except FileRefusedError as error:
            raise OSError(str(error)) from None
        if len(key) != _KEY_BYTES:
            raise OSError(f"{self._key_path}: this is not a key; remove it, and users count as other ones from then on")
        return key


def usage_report(counts: Mapping[str, SkillCounts], served: Collection[str]) -> dict[str, Any]:
    """Return how skills are used, the most used first, and which of the `served` ones are not used, as JSON."""
    rows: list[dict[str, Any]] = [
        {
            "skill": name,
            **{str(event): each.events[event] for event in UsageEvent},
            "users": each.users,
            "clients": dict(sorted(each.clients.items(), key=lambda pair: (-pair[1], pair[0]))),
            "served": name in served,
        }
        for name, each in counts.items()
    ]
    rows.sort(key=lambda row: (-row["activated"], -row["ran"], -row["read"], -row["found"], row["skill"]))
    # A skill that failed was used, if in vain.
    used = {row["skill"] for row in rows if row["failed"] or any(row[event] for event in USES)}
    return {
        "skills": rows,
        "never_used": sorted(name for name in served if name not in used),
        "found_not_activated": [row["skill"] for row in rows if row["found"] and row["skill"] not in used],
    }


logger = logging.getLogger(__name__)

_WRITE_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 5.0
_MAX_ROWS: Final = 50_000
# Rows that wait in memory, while the disk is full; more are not counted.
_MAX_CLIENTS: Final = 100
# Names of clients that are told apart; the clients choose them.
_OTHER: Final = "other"
_DAY: Final = len("2026-01-01")
_NOT_IN_NAMES: Final = re.compile(r"[^\w .@/+\[\]-]+")
_EVENTS: Final = {Use.ACTIVATED: UsageEvent.ACTIVATED, Use.READ: UsageEvent.READ, Use.RAN: UsageEvent.RAN}
_UNSUCCESSFUL: Final = {RequestDecision.FAILED: UsageEvent.FAILED, RequestDecision.DENIED: UsageEvent.DENIED}
_ALLOWED: Final = RequestDecision.ALLOWED
# Members of an enum are looked up slowly.


class Analytics:
    """The counts of one server, as a sink of records. Use it as a context manager: its end writes the last counts."""

    def __init__(self, file: UsageFile, retention_days: int) -> None:
        """Add to the counts in `file`, and delete those of days that are older."""
        self._file, self._retention = file, timedelta(days=retention_days)
        self._new: Counter[Counted] = Counter()
        self._clients: set[str] = set()
        self._changed = threading.Condition()
        self._stopping = False
        self._failing = False
        # As the audit log: a disk that hangs must not keep the process from its end.
        self._thread = threading.Thread(target=self._run, name="analytics", daemon=True)

    def __call__(self, record: RequestRecord) -> None:
        """Count what a request did with skills."""
        events = [(key, UsageEvent.FOUND) for key in record.found]
        if record.skill and (event := _event_of(record)) is not None:
            events.append((record.skill, event))
        if not events:
            return
        day, client = timestamp_of(time.time())[:_DAY], self._client(record.client.name)
        user = f"{record.principal.kind}:{record.principal.subject}"
        with self._changed:
            for skill, event in events:
                row = Counted(day, skill, event, client, user)
                number = self._new.get(row, 0)
                if number or len(self._new) < _MAX_ROWS:
                    self._new[row] = number + 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the last counts, within a bound."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(_STOP_SECONDS)

    def _client(self, name: str) -> str:
        """Return the name of a client, within bounds and without tokens."""
        shown = _shown_client(name)
        if shown not in self._clients and len(self._clients) >= _MAX_CLIENTS:
            return _OTHER
        self._clients.add(shown)
        return shown

    def _run(self) -> None:
        stopping = False
        while not stopping:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping, _WRITE_SECONDS)
                stopping = self._stopping
                new, self._new = self._new, Counter()
            if new:
                self._write(new)

    def _write(self, new: Counter[Counted]) -> None:
        keep_since = (datetime.now(UTC).date() - self._retention).isoformat()
        try:
            self._file.add(new, keep_since)
        except (OSError, sqlite3.Error) as error:
            with self._changed:
                self._new.update(new)
            if not self._failing:
                logger.warning("cannot write how skills are used: %s: %s", self._file.path, error)
            self._failing = True
        else:
            self._failing = False


@lru_cache(256)
def _shown_client(name: str) -> str:
    return _NOT_IN_NAMES.sub(" ", bounded(name) or "").strip()[:40] or "unknown"


def _event_of(record: RequestRecord) -> UsageEvent | None:
    if record.decision is _ALLOWED:
        return None if record.use is None else _EVENTS[record.use]
    return _UNSUCCESSFUL.get(record.decision)
