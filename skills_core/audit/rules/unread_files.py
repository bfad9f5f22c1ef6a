"""Files that the audit could not read: it vouches for nothing that it has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.audit.finding import Severity
from skills_core.audit.rule import Hit, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.skill.skill_under_audit import SkillUnderAudit

__all__ = ["RULES"]


def _unread(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.files.values():
        if file.fault and file.link is None:
            yield Hit(file, f"the audit could not read this file: {file.fault}")


RULES = (
    Rule(
        "unread-file",
        Severity.ERROR,
        "File that the audit could not read",
        "A file that cannot be read now may hold anything when an agent reads it later.",
        "Make the file readable, split it if it is too large, or remove it.",
        _unread,
        6.0,
    ),
)
