"""The commands for those who write skills: `init` and `validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.commands.opening import open_quietly
from server.commands.options import AsJson, FollowSymlinks, Strict
from server.console import NO, WRONG_USE, fail, print_json, print_text
from server.report import folder_of, validation_object
from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.skill import State

__all__ = ["init", "validate"]


def init(
    name: Annotated[str, typer.Argument(help="The skill's name: lower-case letters, digits and hyphens.")],
    *,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where the skill's folder goes.")] = Path(),
    description: Annotated[str | None, typer.Option(help="What it does, and when to use it.")] = None,
) -> None:
    """Write a new skill to begin with."""
    from server.scaffold import write_skill

    print_text(str(write_skill(to, name, description)))


def validate(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Skill folders, SKILL.md files, or folders of skills."),
    ],
    *,
    strict: Strict = False,
    follow_symlinks: FollowSymlinks = False,
    as_json: AsJson = False,
) -> None:
    """Check skills against the rules of their format."""
    results = [result for path in paths for result in _validate(path, strict=strict, follow_symlinks=follow_symlinks)]
    if as_json:
        print_json(validation_object(results))
    else:
        for _, _, diagnostics in results:
            for diagnostic in diagnostics:
                print_text(str(diagnostic))
        valid = sum(1 for _, is_valid, _ in results if is_valid)
        print_text(f"{len(results)} checked: {valid} valid, {len(results) - valid} invalid")
    if not all(is_valid for _, is_valid, _ in results):
        raise typer.Exit(NO)


def _validate(path: Path, *, strict: bool, follow_symlinks: bool) -> list[tuple[str, bool, tuple[Diagnostic, ...]]]:
    """Return (path, valid, diagnostics) for each skill at or below `path`."""
    single = path.is_file()
    if single and path.name.lower() != "skill.md":
        fail(f"{path}: this is no SKILL.md; name the skill's folder", WRONG_USE)
    library = open_quietly([path.parent if single else path], strict=strict, follow_symlinks=follow_symlinks)
    skills = [skill for skill in library.catalog.skills if not (single and skill.content.folder)]
    if not skills:
        where = printable(str(path))
        message = "there is no SKILL.md here or in any folder below"
        return [(where, False, (Diagnostic(Severity.ERROR, Reason.MISSING_SKILL_FILE, message, where),))]
    # Gates and names taken elsewhere say nothing about the skill itself.
    return [(folder_of(skill), skill.state is not State.INVALID, skill.diagnostics) for skill in skills]
