"""Record the requests of a server as its settings say: in the audit log, and in the counts for analytics."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from server.capabilities.auditlog.settings import AuditLogSettings, audit_log_folder
from server.capabilities.login.settings import LoginSettings
from server.capability import ServerPart
from server.config.machine import state_home
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from server.capabilities.auditlog.records import AuditRecord
    from server.config.settings.model import Settings
    from server.hosting.host import Host
    from server.requests import Records

logger = logging.getLogger(__name__)


class RequestRecording(ServerPart):
    """Records the requests to one server."""

    def __init__(self, host: Host) -> None:
        """Record as the settings of `host` say."""
        self._host = host

    @contextmanager
    def around(self, port: int | None) -> Iterator[None]:
        """Record requests within the block; its end writes the last records.

        Raises:
            AuditLogError: the settings demand an audit log, and its folder cannot be used.
        """
        settings, records = self._host.settings, self._host.records
        with ExitStack() as stack:
            if wants_audit_log(settings, serves_http=port is not None):
                _add_audit_log(settings, records, stack)
            chosen = settings.section(AuditLogSettings)
            if chosen.analytics:
                from server.capabilities.auditlog.analytics import Analytics, UsageFile

                analytics = Analytics(UsageFile(state_home()), chosen.retention_days)
                records.add(stack.enter_context(analytics))
            yield


def record_now(settings: Settings, record: AuditRecord) -> None:
    """Record what a command did, if the audit log is on.

    Raises:
        AuditLogError: the record cannot be written.
    """
    if wants_audit_log(settings, serves_http=True):
        from server.capabilities.auditlog.audit_log import append_now

        append_now(audit_log_folder(settings.section(AuditLogSettings)), record)


def wants_audit_log(settings: Settings, *, serves_http: bool) -> bool:
    """Tell whether the settings switch the audit log on, for a server over HTTP or over stdio."""
    enabled = settings.section(AuditLogSettings).enabled
    # Clients of stdio need no login.
    return settings.section(LoginSettings).required and serves_http if enabled is None else enabled


def _add_audit_log(settings: Settings, records: Records, stack: ExitStack) -> None:
    from server.capabilities.auditlog.audit_log import AuditLog, AuditSink
    from server.capabilities.auditlog.records import AuditLogError

    chosen = settings.section(AuditLogSettings)
    folder = audit_log_folder(chosen)
    try:
        tell_anchor = partial(_tell_anchor, records)
        log = AuditLog(folder, chosen.retention_days, tell_anchor=tell_anchor)
    except AuditLogError as error:
        if chosen.enabled:
            raise
        logger.warning("nothing is recorded in the audit log: %s", one_line(str(error)))
        return
    sink = AuditSink(log.record)
    log.call_regularly(sink.end_window)
    stack.enter_context(log)
    # Before the log ends, which is entered earlier.
    stack.callback(sink.flush)
    records.add(sink)
    logger.info("audit log: %s", one_line(str(folder)))


def _tell_anchor(records: Records, anchor: str) -> None:
    """Write an anchor where others keep it: to the log of the server, and to the collector of spans if there is one."""
    from server.logs.json_logs import fields_of_line

    logger.info("audit log anchor: %s", anchor, extra=fields_of_line(message="audit log anchor", anchor=anchor))
    if records.tracer is not None:
        records.tracer.tell("audit log anchor", {"skillserve.audit_log.anchor": anchor})
