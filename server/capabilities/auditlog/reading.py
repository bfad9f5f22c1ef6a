"""Read the audit log: the records of all files in the order of their times, filtered, without changing anything.

Records are exported to other programs as JSON lines, or as CSV for spreadsheets.
"""

from __future__ import annotations

import csv
import heapq
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from server.capabilities.auditlog.log_folder import InvalidLineError, contents, lines_of, read_line
from server.capabilities.auditlog.records import AuditEvent, timestamp
from skills_core.diagnostics import one_line
from skills_core.errors import InvalidTimeError, SkillsError
from skills_core.schedules.parsing import COMPACT, compact_span

if TYPE_CHECKING:
    from server.capabilities.auditlog.log_folder import LogFileName
    from server.capabilities.auditlog.records import ChainedRecord


OWN_EVENTS: Final = frozenset({AuditEvent.START, AuditEvent.END, AuditEvent.RETENTION})
"""Records about the log itself; a list of what happened leaves them out. A gap is listed."""

MAX_NEWEST: Final = 16 * 1024 * 1024
"""Bytes of a log in which a page looks for its newest records; that is some 30,000 records."""

_SMALL: Final = 1024 * 1024
_LATEST: Final = 2


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Which records are wanted; None admits all. Times are texts as `timestamp` writes them, `until` is excluded."""

    since: str | None = None
    until: str | None = None
    principal: str | None = None
    skill: str | None = None
    decision: str | None = None
    event: AuditEvent | None = None

    def admits(self, entry: ChainedRecord) -> bool:
        """Tell whether a record is wanted."""
        if entry.event in OWN_EVENTS and self.event is not entry.event:
            return False
        if not (self.since or "") <= entry.when or (self.until is not None and entry.when >= self.until):
            return False
        wanted = ((name, getattr(self, name)) for name in ("principal", "skill", "decision", "event"))
        return all(value is None or getattr(entry, name) == value for name, value in wanted)

    def admits_day(self, name: LogFileName) -> bool:
        """Tell whether the file of a day can have wanted records.

        While a disk is full, a writer is late. A file of a day that is yet to come can have records of any time: it
        was begun while a clock was ahead.
        """
        if name.day.isoformat() < (self.since or "")[:10]:
            return False
        if self.until is None or name.day > datetime.now(UTC).date():
            return True
        return name.day <= days_after(date.fromisoformat(self.until[:10]), _LATEST)


@dataclass(slots=True)
class LogReader:
    """Reads one log; `unreadable` counts the lines that were not records, `is_cut` says that older ones were left."""

    folder: Path
    unreadable: int = field(default=0, init=False)
    is_cut: bool = field(default=False, init=False)

    def records(self, wanted: RecordFilter) -> Iterator[ChainedRecord]:
        """Yield the wanted records, those of several writers in the order of their times.

        A record that stands for many refusals is up to two minutes late: it has the time of the last of them.

        Raises:
            AuditLogError: a file cannot be read.
        """
        files = [name for name in contents(self.folder)[0] if wanted.admits_day(name)]
        for _, names in groupby(files, key=lambda name: name.day):
            yield from heapq.merge(*(self._entries(name, wanted) for name in names), key=lambda entry: entry.when)

    def newest(self, wanted: RecordFilter, most: int = MAX_NEWEST) -> Iterator[ChainedRecord]:
        """Yield the wanted records, the newest first, of the last `most` bytes of the log.

        Raises:
            AuditLogError: a file cannot be read.
        """
        files = [name for name in contents(self.folder)[0] if wanted.admits_day(name)]
        left = most
        for _, names in groupby(reversed(files), key=lambda name: name.day):
            found: list[ChainedRecord] = []
            for name in names:
                size = self._size(name)
                self.is_cut |= size > left
                if left > 0:
                    found += self._lines(name, wanted, left)
                left -= min(size, left)
            # Of two with the same time, the later one in a file is the newer one.
            found.reverse()
            found.sort(key=lambda entry: entry.when, reverse=True)
            yield from found
            if self.is_cut:
                return

    def _size(self, name: LogFileName) -> int:
        with suppress(FileNotFoundError):
            return (self.folder / str(name)).lstat().st_size
        return 0

    def _entries(self, name: LogFileName, wanted: RecordFilter) -> Iterator[ChainedRecord]:
        found = self._lines(name, wanted)
        # Files of a day may be many; small ones do not stay open.
        return found if self._size(name) > _SMALL else iter([*found])

    def _lines(self, name: LogFileName, wanted: RecordFilter, latest: int | None = None) -> Iterator[ChainedRecord]:
        # Retention may have deleted the file since it was listed.
        with suppress(FileNotFoundError):
            for line, complete in lines_of(self.folder, name, latest):
                try:
                    entry = read_line(line) if complete else None
                except InvalidLineError:
                    entry = None
                if entry is None:
                    self.unreadable += 1
                elif wanted.admits(entry):
                    yield entry


def days_after(day: date, days: int) -> date:
    """Return the day that is some days later, or the last one that a date can be."""
    return date.max if days > (date.max - day).days else day + timedelta(days=days)


def moment_of(text: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> str:
    """Return the moment that a text means: a date, a date with a time, or a span before now such as `12h` or `7d`.

    Without a zone, UTC is meant.

    Raises:
        SkillsError: the text is none of these.
    """
    if re.fullmatch(COMPACT, text, re.ASCII | re.IGNORECASE):
        try:
            return timestamp(now() - compact_span(text))
        except (InvalidTimeError, OverflowError):
            pass
    else:
        try:
            moment = datetime.fromisoformat(text)
            return timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        except (ValueError, OverflowError):
            pass
    expected = "expected a date such as 2026-11-23, a time such as 2026-11-23T12:00, or a span such as 7d"
    raise SkillsError(f"{text[:80]!r}: {expected}")


COLUMNS: Final = (
    *("when", "event", "principal", "kind", "roles", "client", "era", "address", "method", "tool", "skill", "digest"),
    *("target", "decision", "reason", "request_id", "count", "lost", "since", "before"),
)
"""The columns of a CSV file, and the fields of a record in JSON."""

_FORMULA: Final = ("=", "+", "-", "@", "\N{FULLWIDTH EQUALS SIGN}", "\N{FULLWIDTH PLUS SIGN}")
_MORE_FORMULAS: Final = ("\N{FULLWIDTH HYPHEN-MINUS}", "\N{FULLWIDTH COMMERCIAL AT}", "\N{MINUS SIGN}", "|", "%")


class ExportFormat(StrEnum):
    """The format of an export."""

    JSONL = "jsonl"
    CSV = "csv"


def object_of(entry: ChainedRecord) -> dict[str, Any]:
    """Return a record as JSON, without the fields of the chain."""
    fields = msgspec.to_builtins(entry)
    return {name: fields[name] for name in COLUMNS if fields.get(name) not in (None, [], ())}


def exported(entries: Iterable[ChainedRecord], kind: ExportFormat) -> Iterator[str]:
    """Yield the lines of an export, without their ends."""
    if kind is ExportFormat.JSONL:
        yield from (json.dumps(object_of(entry)) for entry in entries)
        return
    yield ",".join(COLUMNS)
    for entry in entries:
        line = io.StringIO()
        fields = object_of(entry)
        csv.writer(line, lineterminator="").writerow([_cell(fields.get(name)) for name in COLUMNS])
        yield line.getvalue()


def _cell(value: object) -> str:
    """Return the text of a cell that no spreadsheet takes for a formula; control characters are escaped."""
    if value is None:
        return ""
    text = one_line(" ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
    is_formula = not isinstance(value, int) and text.lstrip().startswith((*_FORMULA, *_MORE_FORMULAS))
    return f"'{text}" if is_formula else text
