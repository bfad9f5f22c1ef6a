"""The command `init`: create a new skill."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.cli.console import print_text

__all__ = ["init"]


def init(
    name: Annotated[str, typer.Argument(help="The name of the skill: lower-case letters, digits and hyphens.")],
    *,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Create the skill's folder in this folder.")] = Path(),
    description: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What the skill does and when to use it.", show_default="a placeholder"),
    ] = None,
) -> None:
    """Create a new skill, and print the path of its SKILL.md."""
    from server.authoring.scaffold import write_skill
    from server.history.histories import recorded_change
    from skills_core.history.commits import Cause

    with recorded_change([to / name], Cause.INIT, f"Create {name}"):
        main = write_skill(to, name, description)
    print_text(str(main))
