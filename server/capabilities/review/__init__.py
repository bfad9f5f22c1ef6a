"""Reviews of changes: what a branch does to the skills of a repository, as a report for its pull request.

`revisions` reads git, `changes` pairs the versions of each skill, `findings` and `triggers` compare what can be told
without a model, and `agents` what an agent does. `gates` says what fails, and `markdown` and `json_report` write the
`report` down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from server.capability import Capability

if TYPE_CHECKING:
    import typer


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.review.commands import review
    from server.cli.help_pages import CommandGroup

    app.command(rich_help_panel=CommandGroup.MEASURE)(review)


CAPABILITY: Final = Capability(name="review", commands=_add_commands)
