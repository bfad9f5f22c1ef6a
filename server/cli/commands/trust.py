"""The command `trust`: manage the list of trusted projects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_text
from server.config.machine import Machine, current_places
from skills_core.diagnostics import one_line
from skills_core.locations import project_of

__all__ = ["trust"]


def trust(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A folder of the project.", show_default="the working directory")
    ] = Path(),
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the project from the trusted projects.")] = False,
    as_list: Annotated[bool, typer.Option("--list", help="List the trusted projects.")] = False,
) -> None:
    """Trust a project, so that its skills and settings are used.

    Servers and commands use them when they run in the project.
    """
    machine = Machine(current_places())
    file = machine.trust
    if as_list:
        for folder in file.folders():
            print_text(one_line(str(folder)))
        return
    if not path.is_dir() and not remove:
        fail(f"{path}: there is no such directory", EXIT_USAGE)
    folder = project_of(path.resolve(), machine.places.home)
    if not remove:
        file.add(folder)
        print_text(one_line(f"trusted: {folder}"))
    elif file.remove(folder):
        print_text(one_line(f"no longer trusted: {folder}"))
    else:
        fail(f"{folder} is not trusted; `skillserve trust --list` shows the trusted projects", EXIT_NO)
