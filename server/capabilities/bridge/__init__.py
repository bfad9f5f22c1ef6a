"""Stubs of the skills in the folders where clients look for skills of their own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from server.capabilities.bridge.settings import SECTION, BridgeSettings
from server.capability import Capability
from server.config.settings.server import Transport

if TYPE_CHECKING:
    from collections.abc import Container

    import typer

    from server.capability import ServerPart
    from server.config.settings.model import Settings
    from server.hosting.host import Host

logger = logging.getLogger(__name__)


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.bridge.commands import bridge
    from server.cli.help_pages import CommandGroup

    app.command(rich_help_panel=CommandGroup.SERVE)(bridge)


def _part(host: Host) -> ServerPart | None:
    from server.transport.listening import requires_login

    if not host.settings.section(BridgeSettings).clients:
        return None
    if requires_login(host.settings):
        logger.warning("no stubs are written: what is seen depends on the login, and the folders have none")
        return None
    from server.capabilities.bridge.part import Bridge

    return Bridge(host)


def _bridged(settings: Settings) -> Container[str]:
    """Return the clients that list the skills themselves: those over stdio, which read the folders of this machine."""
    chosen = settings.section(BridgeSettings).clients
    if not chosen or settings.server.transport is not Transport.STDIO:
        return ()
    from server.capabilities.bridge.clients import bridged_clients

    return {each.facts for each in bridged_clients().values() if each.key in chosen}


CAPABILITY: Final = Capability(name="bridge", sections=(SECTION,), commands=_add_commands, part=_part, bridged=_bridged)
