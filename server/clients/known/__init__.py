"""The known facts about clients, with sources and dates.

A file's name as a source refers to the client's public source code; "measured with" a version to runs of that version
against a scripted model, as `conformance/clients` repeats them, and "read in" a version to the code that it ships. A
date is that of the source, or the day on which it was read or measured. Facts without a source are left out.

`coding_agents`, `open_agents`, `applications` and `frameworks` hold the profiles of one kind of client each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.clients.known.applications import APPLICATIONS
from server.clients.known.coding_agents import CODING_AGENTS
from server.clients.known.frameworks import FRAMEWORKS
from server.clients.known.open_agents import OPEN_AGENTS

if TYPE_CHECKING:
    from server.clients.profile import ClientProfile

__all__ = ["KNOWN_CLIENTS"]

KNOWN_CLIENTS: tuple[ClientProfile, ...] = (*CODING_AGENTS, *OPEN_AGENTS, *APPLICATIONS, *FRAMEWORKS)
