"""Write the files of the commands `init` and `validate --fix`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from server.capability import Capability

if TYPE_CHECKING:
    import typer


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.authoring.commands import init, validate
    from server.cli.help_pages import CommandGroup

    app.command(rich_help_panel=CommandGroup.WRITE)(init)
    app.command(rich_help_panel=CommandGroup.WRITE)(validate)


CAPABILITY: Final = Capability(name="authoring", commands=_add_commands)
