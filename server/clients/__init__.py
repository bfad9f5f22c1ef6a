"""What is known of MCP clients: how much of a text they show, and what they can do.

`profile` defines the facts about a client. `known_clients.json` holds them with sources and dates, because they change
with the clients' versions, and `known` reads it. `connected` identifies the client of a request and removes arguments
that clients add to tool calls, and `layout` decides which texts to send to it. `document` renders the facts for the
documentation.
"""

from server.clients.connected import client_called, client_of, without_additions
from server.clients.known import KNOWN_CLIENTS
from server.clients.layout import called_in, layout_for, link_reader_of
from server.clients.profile import (
    UNKNOWN,
    ClientProfile,
    Evidence,
    Fact,
    Limit,
    NativeListing,
    Overflow,
    Raises,
    StructureUse,
    Unit,
    UserOption,
    profile_called,
    profile_of,
)

__all__ = [
    "KNOWN_CLIENTS",
    "UNKNOWN",
    "ClientProfile",
    "Evidence",
    "Fact",
    "Limit",
    "NativeListing",
    "Overflow",
    "Raises",
    "StructureUse",
    "Unit",
    "UserOption",
    "called_in",
    "client_called",
    "client_of",
    "layout_for",
    "link_reader_of",
    "profile_called",
    "profile_of",
    "without_additions",
]
