"""What is known of MCP clients: how much of a text they show, and what they can do.

`profile` defines the facts about a client. `known_clients.json` holds them with sources and dates, because they change
with the clients' versions; `known` reads it, and identifies the client of a request. `layout` decides what a client is
sent.
"""
