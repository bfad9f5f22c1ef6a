"""What is known of the clients that connect: how much of a text they show, and what they can do.

`profile` is what can be known of a client, `known` holds the facts with their sources, `connected` tells which client
sent a request, `budget` how much it is sent, `additions` what it puts among the arguments of tools. `document` shows
the facts to people. Facts change with versions of clients, so each bears the date on which it was true.
"""

from server.clients.added_arguments import without_additions
from server.clients.budget import budget_for
from server.clients.connected import client_of
from server.clients.known import KNOWN_CLIENTS
from server.clients.profile import UNKNOWN, ClientProfile, Evidence, Fact, Limit, NativeListing, Overflow, profile_of

__all__ = [
    "KNOWN_CLIENTS",
    "UNKNOWN",
    "ClientProfile",
    "Evidence",
    "Fact",
    "Limit",
    "NativeListing",
    "Overflow",
    "budget_for",
    "client_of",
    "profile_of",
    "without_additions",
]
