"""Find the skills at the paths given to `audit`, and audit them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from server.cli.audit_report import AuditedSkill
from server.cli.console import EXIT_USAGE, fail
from skills_core.audit.engine import audit
from skills_core.audit.registry import RULES, RULES_BY_ID
from skills_core.audit.skill.read import read_file_of_skill, read_folder
from skills_core.diagnostics import printable
from skills_core.disk.folders import MAIN_FILE, MAIN_FILE_LOWERCASE
from skills_core.errors import did_you_mean, similar_to
from skills_core.loading.discovery import find_skill_files
from skills_core.loading.documents import may_be_document
from skills_core.sources import explicit_sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from skills_core.audit.finding import Finding
    from skills_core.audit.rule import Rule
    from skills_core.audit.skill.skill_under_audit import SkillUnderAudit

__all__ = ["audit_path", "chosen_rules"]

_MAIN_FILES = frozenset({MAIN_FILE, MAIN_FILE_LOWERCASE})


def chosen_rules(ids: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rules with these ids, all rules without ids; exit with a message if there is no such rule."""
    for each in ids:
        if each not in RULES_BY_ID:
            hint = did_you_mean(similar_to(each, [*RULES_BY_ID])) or f" The rules are {', '.join(RULES_BY_ID)}."
            fail(f"--rule {each!r}: there is no such rule.{hint}", EXIT_USAGE)
    return tuple(rule for rule in RULES if rule.id in ids) if ids else RULES


class _Audit(NamedTuple):
    """How each skill is audited: by which rules, and whether its suppressions count."""

    rules: Sequence[Rule]
    suppressions: bool

    def of(self, skill: SkillUnderAudit) -> tuple[Finding, ...]:
        """Return the findings in a skill."""
        return audit(skill, self.rules, suppressions=self.suppressions)


def audit_path(path: Path, rules: Sequence[Rule], *, suppressions: bool = True) -> Iterator[AuditedSkill]:
    """Audit every skill at a path; exit with a message if there is none."""
    how = _Audit(rules, suppressions)
    shown = printable(str(path))
    if not os.path.lexists(path):
        fail(f"{shown}: there is no such file or folder; name a folder of skills or a SKILL.md", EXIT_USAGE)
    if path.name.lower() == MAIN_FILE_LOWERCASE:
        yield _audited_folder(path.parent, how, ())
    elif os.path.isdir(path):  # noqa: PTH112 - `Path` raises for paths that cannot be accessed
        yield from _audited_below(path, how)
    elif may_be_document(path.absolute()):
        yield _audited_file(path, how)
    else:
        fail(f"{shown}: this is no skill; name a folder of skills, a SKILL.md or a *.skill.md", EXIT_USAGE)


def _audited_below(path: Path, how: _Audit) -> Iterator[AuditedSkill]:
    (source,) = explicit_sources([path])
    found = [Path(each) for each in find_skill_files(source)]
    if not found:
        fail(f"{printable(str(path))}: there is no skill here or in any folder below", EXIT_USAGE)
    folders = {each.parent for each in found if each.name in _MAIN_FILES}
    for each in sorted(found):
        if each.name in _MAIN_FILES:
            nested = (other.relative_to(each.parent) for other in folders if each.parent in other.parents)
            siblings = {other.name for other in folders if other.parent == each.parent.parent and other != each.parent}
            yield _audited_folder(path / each.parent, how, nested, siblings)
        elif not any(folder in each.parents for folder in folders):
            yield _audited_file(path / each, how)


def _audited_folder(folder: Path, how: _Audit, nested: Iterable[Path], siblings: Iterable[str] = ()) -> AuditedSkill:
    """Audit a folder, without the findings in the folders of skills that it contains, which have their own audit."""
    own = tuple(f"{each.as_posix()}/" for each in nested)
    findings = how.of(replace(read_folder(folder), siblings=frozenset(siblings)))
    return AuditedSkill(_shown(folder), tuple(each for each in findings if not each.path.startswith(own)))


def _audited_file(path: Path, how: _Audit) -> AuditedSkill:
    return AuditedSkill(_shown(path.parent), how.of(read_file_of_skill(path)))


def _shown(folder: Path) -> str:
    """Return a folder as findings show it: relative to the working directory if it lies below."""
    try:
        relative = os.path.relpath(folder)
    except ValueError:  # another drive of Windows
        relative = os.pardir
    return Path(folder if relative.startswith(os.pardir) else relative).as_posix()
