"""The four model APIs that clients speak: what a request says, and how an answer is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.clients.dialects.anthropic import ANTHROPIC
from conformance.clients.dialects.chat_completions import CHAT_COMPLETIONS
from conformance.clients.dialects.gemini import GEMINI
from conformance.clients.dialects.responses import RESPONSES

if TYPE_CHECKING:
    from conformance.clients.dialects.messages import Dialect

__all__ = ["dialect_of"]


def dialect_of(path: str) -> Dialect | None:
    """Return the dialect of an HTTP path, or None if requests to that path ask no model."""
    if path.endswith("/chat/completions"):
        return CHAT_COMPLETIONS
    if path.endswith("/responses"):
        return RESPONSES
    if path.endswith("/messages"):
        return ANTHROPIC
    return GEMINI if path.endswith((":generateContent", ":streamGenerateContent")) else None
