"""What a branch brings and takes of findings: those of the audit, and the diagnostics of validation."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from server.capabilities.audit.report import audited_file, audited_folder
from server.capabilities.review.changes import nested_in, siblings_of
from skills_core.audit.engine import RULES, audit
from skills_core.audit.findings import Severity
from skills_core.authoring.fixes import respelled_paths
from skills_core.diagnostics import Diagnostic
from skills_core.diagnostics import Severity as Level
from skills_core.disk.sources import SkillKind
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from server.capabilities.review.changes import SkillChange, Version
    from skills_core.audit.findings import Finding
    from skills_core.skills.skill import Skill

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class FindingChanges:
    """The findings of the audit that the branch brings, and those that it takes; paths are relative to the skill."""

    new: tuple[Finding, ...] = ()
    gone: tuple[Finding, ...] = ()

    def new_of(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the new findings of a severity that no suppression covers."""
        return tuple(each for each in self.new if each.severity is severity and not each.suppressed)

    @property
    def suppressed(self) -> tuple[Finding, ...]:
        """The new errors and warnings that a suppression covers."""
        return tuple(each for each in self.new if each.suppressed and each.severity is not Severity.NOTE)


@dataclass(frozen=True, slots=True)
class DiagnosticChanges:
    """The diagnostics that the branch brings and takes, with paths from the top of the repository.

    `valid` tells whether the skill is valid before and after, None where there is none.
    """

    valid: tuple[bool | None, bool | None]
    new: tuple[Diagnostic, ...] = ()
    gone: tuple[Diagnostic, ...] = ()

    def new_of(self, level: Level) -> tuple[Diagnostic, ...]:
        """Return the new diagnostics of a severity."""
        return tuple(each for each in self.new if each.severity is level)


def compare_findings(change: SkillChange, before: Version, after: Version, *, suppressions: bool) -> FindingChanges:
    """Audit both versions of a skill; one that is removed has no findings worth a word."""
    if change.after is None:
        return FindingChanges()
    old = () if change.before is None else _audited(change.before, before, suppressions=suppressions)
    new = _audited(change.after, after, suppressions=suppressions)

    # A fingerprint survives edits of other lines. A finding that a suppression covers from now on is another one.
    def key(finding: Finding) -> Hashable:
        return finding.fingerprint, finding.severity, finding.suppressed

    return FindingChanges(*_differences(old, new, key))


def compare_diagnostics(change: SkillChange, before: Version, after: Version) -> DiagnosticChanges:
    """Validate both versions of a skill."""

    def key(diagnostic: Diagnostic) -> Hashable:
        return diagnostic.code, diagnostic.severity, diagnostic.message, diagnostic.path.removeprefix(change.place)

    old, new = _diagnosed(change.before, before), _diagnosed(change.after, after)
    if change.old_place is not None:
        old = [replace(each, path=_moved(each.path, change.old_place, change.place)) for each in old]
    valid = _is_valid(change.before), _is_valid(change.after)
    return (
        DiagnosticChanges(valid, *_differences(old, new, key)) if change.after is not None else DiagnosticChanges(valid)
    )


def _moved(path: str, old: str, new: str) -> str:
    return f"{new}{path.removeprefix(old)}" if path.startswith(old) else path


def _is_valid(skill: Skill | None) -> bool | None:
    return None if skill is None else skill.state is not State.INVALID


def _differences(
    old: Sequence[Found], new: Sequence[Found], key: Callable[[Found], Hashable]
) -> tuple[tuple[Found, ...], tuple[Found, ...]]:
    """Return what only the second has, and what only the first has; equal ones are counted."""
    return _only(new, old, key), _only(old, new, key)


def _only(these: Iterable[Found], those: Iterable[Found], key: Callable[[Found], Hashable]) -> tuple[Found, ...]:
    left = Counter(map(key, those))
    kept: list[Found] = []
    for each in these:
        if left[key(each)]:
            left[key(each)] -= 1
        else:
            kept.append(each)
    return tuple(kept)


def _audited(skill: Skill, version: Version, *, suppressions: bool) -> tuple[Finding, ...]:
    apply = partial(audit, rules=RULES, suppressions=suppressions)
    place, folder = version.place_of(skill), version.folder_of(skill)
    if skill.content.kind is not SkillKind.FOLDER:
        return audited_file(skill.source.root / skill.content.place, apply).findings
    nested = map(Path, nested_in(place, version))
    return audited_folder(folder, apply, nested, siblings_of(place, version)).findings


def _diagnosed(skill: Skill | None, version: Version) -> list[Diagnostic]:
    if skill is None:
        return []
    found = (*skill.diagnostics, *respelled_paths(skill))
    return [_from_top(each, version.top) for each in found if each.severity is not Level.INFO]


def _from_top(diagnostic: Diagnostic, top: Path) -> Diagnostic:
    """Return a diagnostic whose texts do not name the folder that the version was written to."""
    prefix = f"{top}{os.sep}"
    path = diagnostic.path.removeprefix(prefix).removeprefix(f"{top}/").replace(os.sep, "/")
    return replace(diagnostic, path=path, message=diagnostic.message.replace(prefix, ""))
