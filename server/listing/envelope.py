"""What results have in common: the fields that the modern era requires in every answer, and the server's identity.

The same dict serves both eras: the SDK removes the envelope from answers to clients of the handshake era.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from server import __version__
from server.config.settings.server import Transport
from skills_core.live.watch_options import WatchMode

if TYPE_CHECKING:
    from server.config.settings.model import Settings


EXTENSION = "io.modelcontextprotocol/skills"

COMPLETE: dict[str, Any] = {"resultType": "complete"}

_ENVELOPE = frozenset({"resultType", "ttlMs", "cacheScope"})

_WATCHED_MS = 1000
# A watched catalog may change at any time; an answer that is cached for about a debounce is hardly ever outdated.
_FROZEN_MS = 3_600_000
# Without watching, the catalog rarely changes before the server restarts.


def cacheable(settings: Settings, *, shared: bool = True) -> dict[str, Any]:
    """Return the envelope of results that clients may cache.

    Over stdio there is one user, whose disk this is, so no cache may hand the answer to others. Over HTTP a cache may,
    if the answer is `shared`: if all callers see the same skills.
    """
    ttl = _FROZEN_MS if settings.watch.mode is WatchMode.OFF else _WATCHED_MS
    scope = "private" if settings.server.transport is Transport.STDIO or not shared else "public"
    return {**COMPLETE, "ttlMs": ttl, "cacheScope": scope}


def text_block(text: str) -> dict[str, Any]:
    """Return a text as a block of a result's content."""
    return {"type": "text", "text": text}


def user_message(*texts: str) -> dict[str, Any]:
    """Return texts as one message of the user, in the result of `prompts/get`."""
    return {"role": "user", "content": text_block("\n\n".join(texts))}


def tool_result(content: list[dict[str, Any]], *, is_error: bool = False) -> dict[str, Any]:
    """Return the result of a tool call."""
    return {"content": content, "isError": is_error, **COMPLETE}


def with_joined_texts(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result with its texts in one block, at the place of the first: some clients show no further one."""
    content: list[dict[str, Any]] = result["content"]
    texts = [block["text"] for block in content if block["type"] == "text"]
    if len(texts) < 2:  # noqa: PLR2004 - nothing to join
        return result
    at = next(number for number, block in enumerate(content) if block["type"] == "text")
    joined = texts[0] + "".join(text if text.startswith("\n") else f"\n\n{text}" for text in texts[1:])
    others = [block for block in content if block["type"] != "text"]
    return {**result, "content": [*others[:at], text_block(joined), *others[at:]]}


def without_envelope(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result without the envelope, for the handshake era."""
    return {key: value for key, value in result.items() if key not in _ENVELOPE}


IDENTITY: Final[dict[str, str]] = {
    "name": "skillserve",
    "title": "skillserve",
    "description": "Agent Skills: instructions, scripts and references for particular tasks",
    "version": __version__,
}

EXTENSIONS: Final[dict[str, dict[str, Any]]] = {EXTENSION: {"directoryRead": True}}

CAPABILITIES: Final[dict[str, Any]] = {
    "completions": {},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "tools": {"listChanged": True},
}
"""What the SDK derives from the handlers of `SkillServer`; `EXTENSIONS` are added in the modern era."""
