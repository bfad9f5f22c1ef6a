"""The audit of skills when they are loaded: what judges them, and what the status says of it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from skills_core.audit.findings import AuditMode
from skills_core.diagnostics import printable

if TYPE_CHECKING:
    from server.capabilities.audit.settings import AuditSettings
    from skills_core.live.library import Review


def review_of(audit: AuditSettings) -> Review | None:
    """Return what audits skills when they are loaded, None if the settings switch that off."""
    if audit.mode is AuditMode.OFF:
        return None
    from skills_core.audit.review import AuditReview

    accepted = {each.finding: each.reason for each in audit.accept}
    return AuditReview(audit.mode is AuditMode.BLOCK, MappingProxyType(accepted))


def audit_object(audit: AuditSettings) -> dict[str, Any]:
    """Return what the status says of the audit: its mode, and the findings that the user's settings accept."""
    return {
        "mode": audit.mode.value,
        "accepted": [{"finding": printable(each.finding), "reason": printable(each.reason)} for each in audit.accept],
    }
