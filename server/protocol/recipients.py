"""The recipient that a text is rendered for: what is known of the client, and its tool names in the settings."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.capabilities import CAPABILITIES
from server.clients.known import KNOWN_CLIENTS, Sender, client_called, client_of, find_client, sender_of
from server.clients.layout import called_in, link_reader_of
from server.clients.profile import UNKNOWN, ClientProfile, holds
from skills_core.rendering.catalog import ACTIVATION_TOOL
from skills_core.rendering.recipient import Recipient
from skills_core.toolboxes import PRESETS, toolbox_named

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from server.config.settings.model import Settings
    from server.hosting.views import View
    from server.protocol.client_roots import ClientRoots


ANY_CLIENT = "*"
"""The key of the table of tool names for all clients."""

MAX_KEPT = 256
"""Most recipients that are kept."""


class Recipients:
    """Finds the recipient of a request's text; those of the last clients are kept, since each activation needs one."""

    def __init__(self, settings: Settings, roots: ClientRoots) -> None:
        """Take tool names from `settings`; clients' own tools read below `roots`."""
        self._settings = settings
        self._roots = roots
        self._made = lru_cache(MAX_KEPT)(self._make)

    def of(self, ctx: ServerRequestContext[Any, Any], view: View) -> Recipient:
        """Return the recipient of texts for the sender of a request, who has the tools of `view`."""
        client = client_of(ctx)
        reads_everywhere, roots = self._roots.reads_everywhere(client, ctx), self._roots.of(client)
        return self._made(sender_of(ctx), reads_everywhere, view.settings.tools.enabled, roots)

    def _make(
        self,
        sender: Sender | None,
        local: bool,  # noqa: FBT001 - the cache tells calls with names apart from others
        tools: tuple[str, ...],
        roots: frozenset[Path],
    ) -> Recipient:
        client = client_called(*sender) if sender is not None else UNKNOWN
        recipient = _recipient(sender.name if sender else "", client, self._settings, local=local, roots=roots)
        return recipient if recipient.script_tool in tools else replace(recipient, script_tool=None)


def recipient_called(name: str | None, settings: Settings, *, local: bool) -> Recipient | None:
    """Return the recipient by a client's name, or by the key of a client or preset; None if there is none.

    Without a name, the recipient is an unknown client. `local` tells that its own tools read this disk.
    """
    key = (name or "").strip().lower()
    profile = find_client(key)
    if profile is UNKNOWN and (toolbox := toolbox_named(key)):
        profile = ClientProfile(key, toolbox.title, toolbox=key)
    named = any(_fits(table, key, profile) for table in settings.clients.tool_names)
    if name is not None and profile is UNKNOWN and not named:
        return None
    return _recipient(key, profile, settings, local=local)


def known_names(settings: Settings) -> list[str]:
    """Return the keys that `recipient_called` knows, sorted."""
    keys = {client.key for client in KNOWN_CLIENTS} | {toolbox.key for toolbox in PRESETS}
    return sorted(keys | {table.lower() for table in settings.clients.tool_names if table != ANY_CLIENT})


def _recipient(
    name: str, profile: ClientProfile, settings: Settings, *, local: bool, roots: frozenset[Path] = frozenset()
) -> Recipient:
    tables = [table for table in settings.clients.tool_names if table == ANY_CLIENT or _fits(table, name, profile)]
    own: dict[str, str] = {}
    # Specific tables override general ones; the longer the name, the more specific the table.
    for table in sorted(tables, key=lambda table: (table != ANY_CLIENT, len(table))):
        own |= settings.clients.tool_names[table]
    return Recipient(
        local=local,
        roots=roots,
        toolbox=toolbox_named(profile.toolbox),
        reads_resources=holds(profile.model_reads),
        link_reader=link_reader_of(profile, settings),
        own=own,
        activation_tool=called_in(profile, ACTIVATION_TOOL, settings),
        script_tool=_script_tool(settings),
        adapt=settings.clients.adapt,
    )


def _script_tool(settings: Settings) -> str | None:
    return next((each.script_tool(settings) for each in CAPABILITIES if each.script_tool is not None), None)


def _fits(table: str, name: str, profile: ClientProfile) -> bool:
    """Return whether a table applies to a client: it is named by the client's key, or by a prefix of its name."""
    folded = table.strip().lower()
    return folded == profile.key or (folded != "" and name.strip().lower().startswith(folded))
