"""The envelope of results: what the modern era asks of every answer.

One dict serves both eras: the SDK takes these keys out of answers to clients of the handshake era.
"""

from __future__ import annotations

from typing import Any

__all__ = ["COMPLETE", "cacheable", "without_envelope"]

COMPLETE: dict[str, Any] = {"resultType": "complete"}

_ENVELOPE = frozenset({"resultType", "ttlMs", "cacheScope"})

# A watched catalog may change at any moment, so a client may keep an answer only for about a debounce.
_TTL_MS = 1000


def cacheable(result: dict[str, Any]) -> dict[str, Any]:
    """Return `result` with the envelope of the methods whose answers a client may keep for a while."""
    return {**result, **COMPLETE, "ttlMs": _TTL_MS, "cacheScope": "private"}


def without_envelope(result: dict[str, Any]) -> dict[str, Any]:
    """Return `result` as the handshake era knows it."""
    return {key: value for key, value in result.items() if key not in _ENVELOPE}
