"""Connect clients: add this server to their configuration files, and remove it again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from server.capability import Capability, PageParts, PublicAddress

if TYPE_CHECKING:
    import typer

    from server.config.settings.model import Settings
    from server.hosting.host import Host


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.connect.commands import connect
    from server.cli.help_pages import CommandGroup

    app.command(rich_help_panel=CommandGroup.SERVE)(connect)


def _hints(settings: Settings, address: PublicAddress) -> Iterable[str]:
    from server.transport.client_commands import TOKEN_HEADER, connect_command
    from server.transport.listening import requires_login

    command = connect_command(address.endpoint, TOKEN_HEADER if requires_login(settings) else "")
    return ("Or let skillserve do so, for every client that it finds, or for one that you name:", f"  {command}")


def _page(host: Host) -> PageParts:
    from server.capabilities.connect.page import page_parts

    return page_parts(host)


CAPABILITY: Final = Capability(name="connect", commands=_add_commands, hints=_hints, page=_page)
