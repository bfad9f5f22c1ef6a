"""Skills of other servers: listed over MCP, verified as the Skills extension requires of hosts, written to folders.

`client` speaks the protocol, `skills` lists and verifies skills by the rules of `skills_core`, and `operations` runs
the commands `verify` and `fetch`. Servers are treated as hostile: their answers are bounded in bytes, time and pages,
and their paths are never trusted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from server.capability import Capability

if TYPE_CHECKING:
    import typer


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.remote.commands import fetch, plugin, verify
    from server.cli.help_pages import CommandGroup

    app.command(rich_help_panel=CommandGroup.SERVE)(verify)
    app.command(rich_help_panel=CommandGroup.SERVE)(fetch)
    app.add_typer(plugin, name="plugin", rich_help_panel=CommandGroup.SERVE)


CAPABILITY: Final = Capability(name="remote", commands=_add_commands)
