"""The facts about clients, with where they were found and when."""

from __future__ import annotations

from server.clients.profile import ClientProfile, Evidence, Limit

__all__ = ["KNOWN_CLIENTS"]

_TWO_KB = Evidence("code.claude.com/docs/en/mcp: descriptions and instructions are cut at 2 KB", "2026-11-21")

KNOWN_CLIENTS: tuple[ClientProfile, ...] = (
    ClientProfile(
        key="claude-code",
        title="Claude Code",
        names=("claude-code",),
        description=Limit(2000, _TWO_KB),
        instructions=Limit(2000, _TWO_KB),
        reads_resources=True,
        compacts=True,
        toolbox="claude-code",
    ),
)
