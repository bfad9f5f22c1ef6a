"""How much of a tool's result a client passes on to its model, in the client's own measure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from server.clients.layout import is_structured
from server.clients.profile import Limit, Unit
from server.listing.envelope import without_envelope
from server.listing.tools import CORE_TOOLS, MAX_RESULT
from skills_core.rendering import utf16_length

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.context import ServerRequestContext

    from server.clients.profile import ClientProfile

__all__ = ["ResultRoom", "model_of", "room_for", "room_of", "result_size"]

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
    """Return the room for a result of `tool` that answers a request of `client`; None if no limit is known."""
    return room_for(client, model_of(ctx), tool) if client.limits_results else None


def model_of(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Return the model that the client names in a request, None if it names none."""
    meta = (ctx.params or {}).get("_meta")
    turn = meta.get(_TURN) if isinstance(meta, dict) else None
    model = turn.get("model") if isinstance(turn, dict) else None
    return model if isinstance(model, str) else None


def room_for(client: ClientProfile, model: str | None, tool: str) -> ResultRoom | None:
    """Return the room for a result of `tool` in a conversation with `model`; None if no limit is known.

    Clients that can be asked to raise their limit are asked in the entries of some tools.
    """
    limit = client.result_limit(model)
    if client.raised_result is not None and tool in CORE_TOOLS:
        raised = client.raised_result
        limit = raised._replace(characters=min(raised.characters, MAX_RESULT))
    if limit is None:
        return None
    return ResultRoom(limit, structured=is_structured(client))


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
