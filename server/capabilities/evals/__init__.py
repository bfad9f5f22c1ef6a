"""Evals as a person runs them: what is a skill worth, and is it loaded when it should be.

`iterations` runs the test cases of a skill with and without it, and `triggers` its trigger queries. `proposals` asks a
model for a change, `lint` compares the skills of a catalog, and `report` shows the results. `agents` perform the runs
with the `skills` under test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from server.capabilities.evals.settings import SECTION, check_evals
from server.capability import Capability

if TYPE_CHECKING:
    import typer

    from server.capability import PageParts
    from server.hosting.host import Host


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.evals.commands import evaluate, import_evals, lint, report, triggers
    from server.cli.help_pages import CommandGroup

    app.command("eval", rich_help_panel=CommandGroup.MEASURE)(evaluate)
    app.command("eval import", rich_help_panel=CommandGroup.MEASURE)(import_evals)
    for command in (triggers, lint, report):
        app.command(rich_help_panel=CommandGroup.MEASURE)(command)


def _page(_: Host) -> PageParts:
    from server.capabilities.evals.page import page_parts

    return page_parts()


CAPABILITY: Final = Capability(
    name="evals", sections=(SECTION,), commands=_add_commands, checks=check_evals, page=_page
)
