"""The commands `workflow …`: a group of its own."""

from __future__ import annotations

import os
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated

import typer

from server.commands.options import AsJson, FollowSymlinks, Strict, TrustWorkspace
from server.console import NO, WRONG_USE, fail, print_json, print_text

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Workflows: skills performed one after another.",
)


@app.callback()
def workflow() -> None:
    """Keep the commands a group, however many there are."""


@app.command()
def validate(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="FILE... [DIR...]", help="Workflows, and folders of skills; by default the usual ones."),
    ],
    *,
    as_json: AsJson = False,
    strict: Strict = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Check workflows, with the skills, steps and inputs that they name."""
    from server.commands.opening import open_quietly
    from server.workflows import check_file, workflow_lines, workflows_object

    folders = [path for path in paths if os.path.isdir(path)]  # noqa: PTH112 - of some paths, `Path` raises
    files = [path for path in paths if path not in folders]
    if not files:
        fail("there is no workflow among the paths, only folders; name at least one file", WRONG_USE)
    catalog = open_quietly(
        folders,
        strict=strict,
        follow_symlinks=follow_symlinks,
        trust_workspace=trust_workspace,
    ).catalog
    results = [check_file(path, catalog) for path in files]
    if as_json:
        print_json(workflows_object(results))
    else:
        for line in workflow_lines(results):
            print_text(line)
    if not any(result.found for result in results):
        raise typer.Exit(WRONG_USE)
    if not all(result.valid for result in results):
        raise typer.Exit(NO)
