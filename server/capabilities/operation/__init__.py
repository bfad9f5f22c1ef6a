"""What operators learn of a running server and do to it: probes, metrics, spans, status, and the reload of skills."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from server.capabilities.operation.settings import RELOAD_SKILLS, SECTION, SKILLS_STATUS, STATUS_URI, check_operation
from server.capability import Capability, ExtraResource, ToolModule

if TYPE_CHECKING:
    import typer

    from server.capability import PageParts, ServerPart
    from server.config.settings.model import Settings
    from server.hosting.host import Host
    from skills_core.catalog.catalog import Catalog
    from skills_core.live.library import Change


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.operation.commands import reload, watch
    from server.cli.help_pages import CommandGroup

    app.command(rich_help_panel=CommandGroup.OPERATE)(reload)
    app.command(rich_help_panel=CommandGroup.OPERATE)(watch)


_TOOLS: Final = (SKILLS_STATUS, RELOAD_SKILLS)

_STATUS: Final = {
    "name": "skills-status",
    "title": "Status of all skills",
    "description": "Every skill found, its state, and why.",
    "mimeType": "application/json",
    "annotations": {"audience": ["user"], "priority": 0.1},
}


async def _read_status(catalog: Catalog, settings: Settings) -> str:
    from server.capabilities.operation.tools import read_status

    return json.dumps(await read_status(catalog, settings), ensure_ascii=False)


def _status_differs(change: Change) -> bool:
    from server.capabilities.operation.tools import status_differs

    return status_differs(change)


def _part(host: Host) -> ServerPart:
    from server.capabilities.operation.part import Operation

    return host.service(Operation)


def _page(host: Host) -> PageParts:
    from server.capabilities.operation.page import page_parts

    return page_parts(host)


CAPABILITY: Final = Capability(
    name="operation",
    sections=(SECTION,),
    commands=_add_commands,
    checks=check_operation,
    tools=(ToolModule("server.capabilities.operation.tools", _TOOLS, administrative=frozenset(_TOOLS)),),
    resources=(ExtraResource(STATUS_URI, _STATUS, SKILLS_STATUS, _read_status, _status_differs),),
    part=_part,
    page=_page,
)
