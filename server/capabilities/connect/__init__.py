"""Connect clients: add this server to their configuration files, and remove it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from server.capability import Capability

if TYPE_CHECKING:
    import typer


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.connect.commands import connect
    from server.cli.help_pages import CommandGroup

    app.command(rich_help_panel=CommandGroup.SERVE)(connect)


CAPABILITY: Final = Capability(name="connect", commands=_add_commands)
