"""The time limits and sizes of exchanges with clients."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ExchangeLimits"]


@dataclass(frozen=True, slots=True)
class ExchangeLimits:
    """Limits of the exchanges of one server."""

    resume_seconds: float = 600.0
    """How long an exchange waits for its client's next request before it is stopped."""
    answer_seconds: float = 600.0
    """How long a connected client has to answer a question; people have to read it."""
    gather_seconds: float = 0.02
    """How long a response waits for further questions, because parallel tool calls ask at about the same time."""
    questions_per_call: int = 8
    """Responses with questions in one tool call. The SDKs' clients give up after ten."""
    concurrent: int = 64
    """Exchanges at a time, including those that wait for their client."""
    concurrent_per_principal: int = 0
    """The same for each user of a login. With 0 there is no limit but that of the server."""
