"""What can be known of a client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["UNKNOWN", "ClientProfile", "Evidence", "Limit", "profile_of"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a fact was found, and on which day it was true (ISO 8601)."""

    source: str
    date: str


@dataclass(frozen=True, slots=True)
class Limit:
    """How many characters of a text reach the model."""

    characters: int
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class ClientProfile:
    """One client, or one that nothing is known of; None stands for what is not known.

    `names` are what the name begins with that the client sends, in lower case. `description` and `instructions` are
    how much of a tool's description and of a server's instructions the model sees. `reads_resources` tells that its
    model can read resources by itself, `compacts` that it drops or summarises old tool results by itself, and
    `toolbox` names the preset of its own tools.
    """

    key: str
    title: str
    names: tuple[str, ...] = ()
    description: Limit | None = None
    instructions: Limit | None = None
    reads_resources: bool = False
    compacts: bool = False
    toolbox: str | None = None

    @property
    def description_budget(self) -> int | None:
        """Most characters of a tool's description, None where no cut is known."""
        return self.description.characters if self.description else None


UNKNOWN = ClientProfile("unknown", "an unknown client")


def profile_of(name: str | None, clients: Iterable[ClientProfile]) -> ClientProfile:
    """Return what is known of the client that calls itself `name`: the longest beginning of the name decides."""
    folded = (name or "").strip().lower()
    fitting = [(len(known), client) for client in clients for known in client.names if folded.startswith(known)]
    return max(fitting, key=lambda pair: pair[0], default=(0, UNKNOWN))[1]
