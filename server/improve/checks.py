"""Check a change on disk: the new version must load, and the audit must find no new error in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.config.machine import current_environment
from skills_core.audit.engine import audit
from skills_core.audit.findings import Severity
from skills_core.audit.skill import read_folder
from skills_core.diagnostics import Severity as Weight
from skills_core.diagnostics import one_line
from skills_core.improve.reasons import ImprovementReason, Refusal
from skills_core.library import Library
from skills_core.sources import explicit_sources

if TYPE_CHECKING:
    from pathlib import Path

    from skills_core.audit.findings import Finding
    from skills_core.skill import Skill

__all__ = ["loaded_skill", "refusal_of_version"]


def refusal_of_version(before: Path, after: Path) -> Refusal | None:
    """Return why the version in the folder `after` cannot replace the one in `before`, None if it can."""
    old, new = loaded_skill(before), loaded_skill(after)
    if old is None or new is None or (old.key, old.state, old.reason) != (new.key, new.state, new.reason):
        why = one_line(str(new.reason)) if new is not None else "it cannot be loaded"
        return Refusal(ImprovementReason.INVALID, f"the changed skill is not usable as before: {why}")
    known = {each.code for each in old.diagnostics}
    for each in new.diagnostics:
        if each.severity is Weight.ERROR and each.code not in known:
            return Refusal(ImprovementReason.INVALID, str(each))
    # A suppression that the change brings along must not hide what it adds.
    found = {each.fingerprint for each in _errors(before)}
    for finding in _errors(after):
        if finding.fingerprint not in found:
            return Refusal(ImprovementReason.AUDIT_ERROR, str(finding))
    return None


def loaded_skill(folder: Path) -> Skill | None:
    """Return the skill that a folder is, not one that lies in it; None if it cannot be loaded."""
    skills = Library(explicit_sources([folder]), current_environment).catalog.skills
    return next((each for each in skills if each.content.place in {"", "."}), None)


def _errors(folder: Path) -> list[Finding]:
    return [each for each in audit(read_folder(folder)) if each.severity is Severity.ERROR]
