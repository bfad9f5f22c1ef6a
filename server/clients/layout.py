"""The layout of the lists for a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.capabilities import CAPABILITIES
from server.clients.profile import ClientProfile, StructureUse, holds
from server.listing.extensions import NO_EXTENSIONS
from server.listing.layout import MAX_INSTRUCTIONS, MAX_TOPICS, CatalogPlace, ListingLayout, NameEnum
from skills_core.rendering.catalog import ACTIVATION_TOOL
from skills_core.toolboxes import ToolPurpose, toolbox_named

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from server.listing.snapshot import Snapshot

_SEARCHED_TOPICS = 4000
# Characters of topics where a client's search reads whole descriptions.

_SHOWS_ENOUGH = 1000
# From as many characters of instructions, some of the catalog can stand there.


def layout_for(client: ClientProfile, settings: Settings, extensions: frozenset[str] = NO_EXTENSIONS) -> ListingLayout:
    """Return how the lists are laid out for a client, from what is known of it, if it takes part in `extensions`.

    A budget configured for this client is used as it is. Otherwise the budget of the catalog is the smaller of what the
    client is known to show and what is configured for all clients.
    """
    own = settings.clients.budgets.get(client.key)
    lists_them = any(each.bridged is not None and client.key in each.bridged(settings) for each in CAPABILITIES)
    described = client.description.characters if client.description else None
    return ListingLayout(
        catalog=own or min(described or settings.catalog.budget, settings.catalog.budget),
        place=CatalogPlace.CLIENT if lists_them else _place(client),
        instructions=max(client.instructions.characters if client.instructions else 0, MAX_INSTRUCTIONS),
        topics=_SEARCHED_TOPICS if client.defers else MAX_TOPICS,
        description=described,
        schema=client.schema.value if client.schema else None,
        enum=NameEnum.NEVER if lists_them else _enum(client),
        structured=is_structured(client, settings),
        deferred=client.defers,
        in_sight=client.lazy_tools is not None and not client.defers,
        search_hint=holds(client.search_hint),
        activation_tool=called_in(client, ACTIVATION_TOOL, settings),
        link_reader=link_reader_of(client, settings),
        extensions=extensions,
    )


def _place(client: ClientProfile) -> CatalogPlace:
    """Return where the client shows the catalog; where no limit of the instructions is known, they are shown whole."""
    if client.defers and client.deferred is not None and client.deferred.characters and client.instructions is None:
        return CatalogPlace.INSTRUCTIONS
    shows_enough = client.instructions is not None and client.instructions.characters >= _SHOWS_ENOUGH
    return CatalogPlace.EVERYWHERE if client.description is not None and shows_enough else CatalogPlace.DESCRIPTION


def _enum(client: ClientProfile) -> NameEnum:
    if holds(client.drops_enum):
        return NameEnum.NEVER
    if not holds(client.checks_enum):
        return NameEnum.ALWAYS
    return NameEnum.COMPLETE if client.refreshes else NameEnum.NEVER


def may_refuse_names(client: ClientProfile, settings: Settings) -> bool:
    """Tell whether a client may refuse names that an older list does not have, before it asks this server."""
    return client.checks_enum is None and layout_for(client, settings).enum is not NameEnum.NEVER


def is_structured(client: ClientProfile, settings: Settings) -> bool:
    """Tell whether results for a client have `structuredContent` beside their text.

    Many clients then drop the text, or show their models both. So only programs get it, as far as they are known.
    """
    is_program = client.structure is not None and client.structure.value is StructureUse.PROGRAM
    return is_program or settings.clients.structured_results


def link_reader_of(client: ClientProfile, settings: Settings) -> str | None:
    """Return the client's tool for resources, if the model trusts what it reads but not the results of our tools."""
    if not settings.clients.adapt or not holds(client.model_reads) or not holds(client.untrusted):
        return None
    toolbox = toolbox_named(client.toolbox)
    return toolbox.first(ToolPurpose.READ_RESOURCE) if toolbox else None


def called_in(client: ClientProfile, tool: str, settings: Settings) -> str:
    """Return what a client's model calls one of our tools, where the bare name means a tool of the client's own.

    The name under which the user has configured this server is known only if the settings tell it.
    """
    if client.called is None or not holds(client.own_activation):
        return tool
    return client.called.value.format(server=settings.clients.server_name or "*", tool=tool)


def page_for(client: ClientProfile, page: dict[str, Any], what: str) -> dict[str, Any]:
    """Return a page of `prompts/list` or `resources/list`, as `what` says, as it is sent to `client`.

    The page is empty for a client that makes a tool of each entry: our tools do the same for all skills.
    """
    if not client.makes_tools_of(what):
        return page
    return {**{key: value for key, value in page.items() if key != "nextCursor"}, what: []}


def tools_for(snapshot: Snapshot, client: ClientProfile) -> list[dict[str, Any]]:
    """Return the entries of `tools/list` as they are sent to `client`."""
    tools: list[dict[str, Any]] = snapshot.tools(layout_for(client, snapshot.settings))["tools"]
    return tools


def activation_tool(snapshot: Snapshot, client: ClientProfile) -> dict[str, Any] | None:
    """Return the tool `activate_skill` as it is sent to `client`; None if no skill is for models."""
    return next((tool for tool in tools_for(snapshot, client) if tool["name"] == ACTIVATION_TOOL), None)


def instructions_for(snapshot: Snapshot, client: ClientProfile) -> str | None:
    """Return the instructions as they are sent to `client`."""
    return snapshot.instructions(layout_for(client, snapshot.settings))
