"""Audit skills as a library loads them: findings become diagnostics of the skill, and an error may exclude it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from skills_core.audit.engine import audit
from skills_core.audit.findings import Severity
from skills_core.audit.rules.metadata import skeleton
from skills_core.audit.skill import AuditedFile, SkillUnderAudit
from skills_core.diagnostics import Diagnostic, Reason, capped, printable
from skills_core.diagnostics import Severity as DiagnosticSeverity
from skills_core.disk.files import Location, Reader
from skills_core.disk.sources import Scope, SkillKind
from skills_core.errors import FileRefusedError
from skills_core.skills.gates import Exclusion

if TYPE_CHECKING:
    from skills_core.audit.findings import Finding
    from skills_core.disk.sources import Source
    from skills_core.skills.skill import SkillContent, SkillFile

_SHOWN_REASON = 200
# Characters of a suppression's reason that a diagnostic shows.


@dataclass(frozen=True, slots=True)
class AuditReview:
    """The review that a library applies to each content that it loads anew; see `Library`.

    It looks at the files that the server would serve. With `blocks`, an error excludes the skill. `accepted` has the
    reasons by which the user accepts findings, by `SKILL/RULE`, `SKILL/FINGERPRINT` or fingerprint.
    """

    blocks: bool = False
    accepted: Mapping[str, str] = field(default_factory=dict)

    def siblings(self, source: Source, contents: Mapping[str, SkillContent]) -> Mapping[str, frozenset[str]]:
        """Return by place the skills beside it whose names look alike; the rules need no other ones."""
        del source  # the same for every source
        alike: dict[tuple[str, str], set[str]] = {}
        folders = {
            place: place.rpartition("/") for place, each in contents.items() if place and each.kind is SkillKind.FOLDER
        }
        for above, _, name in folders.values():
            alike.setdefault((above, skeleton(name)), set()).add(name)
        return {
            place: frozenset(
                other
                for own in {skeleton(name), skeleton(contents[place].name)}
                for other in alike.get((above, own), ())
                if other != name
            )
            for place, (above, _, name) in folders.items()
        }

    def __call__(self, source: Source, content: SkillContent, siblings: frozenset[str] = frozenset()) -> SkillContent:
        """Return the content with a diagnostic for each error, and for each warning that no suppression covers.

        A suppression comes from the author of the skill, so it cannot hide an error from the person who serves it. What
        the user accepts excludes nothing; its diagnostic has the level `info`.
        """
        if content.instructions.fault is not None:
            return content
        findings = audit(loaded_skill(source, content, content.files, siblings))
        counted = [each for each in findings if _counts(each)]
        if not counted:
            return content
        reasons = {each: self.acceptance(source, content, each) for each in counted}
        notes = capped(
            _diagnostic(source, content, each, reasons[each])
            for each in sorted(counted, key=lambda each: reasons[each] is not None)
        )
        errors = (each for each in counted if each.severity is Severity.ERROR)
        error = next((each for each in errors if reasons[each] is None), None)
        exclusion = Exclusion(Reason.AUDIT_FINDING, f"the audit found: {error}") if error and self.blocks else None
        return replace(content, notes=(*content.notes, *notes), exclusion=exclusion)

    def acceptance(self, source: Source, content: SkillContent, finding: Finding) -> str | None:
        """Return the user's reason to accept a finding, None if there is none.

        The skills of a project choose their own names, so a name and a rule accept nothing there.
        """
        if not self.accepted:
            return None
        name, fingerprint = source.name_of(content.folder), finding.fingerprint
        keys = [fingerprint, f"{name}/{fingerprint}"]
        if source.scope is not Scope.WORKSPACE:
            keys.append(f"{name}/{finding.rule}")
        return next((self.accepted[key] for key in keys if key in self.accepted), None)


def loaded_skill(
    source: Source, content: SkillContent, files: Mapping[str, SkillFile], siblings: frozenset[str] = frozenset()
) -> SkillUnderAudit:
    """Return a loaded skill for the rules, with some of its files; one that has changed since has a fault."""
    main = content.main.path if content.main is not None else None
    found = SkillUnderAudit.of(source.name_of(content.folder), _read(source, content, files), main)
    return replace(found, siblings=siblings)


def _counts(finding: Finding) -> bool:
    return finding.severity is Severity.ERROR or (finding.severity is Severity.WARNING and not finding.suppressed)


def _read(source: Source, content: SkillContent, files: Mapping[str, SkillFile]) -> Iterator[AuditedFile]:
    with Reader() as reader:
        for path, file in files.items():
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


def _diagnostic(source: Source, content: SkillContent, finding: Finding, accepted: str | None) -> Diagnostic:
    within = "/".join(part for part in (str(source.root), content.folder, finding.path) if part)
    message = f"{finding.severity} {finding.rule}: {finding.message}"
    if finding.suppressed:
        message += f" (suppressed in the skill: {printable(finding.justification or '')[:_SHOWN_REASON]!r})"
    severity = DiagnosticSeverity.WARNING
    if accepted is not None:
        severity = DiagnosticSeverity.INFO
        message += f" (accepted by the user: {printable(accepted)[:_SHOWN_REASON]!r})"
    return Diagnostic(severity, Reason.AUDIT_FINDING, message, printable(within), finding.line)
