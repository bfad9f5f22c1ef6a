"""What the settings file of a trusted project may set: options for the project's own skills alone.

A setting that is added here must not open the network, run code, decide where data goes, or affect the user's own
skills.
"""

from __future__ import annotations

from msgspec import Struct

from server.config.settings.skills import Conventions
from server.config.values import Depth, Folders, NonEmpty
from skills_core.disk.sources import Strictness


class ProjectSource(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A directory of skills within the project."""

    path: NonEmpty
    strictness: Strictness | None = None
    conventions: bool | None = None
    gitignore: bool | None = None


class ProjectDiscovery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the project's skills are searched, and how they are read; None keeps the user's setting."""

    strictness: Strictness | None = None
    conventions: Conventions | None = None
    gitignore: bool | None = None
    scan_depth: Depth | None = None
    scan_folders: Folders | None = None
    sources: tuple[ProjectSource, ...] = ()


class ProjectSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All sections that the file of a trusted project may have."""

    discovery: ProjectDiscovery = ProjectDiscovery()
