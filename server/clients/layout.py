"""What a client is sent: the layout of its lists, and the room for the results of its calls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from server.clients.profile import ClientProfile, Limit, Unit, holds
from server.listing.envelope import without_envelope
from server.listing.layout import MAX_INSTRUCTIONS, MAX_TOPICS, CatalogPlace, ListingLayout, NameEnum
from server.listing.tools import CORE_TOOLS, MAX_RESULT
from skills_core.rendering import ACTIVATION_TOOL, utf16_length
from skills_core.toolboxes import Capability, toolbox_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.context import ServerRequestContext

    from server.config.settings.model import Settings


_SEARCHED_TOPICS = 4000
# Characters of topics where a client's search reads whole descriptions.

_SHOWS_ENOUGH = 1000
# From as many characters of instructions, some of the catalog can stand there.


def layout_for(client: ClientProfile, settings: Settings) -> ListingLayout:
    """Return how the lists are laid out for a client, from what is known of it.

    A budget configured for this client is used as it is. Otherwise the budget of the catalog is the smaller of what the
    client is known to show and what is configured for all clients.
    """
    own = settings.clients.budgets.get(client.key)
    described = client.description.characters if client.description else None
    return ListingLayout(
        catalog=own or min(described or settings.catalog.budget, settings.catalog.budget),
        place=_place(client),
        instructions=max(client.instructions.characters if client.instructions else 0, MAX_INSTRUCTIONS),
        topics=_SEARCHED_TOPICS if client.defers else MAX_TOPICS,
        schema=client.schema.value if client.schema else None,
        enum=_enum(client),
        structured=is_structured(client),
        deferred=client.defers,
        search_hint=holds(client.search_hint),
        activation_tool=called_in(client, ACTIVATION_TOOL, settings),
        link_reader=link_reader_of(client, settings),
    )


def _place(client: ClientProfile) -> CatalogPlace:
    """Return where the client shows the catalog; where no limit of the instructions is known, they are shown whole."""
    if client.defers and client.deferred is not None and client.deferred.characters and client.instructions is None:
        return CatalogPlace.INSTRUCTIONS
    shows_enough = client.instructions is not None and client.instructions.characters >= _SHOWS_ENOUGH
    return CatalogPlace.BOTH if client.description is not None and shows_enough else CatalogPlace.DESCRIPTION


def _enum(client: ClientProfile) -> NameEnum:
    if not holds(client.checks_enum):
        return NameEnum.ALWAYS
    return NameEnum.COMPLETE if client.refreshes else NameEnum.NEVER


def is_structured(client: ClientProfile) -> bool:
    """Tell whether results for a client have `structuredContent` beside their text.

    Where a client drops or ignores one of both, or shows both, the structure costs more than it brings.
    """
    return client.structure is None


def link_reader_of(client: ClientProfile, settings: Settings) -> str | None:
    """Return the client's tool for resources, if the model trusts what it reads but not the results of our tools."""
    if not settings.clients.adapt or not holds(client.model_reads) or not holds(client.untrusted):
        return None
    toolbox = toolbox_named(client.toolbox)
    return toolbox.first(Capability.READ_RESOURCE) if toolbox else None


def called_in(client: ClientProfile, tool: str, settings: Settings) -> str:
    """Return what a client's model calls one of our tools, where the bare name means a tool of the client's own.

    The name under which the user has configured this server is known only if the settings tell it.
    """
    if client.called is None or not holds(client.own_activation):
        return tool
    return client.called.value.format(server=settings.clients.server_name or "*", tool=tool)


MARGIN = 100
"""Room for what clients put around a result, such as a tag or the time that the call took."""

_NEWS_LINES = 30
# Lines that are left for news.

_TURN = "x-codex-turn-metadata"
# The key in `_meta` of each call under which Codex tells about the conversation.


class ResultRoom(NamedTuple):
    """The room that a client gives a result: its limit, and whether it is sent `structuredContent`.

    `news` is the room that an answer leaves to news of skills.
    """

    limit: Limit
    structured: bool = True
    news: int = 0

    @property
    def most(self) -> int:
        """An upper bound of the characters that fit."""
        return max(0, self.limit.characters - MARGIN)

    def fits(self, result: Mapping[str, Any]) -> bool:
        """Tell whether a result, with the news in it, reaches the model whole."""
        return self._holds(result, self.most, self.limit.lines)

    def fits_with_news(self, result: Mapping[str, Any]) -> bool:
        """Tell whether a result and news that may be added to it reach the model whole."""
        lines = self.limit.lines
        return self._holds(result, self.most - self.news, lines - _NEWS_LINES if lines else None)

    def _holds(self, result: Mapping[str, Any], most: int, lines: int | None) -> bool:
        if lines is not None and sum(text.count("\n") + 1 for text in _texts(result)) > lines:
            return False
        return result_size(result, self.limit.unit, structured=self.structured) <= most


def room_of(ctx: ServerRequestContext[Any, Any], client: ClientProfile, tool: str) -> ResultRoom | None:
    """Return the room for a result of `tool` that answers a request of `client`; None if no limit is known.

    Clients that can be asked to raise their limit are asked in the entries of some tools.
    """
    limit = client.result_limit(_model_of(ctx))
    if client.raised_result is not None and tool in CORE_TOOLS:
        raised = client.raised_result
        limit = raised._replace(characters=min(raised.characters, MAX_RESULT))
    return None if limit is None else ResultRoom(limit, structured=is_structured(client))


def _model_of(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Return the model that the client names in a request, None if it names none."""
    meta = (ctx.params or {}).get("_meta")
    turn = meta.get(_TURN) if isinstance(meta, dict) else None
    model = turn.get("model") if isinstance(turn, dict) else None
    return model if isinstance(model, str) else None


def result_size(result: Mapping[str, Any], unit: Unit, *, structured: bool = True) -> int:
    """Return the size of a result as a client counts it; if not `structured`, its structure is not sent."""
    if not structured:
        result = {key: value for key, value in result.items() if key != "structuredContent"}
    if unit in (Unit.JSON, Unit.JSON_BYTES):
        return _length(_json(without_envelope(dict(result))), unit)
    size = sum(_length(each, unit) for each in _texts(result))
    return size + _length(_json(result["structuredContent"]), unit) if "structuredContent" in result else size


def _texts(result: Mapping[str, Any]) -> list[str]:
    """Return the texts of a result, those of embedded resources included."""
    blocks = result["content"]
    found = (block.get("text") or block.get("resource", {}).get("text") for block in blocks)
    return [text for text in found if text]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _length(text: str, unit: Unit) -> int:
    """Return the length of a text in bytes of UTF-8, or in characters as JavaScript counts them."""
    if unit in (Unit.BYTES, Unit.JSON_BYTES) and not text.isascii():
        return len(text.encode("utf-8", "surrogatepass"))
    return utf16_length(text)
