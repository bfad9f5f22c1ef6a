"""The audit record of a server: who did what with which skill, append-only on the disk; and counts for analytics."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.capabilities.auditlog.settings import SECTION, AuditLogSettings, audit_log_folder, check_audit_log
from server.capability import Capability

if TYPE_CHECKING:
    import typer

    from server.capability import PageParts, ServerPart
    from server.config.settings.model import Settings
    from server.hosting.host import Host
    from server.requests import CommandRecord


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.auditlog.commands import analytics, audit_log
    from server.cli.help_pages import CommandGroup

    app.command(rich_help_panel=CommandGroup.MEASURE)(analytics)
    app.add_typer(audit_log, name="audit-log", rich_help_panel=CommandGroup.OPERATE)


def _record_command(done: CommandRecord) -> None:
    from server.capabilities.auditlog.commands import record_command

    record_command(done)


def _private_places(settings: Settings) -> Iterable[Path]:
    return (audit_log_folder(settings.section(AuditLogSettings)),)


def _part(host: Host) -> ServerPart:
    from server.capabilities.auditlog.recording import RequestRecording

    return host.service(RequestRecording)


def _page(host: Host) -> PageParts:
    from server.capabilities.auditlog.page import page_parts

    return page_parts(host)


CAPABILITY: Final = Capability(
    name="auditlog",
    sections=(SECTION,),
    commands=_add_commands,
    record_command=_record_command,
    checks=check_audit_log,
    private_places=_private_places,
    part=_part,
    page=_page,
)
