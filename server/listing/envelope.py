"""The envelope of results: what the modern era asks of every answer.

One dict serves both eras: the SDK takes these keys out of answers to clients of the handshake era.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.config.settings import Transport
from skills_core.watch_options import WatchMode

if TYPE_CHECKING:
    from server.config.settings import Settings

__all__ = ["COMPLETE", "cacheable", "text_block", "tool_result", "without_envelope"]

COMPLETE: dict[str, Any] = {"resultType": "complete"}

_ENVELOPE = frozenset({"resultType", "ttlMs", "cacheScope"})

_WATCHED_MS = 1000
# A watched catalog may change at any moment, and who keeps an answer about as long as a debounce misses little.
_FROZEN_MS = 3_600_000
# A catalog that nobody watches stays as it is until the server is started anew.


def cacheable(settings: Settings, *, shared: bool = True) -> dict[str, Any]:
    """Return the envelope of the methods whose answers a client may keep for a while.

    Over stdio there is one user, whose disk this is, so no cache may hand the answer to others. Over HTTP a cache may,
    if the answer is `shared`: if all callers see the same skills.
    """
    ttl = _FROZEN_MS if settings.watch.mode is WatchMode.OFF else _WATCHED_MS
    scope = "private" if settings.server.transport is Transport.STDIO or not shared else "public"
    return {**COMPLETE, "ttlMs": ttl, "cacheScope": scope}


def text_block(text: str) -> dict[str, Any]:
    """Return a text as one block of a result's content."""
    return {"type": "text", "text": text}


def tool_result(content: list[dict[str, Any]], *, is_error: bool = False) -> dict[str, Any]:
    """Return the result of a tool's call."""
    return {"content": content, "isError": is_error, **COMPLETE}


def without_envelope(result: dict[str, Any]) -> dict[str, Any]:
    """Return `result` as the handshake era knows it."""
    return {key: value for key, value in result.items() if key not in _ENVELOPE}
