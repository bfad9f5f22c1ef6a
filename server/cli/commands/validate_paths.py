"""What `validate` does with the paths that it is given: check the skills there, and with `--fix` fix them first."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from server.cli.validation_report import ValidationResult
from server.config.bootstrap import open_quietly
from server.hosting.status import shown_place
from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.loading.documents import may_be_document
from skills_core.skill import State

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from server.authoring.apply_fixes import AppliedFixes
    from skills_core.skill import Skill

__all__ = ["Place", "check", "fix_all", "place_of", "with_faults"]


@dataclass(frozen=True, slots=True)
class Place:
    """What one path stands for: `folder` with the skills below it, or with `only` the one at that place in it.

    `fault` says why there is nothing to check; then there is no folder.
    """

    path: Path
    folder: Path | None
    only: str | None = None
    fault: Diagnostic | None = None


def place_of(path: Path) -> Place:
    """Look at a path that a user named."""
    if os.path.isdir(path):  # noqa: PTH112 - of a path that cannot be looked at, `Path` raises
        return Place(path, path)
    where = printable(str(path))
    if not os.path.lexists(path):
        fault = Diagnostic(Severity.ERROR, Reason.MISSING_DIRECTORY, "there is no such file or folder", where)
        return Place(path, None, fault=fault)
    if path.name.lower() == "skill.md":
        return Place(path, path.parent, only="")
    if may_be_document(path.absolute()):
        return Place(path, path.parent, only=path.name)
    message = "this is no folder, no SKILL.md, no document below .skills and no convention file"
    return Place(path, None, fault=Diagnostic(Severity.ERROR, Reason.NOT_A_DIRECTORY, message, where))


def check(place: Place, *, strict: bool, follow_symlinks: bool) -> list[ValidationResult]:
    """Return the result for each skill at a place."""
    where = printable(str(place.path))
    if place.fault is not None:
        return [ValidationResult(where, valid=False, diagnostics=(place.fault,))]
    skills = _skills(place, strict=strict, follow_symlinks=follow_symlinks)
    if not skills:
        message = "there is no skill here" + ("" if place.only else " or in any folder below")
        fault = Diagnostic(Severity.ERROR, Reason.MISSING_SKILL_FILE, message, where)
        return [ValidationResult(where, valid=False, diagnostics=(fault,))]
    # Gates and names taken elsewhere say nothing about the skill itself.
    return [
        ValidationResult(shown_place(skill), skill.state is not State.INVALID, skill.diagnostics) for skill in skills
    ]


def fix_all(places: Iterable[Place]) -> list[AppliedFixes]:
    """Mend the skills at all places; links are not followed."""
    from server.authoring.apply_fixes import apply_fixes

    skills = {
        (skill.source.root, skill.content.folder): skill
        for place in places
        if place.fault is None
        for skill in _skills(place, strict=False, follow_symlinks=False)
    }
    return [mended for skill in skills.values() if (mended := apply_fixes(skill)) is not None]


def with_faults(results: Iterable[ValidationResult], mended: Iterable[AppliedFixes]) -> list[ValidationResult]:
    """Return the results with what could not be written, each at the skill that it is of."""
    faults = {os.path.dirname(each.path): each.fault for each in mended if each.fault is not None}  # noqa: PTH120
    return [
        replace(result, valid=False, diagnostics=(*result.diagnostics, faults[result.path]))
        if result.path in faults
        else result
        for result in results
    ]


def _skills(place: Place, *, strict: bool, follow_symlinks: bool) -> list[Skill]:
    if place.folder is None:
        return []
    library = open_quietly([place.folder], strict=strict, follow_symlinks=follow_symlinks)
    return [skill for skill in library.catalog.skills if place.only in {None, skill.content.place}]
