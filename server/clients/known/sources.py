"""Sources that several profiles cite."""

from __future__ import annotations

from server.clients.profile import Evidence

__all__ = ["REGISTRY", "measured", "read_in"]

REGISTRY = Evidence("github.com/apify/mcp-client-capabilities, mcp-clients.json", "2026-02-02")


def measured(version: str) -> Evidence:
    """Return the evidence of a measurement with one version of a client against a scripted model."""
    return Evidence(f"measured with {version}", "2026-11-22")


def read_in(version: str) -> Evidence:
    """Return the evidence of what the shipped code of one version says."""
    return Evidence(f"read in {version}", "2026-11-22")
