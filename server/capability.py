"""The seam between the server and its capabilities: what a capability can add.

The core learns of their sections of the settings from the tuple `server.capabilities.CAPABILITIES`. Values here import
nothing heavy, because every command reads the settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from server.config.settings.section import Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """A part of the server that can be left out: all fields but the name are optional."""

    name: str
    sections: tuple[Section, ...] = ()
    """Its sections of `skillserve.toml`."""
