"""The command `validate`: check skills, and fix mechanical errors."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated

import typer

from server.cli.commands.options import AsJson, FollowSymlinks, Strict
from server.cli.console import EXIT_NO, EXIT_USAGE, print_json, print_text
from server.cli.validation_report import validation_lines, validation_object

__all__ = ["validate"]


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
    from server.cli.commands.validate_paths import apply_all_fixes, resolve_target, validate_target, with_write_errors

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
