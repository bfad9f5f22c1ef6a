"""Arguments and flags that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["AsJson", "Directories", "FollowSymlinks", "Strict", "TrustWorkspace"]

Directories = Annotated[
    list[Path] | None,
    typer.Argument(metavar="DIR", help="Folders of skills, highest precedence first; by default the usual ones."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
FollowSymlinks = Annotated[
    bool, typer.Option("--follow-symlinks", help="Follow links to skill folders, and links that stay where they are.")
]
TrustWorkspace = Annotated[
    bool, typer.Option("--trust-workspace", help="Serve the skills of the project in the working directory.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Let every breach of a rule make a skill invalid.")]
