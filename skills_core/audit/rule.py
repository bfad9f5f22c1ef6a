"""A rule of the audit: what it looks for, why, and the function that finds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skills_core.audit.finding import Severity
    from skills_core.audit.skill.skill_under_audit import AuditedFile, SkillUnderAudit

__all__ = ["Hit", "Rule"]


@dataclass(frozen=True, slots=True)
class Hit:
    """One place that a rule found; `audit` completes it to a finding.

    `start` is the position in the text of the file, None for the file as a whole. `severity` and `fix` replace those of
    the rule. `evidence` identifies the hit in its fingerprint; by default, the text of the line does.
    """

    file: AuditedFile
    message: str
    start: int | None = None
    severity: Severity | None = None
    fix: str | None = None
    evidence: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `check` yields its hits in a skill.

    `why` says what can go wrong, `fix` what to do. `security_severity` is a number from 0 to 10 as code scanning reads
    it, None for a rule about quality.
    """

    id: str
    severity: Severity
    title: str
    why: str
    fix: str
    check: Callable[[SkillUnderAudit], Iterable[Hit]]
    security_severity: float | None = None
