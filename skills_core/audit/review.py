"""Audit skills as a library loads them: findings become diagnostics of the skill, and an error may exclude it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skills_core.audit.engine import audit
from skills_core.audit.finding import Severity
from skills_core.audit.skill.skill_under_audit import AuditedFile, SkillUnderAudit
from skills_core.diagnostics import Diagnostic, Reason, capped, printable
from skills_core.diagnostics import Severity as DiagnosticSeverity
from skills_core.disk.files import Location, Reader
from skills_core.errors import FileRefusedError
from skills_core.gates import Exclusion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.finding import Finding
    from skills_core.skill import SkillContent
    from skills_core.sources import Source

__all__ = ["AuditReview"]

_SHOWN_REASON = 200
# Characters of a suppression's reason that a diagnostic shows.


@dataclass(frozen=True, slots=True)
class AuditReview:
    """The review that a library applies to each content that it loads anew; see `Library`.

    It looks at the files that the server would serve. With `blocks`, an error excludes the skill.
    """

    blocks: bool = False

    def __call__(self, source: Source, content: SkillContent) -> SkillContent:
        """Return the content with a diagnostic for each error, and for each warning that no suppression covers.

        A suppression comes from the author of the skill, so it cannot hide an error from the person who serves it.
        """
        if content.instructions.fault is not None:
            return content
        findings = audit(_under_audit(source, content))
        counted = [each for each in findings if _counts(each)]
        if not counted:
            return content
        notes = capped(_diagnostic(source, content, each) for each in counted)
        error = next((each for each in counted if each.severity is Severity.ERROR), None)
        exclusion = Exclusion(Reason.AUDIT_FINDING, f"the audit found: {error}") if error and self.blocks else None
        return replace(content, notes=(*content.notes, *notes), exclusion=exclusion)


def _counts(finding: Finding) -> bool:
    return finding.severity is Severity.ERROR or (finding.severity is Severity.WARNING and not finding.suppressed)


def _under_audit(source: Source, content: SkillContent) -> SkillUnderAudit:
    main = content.main.path if content.main is not None else None
    return SkillUnderAudit.of(source.name_of(content.folder), _files(source, content), main)


def _files(source: Source, content: SkillContent) -> Iterator[AuditedFile]:
    with Reader() as reader:
        for path, file in content.files.items():
            within = f"{content.folder}/{path}" if content.folder else path
            try:
                raw, _ = reader.read(file.linked or Location(source.root, within))
            except FileRefusedError as error:
                yield AuditedFile(path, fault=error.message)
                continue
            if "sha256:" + hashlib.sha256(raw).hexdigest() != file.digest:
                yield AuditedFile(path, fault="it changed while it was loaded; the next reload audits it again")
            else:
                yield AuditedFile(path, raw)


def _diagnostic(source: Source, content: SkillContent, finding: Finding) -> Diagnostic:
    within = "/".join(part for part in (str(source.root), content.folder, finding.path) if part)
    message = f"{finding.severity} {finding.rule}: {finding.message}"
    if finding.suppressed:
        message += f" (suppressed in the skill: {printable(finding.justification or '')[:_SHOWN_REASON]!r})"
    return Diagnostic(DiagnosticSeverity.WARNING, Reason.AUDIT_FINDING, message, printable(within), finding.line)
