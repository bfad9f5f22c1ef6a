"""Why a request is refused by a limit of its principal."""

from __future__ import annotations

from enum import StrEnum

from skills_core.errors import SkillsError

__all__ = ["LimitExceededError", "LimitReason"]


class LimitReason(StrEnum):
    """Which limit a request exceeds."""

    RATE = "rate"
    """The principal sends requests too fast."""
    CONCURRENCY = "concurrency"
    """The principal has too many requests in progress."""
    SIZE = "size"
    """The bodies of the requests that the principal has in progress are too large together."""
    SESSIONS = "sessions"
    """The principal has too many sessions of the handshake era."""


class LimitExceededError(SkillsError):
    """A request exceeds a limit of its principal; it may be sent again after `seconds`."""

    def __init__(self, reason: LimitReason, message: str, seconds: float) -> None:
        """Describe the limit in `message`, for the client."""
        super().__init__(message)
        self.limit = reason
        self.seconds = seconds
