"""The commands for those who write skills: `init` and `validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.cli.commands.options import AsJson, FollowSymlinks, Strict
from server.cli.console import NO, WRONG_USE, print_json, print_text
from server.cli.validation_report import validation_lines, validation_object

__all__ = ["init", "validate"]


def init(
    name: Annotated[str, typer.Argument(help="The skill's name: lower-case letters, digits and hyphens.")],
    *,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where the skill's folder goes.")] = Path(),
    description: Annotated[str | None, typer.Option(help="What it does, and when to use it.")] = None,
) -> None:
    """Write a new skill to begin with."""
    from server.authoring.scaffold import write_skill

    print_text(str(write_skill(to, name, description)))


def validate(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Skill folders, SKILL.md files, or folders of skills."),
    ],
    *,
    fix: Annotated[
        bool, typer.Option("--fix", help="First mend what is mechanical in each SKILL.md; the body stays as it is.")
    ] = False,
    strict: Strict = False,
    follow_symlinks: FollowSymlinks = False,
    as_json: AsJson = False,
) -> None:
    """Check skills against the rules of their format, and say how to mend what breaks them."""
    from server.cli.commands.validate_paths import check, fix_all, place_of, with_faults

    places = [place_of(path) for path in paths]
    mended = fix_all(places) if fix else []
    results = [each for place in places for each in check(place, strict=strict, follow_symlinks=follow_symlinks)]
    results = with_faults(results, mended)
    if as_json:
        print_json(validation_object(results, mended))
    else:
        for line in validation_lines(results, mended):
            print_text(line)
    if all(place.fault is not None for place in places):
        raise typer.Exit(WRONG_USE)
    if not all(result.valid for result in results):
        raise typer.Exit(NO)
