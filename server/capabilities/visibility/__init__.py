"""Predict what clients show of a catalog, from the catalog and known facts about clients, without a connection.

`served_listing` is what a client shows of this server, `native_listing` what it would show if it read the same folders
itself. `repacking` computes the effect of shorter texts or another order, and `advice` words it. `report` combines
them and finds skills that interfere with each other; `json_report`, `text_report` and `page` format the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from server.capability import Capability

if TYPE_CHECKING:
    import typer

    from server.capability import PageParts
    from server.hosting.host import Host


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.visibility.commands import visibility
    from server.cli.help_pages import CommandGroup

    app.command(rich_help_panel=CommandGroup.MEASURE)(visibility)


def _page(_: Host) -> PageParts:
    from server.capabilities.visibility.page import page_parts

    return page_parts()


CAPABILITY: Final = Capability(name="visibility", commands=_add_commands, page=_page)
