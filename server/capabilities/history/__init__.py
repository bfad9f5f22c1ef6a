"""Histories of the sources that the settings name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from server.capabilities.history.settings import ROLLBACK_SKILL, SECTION, SKILL_HISTORY, check_history
from server.capability import Capability, ToolModule

if TYPE_CHECKING:
    import typer

    from server.capability import PageParts, ServerPart
    from server.hosting.host import Host
    from skills_core.disk.sources import Source


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.history.commands import history, rollback
    from server.cli.help_pages import CommandGroup

    app.command(rich_help_panel=CommandGroup.WRITE)(rollback)
    app.add_typer(history, name="history", rich_help_panel=CommandGroup.WRITE)


def _before_loading(sources: Iterable[Source]) -> None:
    from server.capabilities.history.at_start import complete_interrupted_changes

    complete_interrupted_changes(sources)


def _part(host: Host) -> ServerPart:
    from server.capabilities.history.at_start import EditRecording

    return host.service(EditRecording)


def _page(host: Host) -> PageParts:
    from server.capabilities.history.page import page_parts

    return page_parts(host)


CAPABILITY: Final = Capability(
    name="history",
    sections=(SECTION,),
    commands=_add_commands,
    checks=check_history,
    tools=(
        ToolModule(
            "server.capabilities.history.tools",
            (SKILL_HISTORY, ROLLBACK_SKILL),
            administrative=frozenset({ROLLBACK_SKILL}),
        ),
    ),
    before_loading=_before_loading,
    part=_part,
    page=_page,
)
