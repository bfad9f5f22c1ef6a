"""Format the findings of `audit` as text, as one JSON object and as a SARIF log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from server import __version__
from skills_core.audit.findings import Severity
from skills_core.audit.sarif import sarif_log
from skills_core.diagnostics import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skills_core.audit.findings import Finding, Rule

__all__ = ["AuditedSkill", "audit_lines", "audit_object", "sarif_object", "shows"]


_REASON = 200
# Characters of a suppression's reason.


@dataclass(frozen=True, slots=True)
class AuditedSkill:
    """The findings in the skill of one folder; the paths of findings are relative to `folder`."""

    folder: str
    findings: tuple[Finding, ...]

    @property
    def has_error(self) -> bool:
        """Whether there is an error that no suppression covers."""
        return any(each.severity is Severity.ERROR and not each.suppressed for each in self.findings)

    @property
    def prefix(self) -> str:
        """The folder as a prefix of paths, empty for the working directory."""
        return "" if self.folder == "." else self.folder


def shows(audited: AuditedSkill, severity: Severity) -> AuditedSkill:
    """Return the skill with its findings of this severity and above."""
    return replace(audited, findings=tuple(each for each in audited.findings if each.severity.rank >= severity.rank))


def audit_lines(audited: Sequence[AuditedSkill]) -> Iterator[str]:
    """Yield the lines that `audit` prints as text; suppressed warnings and notes are only counted."""
    for skill in audited:
        for each in skill.findings:
            placed = replace(each, path=f"{skill.prefix}/{each.path}" if skill.prefix else each.path)
            if not each.suppressed:
                yield str(placed)
                yield one_line(f"  fix: {each.fix}")
            elif each.severity is Severity.ERROR:
                yield f"{placed} (suppressed)"
                yield one_line(f"  reason in the skill: {(each.justification or '')[:_REASON]}")
    counts = _counts(audited)
    found = ", ".join(f"{name}: {counts[name]}" for name in ("errors", "warnings", "notes", "suppressed"))
    yield f"skills audited: {counts['skills']}; {found}"


def audit_object(audited: Sequence[AuditedSkill]) -> dict[str, Any]:
    """Return the object that `audit --json` prints."""
    return {
        "results": [
            {"path": printable(skill.folder), "findings": [_finding_object(each) for each in skill.findings]}
            for skill in audited
        ],
        "summary": _counts(audited),
    }


def sarif_object(audited: Sequence[AuditedSkill], rules: Sequence[Rule]) -> dict[str, Any]:
    """Return the SARIF log that `audit --format sarif` prints."""
    return sarif_log(((skill.prefix, each) for skill in audited for each in skill.findings), __version__, rules)


def _finding_object(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "path": printable(finding.path),
        "line": finding.line,
        "column": finding.column,
        "message": finding.message,
        "fix": finding.fix,
        "fingerprint": finding.fingerprint,
        "suppressed": finding.suppressed,
        "justification": finding.justification,
    }


def _counts(audited: Sequence[AuditedSkill]) -> dict[str, int]:
    every = [each for skill in audited for each in skill.findings]
    counts = Counter(each.severity for each in every if not each.suppressed)
    return {
        "skills": len(audited),
        "errors": counts[Severity.ERROR],
        "warnings": counts[Severity.WARNING],
        "notes": counts[Severity.NOTE],
        "suppressed": sum(each.suppressed for each in every),
    }
