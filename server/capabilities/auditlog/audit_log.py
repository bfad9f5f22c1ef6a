"""The audit log of a running server: records go into a bounded queue, and one thread writes them.

No request waits for the disk. The writer is a thread of its own rather than a task, because a file system that hangs
would hang the end of the process too: a daemon thread is left behind after a bounded wait.

Once a minute, if there are new records, the thread publishes the end of its file, which `verify` takes as an anchor.

While the disk is full, records wait in memory and are written later. What does not fit there is counted, and the number
is recorded as a gap.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from msgspec import structs

from server.capabilities.auditlog.log_folder import LogFile, contents, last_day, prepare, remove
from server.capabilities.auditlog.records import (
    AuditEvent,
    AuditLogError,
    AuditRecord,
    bounded,
    timestamp,
    timestamp_of,
)
from server.listing.resources import EXTRA_URIS
from server.listing.tools import TOOL_MODULES
from server.requests import ADMIN_METHOD, LOGIN_METHOD, RequestDecision, RequestReason, RequestRecord, Use
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from server.capabilities.auditlog.log_folder import FileEnd, LogFileName


_EVENTS: Final = {Use.ACTIVATED: AuditEvent.ACTIVATION, Use.READ: AuditEvent.READ, Use.RAN: AuditEvent.RUN}
_RUN_TOOLS: Final = frozenset(name for each in TOOL_MODULES if each.run for name in each.names)
_ADMIN_TOOLS: Final = frozenset(name for each in TOOL_MODULES for name in each.administrative)
_ATTEMPTS: Final = frozenset({RequestReason.UNKNOWN_SKILL, RequestReason.UNKNOWN_FILE, RequestReason.UNKNOWN_TOOL})

_LOGIN_REFUSED: Final = AuditEvent.LOGIN_REFUSED
_REFUSED: Final = frozenset({RequestDecision.DENIED, RequestDecision.INVALID})
# Members of an enum are looked up slowly.

_WINDOW_SECONDS: Final = 60.0
_MOST_IN_WINDOW: Final = 100
_FIRST_STEP: Final = "login_missing"
# Clients that log in begin with a request without a token.


class NotedRequest(NamedTuple):
    """A request that is recorded, and when it was: in seconds since 1970.

    A request does not wait until its record is made; the thread that writes it does that.
    """

    when: float
    event: AuditEvent
    request: RequestRecord


def noted_request(request: RequestRecord) -> NotedRequest | None:
    """Return what is noted of a request that happens now, None if it is not recorded."""
    event = _event_of(request)
    return None if event is None else NotedRequest(time.time(), event, request)


def record_of(noted: NotedRequest) -> AuditRecord:
    """Return the record of a request."""
    when, event, request = noted
    is_login = event is AuditEvent.LOGIN_REFUSED
    principal = request.principal
    return AuditRecord(
        when=timestamp_of(when),
        event=event,
        principal=None if is_login else bounded(principal.subject),
        kind=None if is_login else principal.kind,
        roles=tuple(filter(None, map(bounded, sorted(principal.roles)[:20]))),
        client=bounded(" ".join(filter(None, request.client))),
        era=request.era or None,
        # A proxy may have passed on what its client sent.
        address=bounded(request.address),
        method=bounded(request.method),
        tool=bounded(request.tool),
        skill=bounded(request.skill),
        digest=request.digest or None,
        # With a skill, the target says the same again, except for its files.
        target=None if request.skill and request.target == request.skill else bounded(request.target),
        decision=request.decision,
        reason=bounded(request.reason),
        request_id=request.request_id,
    )


def _event_of(request: RequestRecord) -> AuditEvent | None:
    if request.method == LOGIN_METHOD:
        return None if request.reason == _FIRST_STEP else AuditEvent.LOGIN_REFUSED
    if _administers(request):
        return AuditEvent.ADMIN
    if request.use is not None:
        return _EVENTS[request.use]
    if request.tool in _RUN_TOOLS:
        return AuditEvent.RUN
    # What a caller may not see does not exist for it. Whatever the method, an invalid request that names something may
    # be an attempt to find out whether that is there.
    is_attempt = request.decision is RequestDecision.INVALID and (request.reason in _ATTEMPTS or request.target != "")
    return AuditEvent.REQUEST if request.decision is RequestDecision.DENIED or is_attempt else None


def _administers(request: RequestRecord) -> bool:
    is_extra = request.method == "resources/read" and request.target in EXTRA_URIS
    return is_extra or request.method == ADMIN_METHOD or request.tool in _ADMIN_TOOLS


@dataclass(slots=True)
class _Refusals:
    """Refused requests that are alike: how many are recorded, how many are not, and the last of these."""

    last: AuditRecord
    recorded: int = 0
    left: int = 0


class AuditSink:
    """Records requests. Of requests that are refused for one reason, it records the first 100 in each minute.

    The others of that minute become one record with their number and the time of the last of them. Otherwise whoever
    cannot log in could fill the disk.
    """

    def __init__(
        self, write: Callable[[AuditRecord | NotedRequest], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Pass records to `write`."""
        self._write, self._clock = write, clock
        self._window = clock()
        self._refused: dict[tuple[str | None, ...], _Refusals] = {}
        # Requests come from the event loop, and the end of a window from the thread of the log.
        self._lock = threading.RLock()

    def __call__(self, request: RequestRecord) -> None:
        """Record a request."""
        noted = noted_request(request)
        if noted is None:
            return
        # A login that fails because the identity provider does not answer costs its sender nothing either.
        if noted.event is not _LOGIN_REFUSED and request.decision not in _REFUSED:
            self._write(noted)
            return
        record = record_of(noted)
        with self._lock:
            self.end_window()
            if self._admits(record):
                self._write(record)

    def end_window(self) -> None:
        """Write the numbers of the last minute if it is over. Any thread may call this, now and then."""
        with self._lock:
            if self._clock() - self._window >= _WINDOW_SECONDS:
                self.flush()

    def flush(self) -> None:
        """Write the numbers of requests that were not recorded one by one."""
        with self._lock:
            for alike in self._refused.values():
                if alike.left:
                    fields = {"count": alike.left, "target": None, "address": None, "request_id": None}
                    self._write(structs.replace(alike.last, **fields))
            self._refused.clear()
            self._window = self._clock()

    def _admits(self, record: AuditRecord) -> bool:
        key = record.event, record.principal, record.kind, record.reason
        alike = self._refused.setdefault(key, _Refusals(record))
        if alike.recorded < _MOST_IN_WINDOW:
            alike.recorded += 1
            return True
        alike.last = record
        alike.left += 1
        return False


logger = logging.getLogger(__name__)

_MAX_WAITING: Final = 10_000
_BATCH: Final = 500
_RETRY_SECONDS: Final = 1.0
_IDLE_SECONDS: Final = 60.0
# A server without requests deletes old days, and writes the numbers of refusals, too.
_ANCHOR_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 5.0
_GATHER_SECONDS: Final = 0.02
# Records of this time are written together, after the answers to their requests: it is what a killed process loses.

_NAMES_IN_RECORD: Final = 1000
# A line has room for ten times as many.


class AuditLog:
    """The log of one process. Use it as a context manager: its end writes what still waits."""

    def __init__(
        self,
        folder: Path,
        retention_days: int,
        *,
        max_waiting: int = _MAX_WAITING,
        today: Callable[[], date] = lambda: datetime.now(UTC).date(),
        tell_anchor: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Write to `folder`, and delete days that are older than `retention_days`.

        The thread calls `tell_anchor` with the end of its file: at the start, at most once a minute while there are new
        records, and at the end.

        A clock that jumps ahead must not delete everything. Therefore "today" is at most the day after the latest
        earlier day with records: a clock must be ahead for more than a day to delete what is not old, and a server
        that was off for long deletes on its second day.

        Raises:
            AuditLogError: the folder cannot be used.
        """
        self._folder, self._retention, self._max = folder, timedelta(days=retention_days), max_waiting
        self._waiting: deque[AuditRecord | NotedRequest] = deque()
        self._lost, self._lost_since = 0, ""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._stopping = False
        self._failing = False
        self._file: LogFile | None = None
        self._last_ends: tuple[tuple[str, int, str], ...] = ()
        self._today = today
        self._checked_on: date | None = None
        self._regular: Callable[[], None] | None = None
        self._tell_anchor = tell_anchor
        self._told: FileEnd | None = None
        self._told_at = 0.0
        self._thread = threading.Thread(target=self._run, name="audit log", daemon=True)
        prepare(folder)
        try:
            self._file = LogFile(folder, today())
        except OSError as error:
            raise AuditLogError(f"{folder}: the audit log cannot be written: {_reason(error)}") from None

    def record(self, record: AuditRecord | NotedRequest) -> None:
        """Note an event; never wait for the disk. Any thread may call this."""
        with self._lock:
            if len(self._waiting) >= self._max:
                self._lost_since = self._lost_since or _as_record(record).when
                self._lost += 1
                return
            self._waiting.append(record)
            # Waking the thread takes longer than this, so one record wakes it for those that follow.
            if len(self._waiting) in {1, _BATCH}:
                self._changed.notify()

    def call_regularly(self, function: Callable[[], None]) -> None:
        """Have the thread of the log call a function at least once a minute, from its start on."""
        self._regular = function

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what waits, within a bound."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(_STOP_SECONDS)
        left = len(self._waiting) + self._lost
        if self._thread.is_alive() or left:
            logger.warning("the audit log ends without %d records: the disk is full or does not answer", left)

    def _run(self) -> None:
        if self._file is not None:
            # Its first record names the ends of the files before, which this anchors too.
            self._tell(self._file.anchor)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self._waiting, _IDLE_SECONDS)
                self._changed.wait_for(lambda: self._stopping or len(self._waiting) >= _BATCH, _GATHER_SECONDS)
                stopping = self._stopping
            if self._regular is not None:
                self._regular()
            written = self._try_to_write()
            if stopping and (not written or not self._waiting):
                if self._file is not None:
                    self._file.close(ended=self._file.is_intact())
                    self._tell(self._file.anchor)
                return
            if self._file is not None and time.monotonic() >= self._told_at + _ANCHOR_SECONDS:
                self._tell(self._file.anchor)
            if not written:
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, _RETRY_SECONDS)

    def _try_to_write(self) -> bool:
        """Write a batch of what waits, and delete old days; return whether the disk took it."""
        # Other threads append to what waits, but not while a list is made of it.
        waiting = [*islice(self._waiting, _BATCH)]
        batch = [_as_record(each) for each in waiting]
        try:
            self._append(batch)
        except (OSError, AuditLogError) as error:
            if not self._failing:
                where = one_line(str(self._folder))
                message = "the audit log cannot be written, so records wait in memory: %s: %s"
                logger.warning(message, where, _reason(error))
            self._failing = True
            return False
        if self._failing:
            logger.warning("the audit log can be written again")
        self._failing = False
        return True

    def _tell(self, end: FileEnd) -> None:
        if end != self._told:
            self._tell_anchor(end.anchor)
            self._told, self._told_at = end, time.monotonic()

    def _append(self, batch: list[AuditRecord]) -> None:
        today = self._today()
        with self._changed:
            lost, since = self._lost, self._lost_since
        if batch:
            file = self._current_file(today)
            written = file.append(batch)
            with self._changed:
                for _ in range(written):
                    self._waiting.popleft()
            if file.fault is not None:
                raise file.fault
        if lost:
            gap = {"when": timestamp(), "event": AuditEvent.GAP, "lost": lost, "since": since}
            self._current_file(today).append_all([gap])
            with self._changed:
                self._lost -= lost
                self._lost_since = timestamp() if self._lost else ""
        self._delete_old_days(today)

    def _current_file(self, today: date) -> LogFile:
        """Return the file of the day. If others removed or changed it, begin another one, which names its end."""
        file = self._file
        if file is not None:
            intact = file.is_intact()
            # Another day may be an earlier one: the clock was ahead.
            if intact and file.name.day == today:
                return file
            self._file, self._last_ends = None, (file.end,)
            file.close(ended=intact)
            self._tell(file.anchor)
            if not intact:
                logger.warning("the file %s of the audit log cannot be continued; another one is begun", str(file.name))
        self._file = LogFile(self._folder, today, self._last_ends)
        return self._file

    def _delete_old_days(self, today: date) -> None:
        if self._checked_on == today:
            return
        files, _ = contents(self._folder)
        days = {name: self._day_of(name, today) for name in files}
        if any(day < (today - self._retention).isoformat() for day in days.values()):
            # Even if nothing else is recorded, so that the next day can count from this one.
            file = self._current_file(today)
            earlier = next((name.day for name in reversed(files) if self._confirms_earlier_day(name, today)), None)
            if earlier is not None:
                first = min(today, earlier + timedelta(days=1)) - self._retention
                self._delete(tuple(name for name in files if days[name] < first.isoformat()), first, file)
        self._checked_on = today

    def _day_of(self, name: LogFileName, today: date) -> str:
        """Return the day that decides whether a file is old: that of its name, or of its last record if it is ahead."""
        return name.day.isoformat() if name.day <= today else last_day(self._folder, name)

    def _confirms_earlier_day(self, name: LogFileName, today: date) -> bool:
        """Tell whether a file was begun before today, and not by a clock that was ahead and set back."""
        return name.day < today and last_day(self._folder, name) >= name.day.isoformat()

    def _delete(self, names: tuple[LogFileName, ...], first: date, file: LogFile) -> None:
        """Delete files, after `file` says so: what is missing without a record was removed by somebody else."""
        for at in range(0, len(names), _NAMES_IN_RECORD):
            deleted = [str(name) for name in names[at : at + _NAMES_IN_RECORD]]
            retention = {"when": timestamp(), "event": AuditEvent.RETENTION, "before": first.isoformat()}
            file.append_all([{**retention, "deleted": deleted}])
        remove(self._folder, names)


def append_now(folder: Path, record: AuditRecord) -> None:
    """Write one record of a process that ends at once, and wait for the disk.

    Raises:
        AuditLogError: the folder cannot be used or written.
    """
    try:
        file = LogFile(folder, datetime.now(UTC).date())
        try:
            file.append_all([record])
        finally:
            file.close(ended=file.is_intact())
    except OSError as error:
        raise AuditLogError(f"{folder}: the audit log cannot be written: {_reason(error)}") from None


def _as_record(record: AuditRecord | NotedRequest) -> AuditRecord:
    return record_of(record) if isinstance(record, NotedRequest) else record


def _reason(error: OSError | AuditLogError) -> str:
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
