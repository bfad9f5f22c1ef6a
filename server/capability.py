"""The seam between the server and its capabilities: what a capability can add.

The core knows this type and the tuple `server.capabilities.CAPABILITIES`, and no capability by its name. Fields are
functions that import what they need when they are called, because a server over stdio answers within a fraction of a
second.
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
