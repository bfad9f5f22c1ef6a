"""The commands `init` and `validate`: write a skill, and check skills."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.cli.commands.options import AsJson, FollowSymlinks, Strict
from server.cli.console import EXIT_NO, EXIT_USAGE, print_json, print_text


def validate(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Folders of skills, single skill folders or SKILL.md files.",
            show_default="this folder",
        ),
    ] = None,
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
    from server.capabilities.authoring import validation

    targets = [validation.resolve_target(path) for path in paths or [Path()]]
    applied = validation.apply_all_fixes(targets) if fix else []
    results = [
        result
        for target in targets
        for result in validation.validate_target(target, strict=strict, follow_symlinks=follow_symlinks)
    ]
    results = validation.with_write_errors(results, applied)
    if as_json:
        print_json(validation.validation_object(results, applied))
    else:
        for line in validation.validation_lines(results, applied):
            print_text(line)
    if all(target.error is not None for target in targets):
        raise typer.Exit(EXIT_USAGE)
    if not all(result.valid for result in results):
        raise typer.Exit(EXIT_NO)


def init(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The name of the skill: lower-case letters, digits and hyphens.")
    ],
    *,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Create the skill's folder in this folder.")] = Path(),
    description: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What the skill does and when to use it.", show_default="a placeholder"),
    ] = None,
) -> None:
    """Create a new skill, and print the path of its SKILL.md."""
    from server.capabilities.authoring.writing import write_skill
    from server.capabilities.history.histories import recorded_change
    from skills_core.history.versions import Cause

    with recorded_change([to / name], Cause.INIT, f"Create {name}"):
        main = write_skill(to, name, description)
    print_text(str(main))
