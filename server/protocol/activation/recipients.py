"""For whom a text is rendered: what is known of the client that asks, and what settings say of its tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.clients import KNOWN_CLIENTS, UNKNOWN, ClientProfile, client_of, profile_of
from server.config.settings import OptionalTool
from skills_core.rendering.recipient import Recipient
from skills_core.toolboxes import PRESETS, toolbox_named

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from server.config.settings import Settings

__all__ = ["ANY_CLIENT", "known_names", "recipient_called", "recipient_of"]

ANY_CLIENT = "*"
"""The table of tool names that is for every client."""


def recipient_of(ctx: ServerRequestContext[Any, Any], settings: Settings, *, local: bool) -> Recipient:
    """Return who sent a request; `local` tells that clients see the same disk."""
    sent = ctx.session.client_params
    return _recipient(sent.client_info.name if sent is not None else "", client_of(ctx), settings, local=local)


def recipient_called(name: str | None, settings: Settings, *, local: bool) -> Recipient | None:
    """Return who calls itself `name`, or is the client or the preset of that key; None where nothing is known of it.

    Without a name it is any client.
    """
    key = (name or "").strip().lower()
    profile = next((client for client in KNOWN_CLIENTS if client.key == key), profile_of(name, KNOWN_CLIENTS))
    if profile is UNKNOWN and (toolbox := toolbox_named(key)):
        profile = ClientProfile(key, toolbox.title, toolbox=key)
    named = any(_fits(table, key, profile) for table in settings.clients.tool_names)
    if name is not None and profile is UNKNOWN and not named:
        return None
    return _recipient(key, profile, settings, local=local)


def known_names(settings: Settings) -> list[str]:
    """Return the keys that `recipient_called` knows, in order."""
    keys = {client.key for client in KNOWN_CLIENTS} | {toolbox.key for toolbox in PRESETS}
    return sorted(keys | {table.lower() for table in settings.clients.tool_names if table != ANY_CLIENT})


def _recipient(name: str, profile: ClientProfile, settings: Settings, *, local: bool) -> Recipient:
    tables = [table for table in settings.clients.tool_names if table == ANY_CLIENT or _fits(table, name, profile)]
    own: dict[str, str] = {}
    # What is said of one client wins over what is said of many: the longer the name, the closer it fits.
    for table in sorted(tables, key=lambda table: (table != ANY_CLIENT, len(table))):
        own |= settings.clients.tool_names[table]
    return Recipient(
        local=local,
        toolbox=toolbox_named(profile.toolbox),
        reads_resources=profile.reads_resources,
        own=own,
        script_tool=_script_tool(settings),
        adapt=settings.clients.adapt,
    )


def _script_tool(settings: Settings) -> str | None:
    if OptionalTool.RUN_SKILL_SCRIPT not in settings.tools.enabled:
        return None
    # What runs programs is loaded only where programs are run.
    from server.scripts.factory import offers_scripts  # noqa: PLC0415

    return OptionalTool.RUN_SKILL_SCRIPT.value if offers_scripts(settings) else None


def _fits(table: str, name: str, profile: ClientProfile) -> bool:
    """Tell whether a table is for a client: by its key, or by the beginning of the name that it sends."""
    folded = table.strip().lower()
    return folded == profile.key or (folded != "" and name.strip().lower().startswith(folded))
