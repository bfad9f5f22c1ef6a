"""The known facts about clients, with sources and dates.

A file's name as a source refers to the client's public source code; "measured with" a version to runs of that version
against a scripted model, as `conformance/clients` repeats them. A date is that of the source, or the day on which it
was read or measured. Facts without a source are left out.

`coding_agents`, `applications` and `frameworks` hold the profiles of one kind of client each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.clients.known.applications import APPLICATIONS
from server.clients.known.coding_agents import CODING_AGENTS
from server.clients.known.frameworks import FRAMEWORKS

if TYPE_CHECKING:
    from server.clients.profile import ClientProfile

__all__ = ["KNOWN_CLIENTS"]

KNOWN_CLIENTS: tuple[ClientProfile, ...] = (*CODING_AGENTS, *APPLICATIONS, *FRAMEWORKS)
