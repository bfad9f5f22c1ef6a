"""Errors of the audit log."""

from __future__ import annotations

from skills_core.errors import SkillsError

__all__ = ["AuditLogError"]


class AuditLogError(SkillsError):
    """The folder of the audit log cannot be used; the message says why and what to do."""
