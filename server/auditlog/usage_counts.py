"""The counts for `skillserve analytics`: a SQLite file with numbers by day, skill, event, client and user.

A user is stored as a hash with a random key, which lies in another file. The counts tell how many users there are, and
who only to those who have the key and guess the name.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sqlite3
from collections import defaultdict
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from server.auditlog.errors import AuditLogError
from skills_core.disk.files import read_bounded
from skills_core.disk.opening import open_new, open_to_change
from skills_core.errors import FileRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["USES", "Counted", "SkillCounts", "UsageEvent", "UsageFile"]

_TABLE: Final = """CREATE TABLE IF NOT EXISTS uses (
    day TEXT, skill TEXT, event TEXT, client TEXT, user TEXT, count INTEGER NOT NULL,
    PRIMARY KEY (day, skill, event, client, user)) WITHOUT ROWID"""
_ADD: Final = """INSERT INTO uses VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (day, skill, event, client, user) DO UPDATE SET count = count + excluded.count"""
_READ: Final = "SELECT skill, event, client, user, sum(count) FROM uses WHERE day >= ? AND day < ? GROUP BY 1, 2, 3, 4"
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


@dataclass(frozen=True, slots=True)
class Counted:
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
        rows = [(c.day, c.skill, c.event, c.client, self._hashed(c.user), count) for c, count in counts.items()]
        # SQLite would create it for everyone to read.
        os.close(open_to_change(self.path))
        with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS)) as connection, connection:
            connection.execute(_TABLE)
            connection.executemany(_ADD, sorted(rows))
            connection.execute("DELETE FROM uses WHERE day < ?", (keep_since,))

    def read(self, since: str, until: str) -> dict[str, SkillCounts]:
        """Return the counts of each skill from the day `since` to before the day `until`; none if there is no file.

        Raises:
            AuditLogError: the file cannot be read.
        """
        found: dict[str, SkillCounts] = defaultdict(SkillCounts)
        users: dict[str, set[str]] = defaultdict(set)
        try:
            if not self.path.exists():
                return {}
            with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
                for skill, event, client, user, count in connection.execute(_READ, (since, until)):
                    counts = found[str(skill)]
                    counts.events[UsageEvent(event)] += int(count)
                    if event in USES:
                        counts.clients[str(client)] = counts.clients.get(str(client), 0) + int(count)
                        users[str(skill)].add(str(user))
        except (OSError, sqlite3.Error, OverflowError, ValueError, TypeError) as error:
            raise AuditLogError(f"{self.path}: the counts cannot be read: {error}") from None
        for skill, names in users.items():
            found[skill].users = len(names)
        return dict(found)

    def _hashed(self, user: str) -> str:
        if self._key is None:
            self._key = self._read_key()
        return hmac.new(self._key, user.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:16]

    def _read_key(self) -> bytes:
        """Return the key; create it if there is none, also where another server does so at the same time."""
        with suppress(FileExistsError):
            temporary = self._key_path.with_name(f".{secrets.token_hex(8)}.part")
            if not os.path.lexists(self._key_path):
                with open(open_new(temporary), "wb") as file:  # noqa: PTH123 - it is a descriptor
                    file.write(secrets.token_bytes(_KEY_BYTES))
                try:
                    _move_if_free(temporary, self._key_path)
                finally:
                    temporary.unlink(missing_ok=True)
        try:
            key = read_bounded(self._key_path)
        except FileRefusedError as error:
            raise OSError(str(error)) from None
        if key is None or len(key) != _KEY_BYTES:
            raise OSError(f"{self._key_path}: this is no key; remove it, and users count as other ones from then on")
        return key


def _move_if_free(source: Path, target: Path) -> None:
    """Give a file a name that no other file has.

    Raises:
        FileExistsError: another file has the name.
    """
    if os.name == "nt":
        source.rename(target)  # never replaces a file there
        return
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links; the worst that happens is that two servers use two keys once.
        source.rename(target)
