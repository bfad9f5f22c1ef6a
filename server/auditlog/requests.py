"""Which requests the audit log records, and what it keeps of them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from msgspec import structs

from server.auditlog.records import AuditEvent, AuditRecord, bounded, timestamp
from server.config.settings import OptionalTool
from server.listing.resources import STATUS_URI
from server.operation.records import ADMIN_METHOD, LOGIN_METHOD, Decision, RequestReason, RequestRecord, Use

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AuditSink", "audit_record"]

_EVENTS: Final = {Use.ACTIVATED: AuditEvent.ACTIVATION, Use.READ: AuditEvent.READ, Use.RAN: AuditEvent.RUN}
_RUN_TOOLS: Final = frozenset({OptionalTool.RUN_SKILL, OptionalTool.RUN_WORKFLOW, OptionalTool.RUN_SKILL_SCRIPT})
_ADMIN_TOOLS: Final = frozenset(
    {
        *(OptionalTool.SKILLS_STATUS, OptionalTool.RELOAD_SKILLS, OptionalTool.ROLLBACK_SKILL),
        *(OptionalTool.SCHEDULE_SKILL, OptionalTool.PAUSE_SCHEDULE, OptionalTool.RESUME_SCHEDULE),
        *(OptionalTool.RUN_SCHEDULE, OptionalTool.REMOVE_SCHEDULE),
    }
)
_ATTEMPTS: Final = frozenset({RequestReason.UNKNOWN_SKILL, RequestReason.UNKNOWN_FILE, RequestReason.UNKNOWN_TOOL})

_WINDOW_SECONDS: Final = 60.0
_MOST_IN_WINDOW: Final = 100
_FIRST_STEP: Final = "login_missing"
# Clients that log in begin with a request without a token.


def audit_record(request: RequestRecord) -> AuditRecord | None:
    """Return what is recorded of a request, None if nothing is."""
    event = _event_of(request)
    if event is None:
        return None
    is_login = event is AuditEvent.LOGIN_REFUSED
    principal = request.principal
    return AuditRecord(
        when=timestamp(),
        event=event,
        principal=None if is_login else bounded(principal.subject),
        kind=None if is_login else principal.kind,
        roles=tuple(filter(None, map(bounded, sorted(principal.roles)[:20]))),
        client=bounded(" ".join(filter(None, request.client)) or None),
        era=request.era or None,
        # A proxy may have passed on what its client sent.
        address=bounded(request.address or None),
        method=bounded(request.method),
        tool=bounded(request.tool or None),
        skill=bounded(request.skill or None),
        digest=request.digest or None,
        # With a skill, the target says the same again, except for its files.
        target=None if request.skill and request.target == request.skill else bounded(request.target or None),
        decision=request.decision,
        reason=bounded(request.reason or None),
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
    is_attempt = request.decision is Decision.INVALID and (request.reason in _ATTEMPTS or request.target != "")
    return AuditEvent.REQUEST if request.decision is Decision.DENIED or is_attempt else None


def _administers(request: RequestRecord) -> bool:
    is_status = request.method == "resources/read" and request.target == STATUS_URI
    return is_status or request.method == ADMIN_METHOD or request.tool in _ADMIN_TOOLS


@dataclass(frozen=True, slots=True)
class _Alike:
    """What refused requests have in common, so that one record can stand for many of them."""

    event: AuditEvent
    principal: str | None
    kind: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class _Counted:
    last: AuditRecord
    recorded: int = 1
    left: int = 0


class AuditSink:
    """Records requests. Of requests that are refused for one reason, it records the first 100 in each minute.

    The others of that minute become one record with their number and the time of the last of them. Otherwise whoever
    cannot log in could fill the disk.
    """

    def __init__(self, write: Callable[[AuditRecord], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Pass records to `write`."""
        self._write, self._clock = write, clock
        self._window = clock()
        self._refused: dict[_Alike, _Counted] = {}
        # Requests come from the event loop, and the end of a window from the thread of the log.
        self._lock = threading.Lock()

    def __call__(self, request: RequestRecord) -> None:
        """Record a request."""
        record = audit_record(request)
        with self._lock:
            self._end_window()
            if record is not None and (not _is_limited(record) or self._admits(record)):
                self._write(record)

    def end_window(self) -> None:
        """Write the numbers of the last minute if it is over. Any thread may call this, now and then."""
        with self._lock:
            self._end_window()

    def flush(self) -> None:
        """Write the numbers of requests that were not recorded one by one."""
        with self._lock:
            self._flush()

    def _end_window(self) -> None:
        if self._clock() - self._window >= _WINDOW_SECONDS:
            self._flush()

    def _flush(self) -> None:
        for counted in self._refused.values():
            if counted.left:
                self._write(
                    structs.replace(counted.last, count=counted.left, target=None, address=None, request_id=None)
                )
        self._refused.clear()
        self._window = self._clock()

    def _admits(self, record: AuditRecord) -> bool:
        alike = _Alike(record.event, record.principal, record.kind, record.reason)
        counted = self._refused.get(alike)
        if counted is None:
            self._refused[alike] = _Counted(record)
            return True
        if counted.recorded < _MOST_IN_WINDOW:
            self._refused[alike] = replace(counted, recorded=counted.recorded + 1)
            return True
        self._refused[alike] = replace(counted, last=record, left=counted.left + 1)
        return False


def _is_limited(record: AuditRecord) -> bool:
    # A login that fails because the identity provider does not answer costs its sender nothing either.
    return record.event is AuditEvent.LOGIN_REFUSED or record.decision in {Decision.DENIED, Decision.INVALID}
