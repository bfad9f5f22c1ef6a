"""The guard of tool calls: the hook of agents, the tool that checks a call, and the patterns of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from server.capabilities.guard.settings import CHECK_TOOL_CALL, SECTION
from server.capability import Capability, ToolModule

if TYPE_CHECKING:
    import typer


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.guard.commands import guard
    from server.cli.help_pages import CommandGroup

    app.command(rich_help_panel=CommandGroup.RUN)(guard)


CAPABILITY: Final = Capability(
    name="guard",
    sections=(SECTION,),
    commands=_add_commands,
    tools=(ToolModule("server.capabilities.guard.tools", (CHECK_TOOL_CALL,)),),
)
