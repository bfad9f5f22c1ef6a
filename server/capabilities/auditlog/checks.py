"""Check the settings of the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from server.capabilities.auditlog.log_folder import rights_fault
from server.capabilities.auditlog.settings import AuditLogSettings, audit_log_folder
from server.cli.config_check.finding import ConfigFinding, Level
from server.cli.config_check.places import folder_fault
from server.transport.listening import requires_login

if TYPE_CHECKING:
    from server.cli.config_check.settings_check import Configuration


def check_audit_log(configuration: Configuration) -> Iterator[ConfigFinding]:
    """Check the audit log; sections with a fault of their own are left out."""
    checked = configuration.checked
    if not checked.can_compare("audit_log", "login"):
        return
    log, has_login = checked.settings.section(AuditLogSettings), requires_login(checked.settings)
    if log.enabled is False and has_login:
        message = "clients log in, but nothing is recorded of what they do"
        yield checked.finding(Level.WARNING, "audit_log.enabled", message, "remove it, unless that is meant")
    if log.enabled or (log.enabled is None and has_login):
        folder = audit_log_folder(log)
        if fault := folder_fault(folder, rights_fault):
            level = Level.ERROR if log.enabled else Level.WARNING
            message = f"{folder}: {fault}"
            yield checked.finding(level, "audit_log.folder", message, "restrict or choose a folder of your own")
