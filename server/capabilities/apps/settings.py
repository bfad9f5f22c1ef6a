"""Which clients receive views."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from server.config.settings.section import Section


class AppsMode(StrEnum):
    """Which clients receive views."""

    AUTO = "auto"
    """Those that declare that they show views."""
    ON = "on"
    """All of them."""
    OFF = "off"
    """None."""


class AppsSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Views inside clients (MCP Apps): find skills and look at them, see an activation, agree to a step of a run."""

    mode: AppsMode = AppsMode.AUTO
    """Which clients receive views: `auto` those that declare the extension `io.modelcontextprotocol/ui`, `on` all, for
    a client that shows views without declaring it, `off` none. Nothing changes for other clients."""


SECTION: Final = Section(name="apps", kind=AppsSettings, prefix="apps_", options={"mode": "apps"})
