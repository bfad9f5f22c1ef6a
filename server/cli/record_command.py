"""Record in the audit log what a command does to the login."""

from __future__ import annotations

import getpass
import os
from typing import TYPE_CHECKING

from server.cli.console import print_notice
from server.config.files import ConfigurationError
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from server.auditlog.records import AuditEvent

__all__ = ["record_command"]


def record_command(event: AuditEvent, target: str) -> None:
    """Record an event, if the audit log is on; a failure is told, and changes neither the result nor the exit code.

    Revoking a token must be possible while the settings are wrong or the disk is full.
    """
    from server.auditlog.recording import record_now
    from server.auditlog.records import AuditRecord, bounded, timestamp
    from server.config.bootstrap import user_settings
    from server.config.machine import Machine, current_places

    record = AuditRecord(
        when=timestamp(),
        event=event,
        principal=bounded(_user()),
        kind="command",
        target=bounded(target),
        decision="allowed",
    )
    try:
        record_now(user_settings(Machine(current_places()), {}), record)
    except (ConfigurationError, SkillsError) as error:
        print_notice(f"this is not recorded in the audit log: {error}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        # A container's user often has no name.
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
