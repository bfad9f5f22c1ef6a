"""What defines a tool, what its handler is given, and how much of its result the client passes on to its model."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from server.clients.layout import is_structured
from server.clients.profile import ClientProfile, Limit, Unit
from server.listing.envelope import text_block, tool_result, without_envelope
from server.listing.layout import MAX_NEWS
from server.listing.tools import CORE_TOOLS, MAX_RESULT
from skills_core.rendering.catalog import utf16_length
from skills_core.rendering.escaping import escape_json

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from server.clients.profile import ClientProfile
    from server.config.settings.model import Settings
    from server.conversation.registry import ExchangeRegistry
    from server.hosting.host import Host
    from server.hosting.views import View
    from server.listing.tools import ToolListing
    from server.protocol.conversations import Conversation
    from server.protocol.recipients import Recipients
    from skills_core.catalog.catalog import Catalog

    Handler: TypeAlias = "Callable[[ToolCall], Awaitable[dict[str, Any]]]"

_NEWS = MAX_NEWS + 200
# Room for news and for the marks of their blocks.

_LATE_NEWS = 300
# Room for news of what changes during the call: a line or two.


class ToolCall(NamedTuple):
    """One call of a tool: the request, its client, what its sender sees, their conversation, and the arguments."""

    ctx: ServerRequestContext[Any, Any]
    client: ClientProfile
    view: View
    conversation: Conversation
    name: str
    arguments: Mapping[str, Any]

    @property
    def structured(self) -> bool:
        """Whether the result has `structuredContent` beside its text, as the list of tools says to this client."""
        return is_structured(self.client, self.view.settings)

    @property
    def room(self) -> ResultRoom | None:
        """The room for a result that this client passes on to its model; None if no limit is known.

        Read it before the call changes the conversation: pending news need room too.
        """
        room = room_of(self.ctx, self.client, self.name, structured=self.structured)
        if room is None:
            return None
        changes = None if self.client.refreshes else self.view.changes
        pending = self.conversation.has_news(self.view.catalog, changes)
        return room._replace(news=_NEWS if pending else _LATE_NEWS)


class ToolServices(NamedTuple):
    """What handlers work with.

    `exchanges` converses with clients during a call, and `recipients` knows for whom a request's text is rendered. What
    capabilities keep for a server is found with `host.service`.
    """

    host: Host
    exchanges: ExchangeRegistry
    recipients: Recipients


def always(_: Catalog) -> bool:
    """Offer a tool whatever skills there are."""
    return True


def has_active(catalog: Catalog) -> bool:
    """Tell whether there is any active skill, or may be one that is not loaded yet."""
    return bool(catalog.active) or catalog.is_loading


def has_offered(catalog: Catalog) -> bool:
    """Tell whether models may use any skill, or one that is not loaded yet."""
    return bool(catalog.offered) or catalog.is_loading


def _on_each_server(_: Settings) -> bool:
    return True


class Tool(NamedTuple):
    """The definition of a tool: its entry in `tools/list`, and the handler of its calls.

    A server has the tool if settings switch it on and it `is_offered`. It is listed while the catalog `is_listed`, and
    called while the catalog `is_callable`: what was listed before a skill changed may still be called. Where a client
    has too little room for a result, `when_cut` tells the model what to do. The texts of a result become one, unless
    they are `verbatim`: a block with the bytes of a file or of an output has nothing else.
    """

    name: str
    entry: Callable[[ToolListing], dict[str, Any]]
    handler: Callable[[ToolServices], Handler]
    is_offered: Callable[[Settings], bool] = _on_each_server
    is_listed: Callable[[Catalog], bool] = always
    is_callable: Callable[[Catalog], bool] = always
    when_cut: str = ""
    verbatim: bool = False


def structured_result(structured: dict[str, Any]) -> dict[str, Any]:
    """Return a result whose text is its structure as JSON."""
    return {**tool_result([text_block(escape_json(structured))]), "structuredContent": structured}


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
        # A blank line joins a text to the one before it.
        if lines is not None and sum(text.count("\n") + 2 for text in _texts(result)) > lines:
            return False
        return result_size(result, self.limit.unit, structured=self.structured) <= most


def room_of(
    ctx: ServerRequestContext[Any, Any], client: ClientProfile, tool: str, *, structured: bool
) -> ResultRoom | None:
    """Return the room for a result of `tool` that answers a request of `client`; None if no limit is known.

    `structured` tells whether the client is sent `structuredContent`.
    Clients that can be asked to raise their limit are asked in the entries of some tools.
    """
    limit = client.result_limit(_model_of(ctx))
    if client.raised_result is not None and tool in CORE_TOOLS:
        raised = client.raised_result
        limit = raised._replace(characters=min(raised.characters, MAX_RESULT))
    return None if limit is None else ResultRoom(limit, structured=structured)


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
