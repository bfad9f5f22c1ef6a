"""The audit log of a server, and the counts of how skills are used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta, Struct

from server.config.settings.section import Section
from server.config.values import NonEmpty, check_paths, home_path

if TYPE_CHECKING:
    from server.cli.config_check.finding import ConfigFinding
    from server.cli.config_check.settings_check import Configuration


class AuditLogSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The record of who used which skill, for `skillserve audit-log`, and the counts for `skillserve analytics`."""

    enabled: bool | None = None
    """Whether activations, runs, denials and administration are recorded. By default they are if clients have to log in
    (`[login]`). With `true` a server does not start if it cannot record; by default it starts, and warns."""
    folder: NonEmpty | None = None
    """The folder of the records, which other users must not be able to write to. In a file of settings a path is
    relative to that file. By default it is `audit-log` in the user's state folder. Servers may share it, also over a
    network."""
    retention_days: Annotated[int, Meta(ge=1, le=36_500)] = 365
    """Days after which records and counts are deleted."""
    analytics: bool = True
    """Whether uses of skills are counted for `skillserve analytics`: by day, client and a keyed hash of the user. The
    counts stay in the state folder and contain no texts."""

    def __post_init__(self) -> None:
        check_paths(folder=self.folder)


SECTION: Final = Section(
    name="audit_log",
    kind=AuditLogSettings,
    prefix="audit_log_",
    options={"analytics": "analytics", "enabled": "audit_log"},
)


def audit_log_folder(settings: AuditLogSettings) -> Path:
    """Return the folder of the audit log."""
    from server.config.machine import state_home

    return state_home() / "audit-log" if settings.folder is None else home_path(settings.folder)


def check_audit_log(configuration: Configuration) -> Iterator[ConfigFinding]:
    """Check the audit log; sections with a fault of their own are left out."""
    from server.capabilities.auditlog.log_folder import rights_fault
    from server.cli.config_check.finding import Level
    from server.cli.config_check.places import folder_fault
    from server.transport.listening import requires_login

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
