"""Arguments and flags that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.config import Conventions

__all__ = [
    "AsJson",
    "ConventionFiles",
    "Directories",
    "FollowSymlinks",
    "GitIgnored",
    "NoAdapt",
    "RequireSandbox",
    "Strict",
    "TrustWorkspace",
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
RequireSandbox = Annotated[bool, typer.Option("--require-sandbox", help="Run no script where no sandbox works.")]
