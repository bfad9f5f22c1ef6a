"""Audit the skills at the paths of a command line, and report what was found."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from server import __version__
from server.cli.console import EXIT_USAGE, fail
from skills_core.audit.engine import RULES, RULES_BY_ID, audit
from skills_core.audit.findings import Severity, sarif_log
from skills_core.audit.skill import read_file_of_skill, read_folder
from skills_core.diagnostics import one_line, printable
from skills_core.disk.folders import MAIN_FILE, MAIN_FILE_LOWERCASE
from skills_core.disk.sources import explicit_sources
from skills_core.errors import did_you_mean, similar_to
from skills_core.format.instructions import may_be_document
from skills_core.loading.discovery import find_skill_files

if TYPE_CHECKING:
    from skills_core.audit.findings import Finding, Rule
    from skills_core.audit.skill import SkillUnderAudit

Apply: TypeAlias = "Callable[[SkillUnderAudit], tuple[Finding, ...]]"

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
    fields = asdict(finding) | {"path": printable(finding.path)}
    justification = fields.pop("justification")
    return {**fields, "suppressed": finding.suppressed, "justification": justification}


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


_MAIN_FILES = frozenset({MAIN_FILE, MAIN_FILE_LOWERCASE})


def chosen_rules(ids: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rules with these ids, all rules without ids; exit with a message if there is no such rule."""
    for each in ids:
        if each not in RULES_BY_ID:
            hint = did_you_mean(similar_to(each, [*RULES_BY_ID])) or f" The rules are {', '.join(RULES_BY_ID)}."
            fail(f"--rule {each!r}: there is no such rule.{hint}", EXIT_USAGE)
    return tuple(rule for rule in RULES if rule.id in ids) if ids else RULES


def audit_path(path: Path, rules: Sequence[Rule], *, suppressions: bool = True) -> Iterator[AuditedSkill]:
    """Audit every skill at a path; exit with a message if there is none."""
    apply = partial(audit, rules=rules, suppressions=suppressions)
    shown = printable(str(path))
    if not os.path.lexists(path):
        fail(f"{shown}: there is no such file or folder; name a folder of skills or a SKILL.md", EXIT_USAGE)
    if path.name.lower() == MAIN_FILE_LOWERCASE:
        yield audited_folder(path.parent, apply, ())
    elif os.path.isdir(path):  # noqa: PTH112 - `Path` raises for paths that cannot be accessed
        yield from _audited_below(path, apply)
    elif may_be_document(path.absolute()):
        yield audited_file(path, apply)
    else:
        fail(f"{shown}: this is not a skill; name a folder of skills, a SKILL.md or a *.skill.md", EXIT_USAGE)


def _audited_below(path: Path, apply: Apply) -> Iterator[AuditedSkill]:
    (source,) = explicit_sources([path])
    found = [Path(each) for each in find_skill_files(source)]
    if not found:
        fail(f"{printable(str(path))}: there is no skill here or in any folder below", EXIT_USAGE)
    folders = {each.parent for each in found if each.name in _MAIN_FILES}
    for each in sorted(found):
        if each.name in _MAIN_FILES:
            nested = (other.relative_to(each.parent) for other in folders if each.parent in other.parents)
            siblings = {other.name for other in folders if other.parent == each.parent.parent and other != each.parent}
            yield audited_folder(path / each.parent, apply, nested, siblings)
        elif not any(folder in each.parents for folder in folders):
            yield audited_file(path / each, apply)


def audited_folder(folder: Path, apply: Apply, nested: Iterable[Path], siblings: Iterable[str] = ()) -> AuditedSkill:
    """Audit a folder, without the findings in the folders of skills that it contains, which have their own audit."""
    own = tuple(f"{each.as_posix()}/" for each in nested)
    findings = apply(replace(read_folder(folder), siblings=frozenset(siblings)))
    return AuditedSkill(_shown(folder), tuple(each for each in findings if not each.path.startswith(own)))


def audited_file(path: Path, apply: Apply) -> AuditedSkill:
    """Audit a skill that is one file."""
    return AuditedSkill(_shown(path.parent), apply(read_file_of_skill(path)))


def _shown(folder: Path) -> str:
    """Return a folder as findings show it: relative to the working directory if it lies below."""
    try:
        relative = os.path.relpath(folder)
    except ValueError:  # another drive of Windows
        relative = os.pardir
    return Path(folder if relative.startswith(os.pardir) else relative).as_posix()
