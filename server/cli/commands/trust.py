"""The command `trust`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.cli.console import NO, WRONG_USE, fail, print_text
from server.config.machine import Machine, current_places
from skills_core.diagnostics import one_line
from skills_core.locations import project_of

__all__ = ["trust"]


def trust(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The project; by default the one here.")] = Path(),
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Trust it no more.")] = False,
    as_list: Annotated[bool, typer.Option("--list", help="Show what is trusted.")] = False,
) -> None:
    """Trust a project: its own skills are served when the server runs in it."""
    machine = Machine(current_places())
    file = machine.trust
    if as_list:
        for folder in file.folders():
            print_text(one_line(str(folder)))
        return
    if not path.is_dir() and not remove:
        fail(f"{path}: there is no such directory", WRONG_USE)
    folder = project_of(path.resolve(), machine.places.home)
    if not remove:
        file.add(folder)
        print_text(one_line(f"trusted: {folder}"))
    elif file.remove(folder):
        print_text(one_line(f"no longer trusted: {folder}"))
    else:
        fail(f"{folder} is not in the list; see skillserve trust --list", NO)
