"""Validate the skills at the paths of a command line, and format skills and results for `validate` and `show`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.config.bootstrap import open_with_settings
from server.hosting.status import advised_diagnostic, diagnostic_lines, display_path
from skills_core.diagnostics import Diagnostic, Reason, Severity, one_line, printable
from skills_core.disk.sources import JDAI_FOLDER, Strictness
from skills_core.format.instructions import may_be_document
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from server.capabilities.authoring.writing import AppliedFixes
    from skills_core.skills.skill import Skill


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The result of validating one skill; `path` is its folder, or the path that the user named, as printable text."""

    path: str
    valid: bool
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class ValidationTarget:
    """The skills at one path: all below `folder`, or only the one at the place `only` in it.

    `error` says why there is nothing to validate; then `folder` is None.
    """

    path: Path
    folder: Path | None
    only: str | None = None
    error: Diagnostic | None = None


def resolve_target(path: Path) -> ValidationTarget:
    """Return the target that a path refers to."""
    if os.path.isdir(path):  # noqa: PTH112 - `Path` raises for paths that cannot be accessed
        return ValidationTarget(path, path)
    where = printable(str(path))
    if not os.path.lexists(path):
        error = Diagnostic(Severity.ERROR, Reason.MISSING_DIRECTORY, "there is no such file or folder", where)
        return ValidationTarget(path, None, error=error)
    if path.name.lower() == "skill.md":
        return ValidationTarget(path, path.parent, only="")
    if may_be_document(path.absolute()):
        return ValidationTarget(path, path.parent, only=path.name)
    message = (
        "this is not a folder, a SKILL.md, a *.skill.md, a document below .skills or .claude/skills, or a convention"
        " file"
    )
    return ValidationTarget(path, None, error=Diagnostic(Severity.ERROR, Reason.NOT_A_DIRECTORY, message, where))


def validate_target(target: ValidationTarget, *, strict: bool, follow_symlinks: bool) -> list[ValidationResult]:
    """Return the result for each skill; a target in a folder of JD.AI is read as strictly as it is served."""
    from skills_core.authoring.fixes import respelled_paths

    in_jdai = JDAI_FOLDER in target.path.absolute().parts
    strictness = Strictness.STRICT if strict else Strictness.JDAI if in_jdai else None
    where = printable(str(target.path))
    if target.error is not None:
        return [ValidationResult(where, valid=False, diagnostics=(target.error,))]
    skills = _skills(target, strictness, follow_symlinks=follow_symlinks)
    if not skills:
        message = "there is no skill here" + ("" if target.only else " or in any folder below")
        error = Diagnostic(Severity.ERROR, Reason.MISSING_SKILL_FILE, message, where)
        return [ValidationResult(where, valid=False, diagnostics=(error,))]
    # Only an invalid skill fails: gates and shadowing do not concern the skill itself.
    return [
        ValidationResult(
            display_path(skill), skill.state is not State.INVALID, (*skill.diagnostics, *respelled_paths(skill))
        )
        for skill in skills
    ]


def apply_all_fixes(targets: Iterable[ValidationTarget]) -> list[AppliedFixes]:
    """Fix the skills of all targets, without following symbolic links."""
    from server.capabilities.authoring.writing import apply_fixes
    from server.capabilities.history.histories import recorded_change
    from skills_core.history.versions import Cause

    skills = {
        (skill.source.root, skill.content.folder): skill
        for target in targets
        if target.error is None
        for skill in _skills(target, None, follow_symlinks=False)
    }
    folders = [root / folder for root, folder in skills]
    with recorded_change(folders, Cause.FIX, "Fix mechanical errors"):
        return [applied for skill in skills.values() if (applied := apply_fixes(skill)) is not None]


def with_write_errors(results: Iterable[ValidationResult], applied: Iterable[AppliedFixes]) -> list[ValidationResult]:
    """Return the results with the errors of fixes that could not be written added to their skills."""
    errors = {os.path.dirname(each.path): each.fault for each in applied if each.fault is not None}  # noqa: PTH120
    return [
        replace(result, valid=False, diagnostics=(*result.diagnostics, errors[result.path]))
        if result.path in errors
        else result
        for result in results
    ]


def _skills(target: ValidationTarget, strictness: Strictness | None, *, follow_symlinks: bool) -> list[Skill]:
    if target.folder is None:
        return []
    library = open_with_settings([target.folder], strictness=strictness, follow_symlinks=follow_symlinks)[0]
    return [skill for skill in library.catalog.skills if target.only in {None, skill.content.place}]


def validation_object(results: Iterable[ValidationResult], applied: Iterable[AppliedFixes]) -> dict[str, Any]:
    """Return the object that `validate --json` prints."""
    return {
        "results": [
            {
                "path": result.path,
                "valid": result.valid,
                "diagnostics": [advised_diagnostic(diagnostic) for diagnostic in result.diagnostics],
            }
            for result in results
        ],
        "fixed": [
            {"path": each.path, "line": fix.line, "code": fix.code.value, "message": fix.message}
            for each in applied
            for fix in each.fixes
        ],
    }


def validation_lines(results: Sequence[ValidationResult], applied: Iterable[AppliedFixes]) -> Iterator[str]:
    """Yield the lines that `validate` prints without --json."""
    for each in applied:
        for fix in each.fixes:
            yield one_line(f"fixed: {each.path}:{fix.line}: {fix.message}")
    for result in results:
        for diagnostic in result.diagnostics:
            yield from diagnostic_lines(diagnostic)
    valid = sum(result.valid for result in results)
    yield f"{len(results)} checked: {valid} valid, {len(results) - valid} invalid"
