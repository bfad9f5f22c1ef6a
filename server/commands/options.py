"""Arguments and flags that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.config import Conventions
from server.console import WRONG_USE, fail

__all__ = [
    "AsJson",
    "ConventionFiles",
    "Directories",
    "FollowSymlinks",
    "GitIgnored",
    "NoAdapt",
    "Param",
    "Strict",
    "TrustWorkspace",
    "values_of",
]

Directories = Annotated[
    list[Path] | None,
    typer.Argument(metavar="DIR", help="Folders of skills, highest precedence first; by default the usual ones."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
FollowSymlinks = Annotated[
    bool, typer.Option("--follow-symlinks", help="Follow links to skill folders, and links that stay where they are.")
]
ConventionFiles = Annotated[
    Conventions | None,
    typer.Option("--conventions", help="Where files such as AGENTS.md are skills; in directories that are named."),
]
GitIgnored = Annotated[bool, typer.Option("--gitignore", help="Leave out what git ignores.")]
TrustWorkspace = Annotated[
    bool, typer.Option("--trust-workspace", help="Serve the skills of the project in the working directory.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Let every breach of a rule make a skill invalid.")]
NoAdapt = Annotated[
    bool, typer.Option("--no-adapt", help="Do not say what the tools and files that a skill names are called here.")
]
Param = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A parameter's value; may be repeated.")]


def values_of(pairs: list[str] | None) -> dict[str, str]:
    """Return what several `--param` give; one that is no NAME=VALUE ends the command."""
    values: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            fail(f"--param {pair!r}: expected NAME=VALUE", WRONG_USE)
        values[key] = value
    return values
