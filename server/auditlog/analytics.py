"""Count how skills are used, in memory, and write the counts now and then; no request waits for the disk."""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Self

from server.auditlog.records import bounded
from server.auditlog.usage_counts import Counted, UsageEvent, UsageFile
from server.operation.records import Decision, Use

if TYPE_CHECKING:
    from types import TracebackType

    from server.operation.records import RequestRecord

__all__ = ["Analytics"]

logger = logging.getLogger(__name__)

_WRITE_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 5.0
_MAX_ROWS: Final = 50_000
# Rows that wait in memory, while the disk is full; more are not counted.
_MAX_CLIENTS: Final = 100
# Names of clients that are told apart; the clients choose them.
_OTHER: Final = "other"
_NOT_IN_NAMES: Final = re.compile(r"[^\w .@/+\[\]-]+")
_EVENTS: Final = {Use.ACTIVATED: UsageEvent.ACTIVATED, Use.READ: UsageEvent.READ, Use.RAN: UsageEvent.RAN}


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
        day, client = datetime.now(UTC).date().isoformat(), self._client(record.client.name)
        user = f"{record.principal.kind}:{record.principal.subject}"
        with self._changed:
            for skill, event in events:
                row = Counted(day, skill, event, client, user)
                if row in self._new or len(self._new) < _MAX_ROWS:
                    self._new[row] += 1

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
        shown = _NOT_IN_NAMES.sub(" ", bounded(name) or "").strip()[:40] or "unknown"
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
        import sqlite3  # noqa: PLC0415 - after the start

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


def _event_of(record: RequestRecord) -> UsageEvent | None:
    match record.decision:
        case Decision.ALLOWED:
            return None if record.use is None else _EVENTS[record.use]
        case Decision.FAILED:
            return UsageEvent.FAILED
        case Decision.DENIED:
            return UsageEvent.DENIED
        case Decision.INVALID:
            return None
