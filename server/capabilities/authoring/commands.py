"""The commands `init` and `validate`: write a skill, and check skills."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.capabilities.authoring.validation_report import ValidationResult, validation_lines, validation_object
from server.cli.commands.options import AsJson, FollowSymlinks, Strict
from server.cli.console import EXIT_NO, EXIT_USAGE, print_json, print_text
from server.config.bootstrap import open_with_settings
from server.hosting.status import display_path
from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.disk.sources import JDAI_FOLDER, Strictness
from skills_core.format.instructions import may_be_document
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from server.capabilities.authoring.apply_fixes import AppliedFixes
    from skills_core.skills.skill import Skill


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
    from server.capabilities.authoring.apply_fixes import apply_fixes
    from server.capabilities.history.histories import recorded_change
    from skills_core.history.commits import Cause

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


def validate(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Folders of skills, single skill folders or SKILL.md files."),
    ],
    *,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="First fix mechanical errors in the frontmatter and file name of each SKILL.md."),
    ] = False,
    strict: Strict = False,
    follow_symlinks: FollowSymlinks = False,
    as_json: AsJson = False,
) -> None:
    """Check skills for errors, and explain how to fix them.

    The exit code is 1 if a skill is invalid.
    """
    targets = [resolve_target(path) for path in paths]
    applied = apply_all_fixes(targets) if fix else []
    results = [
        result
        for target in targets
        for result in validate_target(target, strict=strict, follow_symlinks=follow_symlinks)
    ]
    results = with_write_errors(results, applied)
    if as_json:
        print_json(validation_object(results, applied))
    else:
        for line in validation_lines(results, applied):
            print_text(line)
    if all(target.error is not None for target in targets):
        raise typer.Exit(EXIT_USAGE)
    if not all(result.valid for result in results):
        raise typer.Exit(EXIT_NO)


def init(
    name: Annotated[str, typer.Argument(help="The name of the skill: lower-case letters, digits and hyphens.")],
    *,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Create the skill's folder in this folder.")] = Path(),
    description: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What the skill does and when to use it.", show_default="a placeholder"),
    ] = None,
) -> None:
    """Create a new skill, and print the path of its SKILL.md."""
    from server.capabilities.authoring.scaffold import write_skill
    from server.capabilities.history.histories import recorded_change
    from skills_core.history.commits import Cause

    with recorded_change([to / name], Cause.INIT, f"Create {name}"):
        main = write_skill(to, name, description)
    print_text(str(main))
