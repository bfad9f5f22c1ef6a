"""For whom an activation is rendered: what the one who reads it can do."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ANYBODY", "Recipient"]


@dataclass(frozen=True, slots=True)
class Recipient:
    """Who gets a text. `local` tells that the skill's folder is on the same disk."""

    local: bool = False


ANYBODY = Recipient()
"""Who is only known to have the tools of this server."""
