"""The lists that a server with the same settings hands to clients, for commands that show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.config.machine import state_home

if TYPE_CHECKING:
    from server.config.settings import Settings
    from server.listing.snapshot import Snapshot
    from skills_core.catalog import Catalog

__all__ = ["served_lists"]


def served_lists(catalog: Catalog, settings: Settings) -> Snapshot:
    """Return the lists of a catalog, in the order that the recorded uses of its skills give."""
    from server.hosting.usage import read_counts, usage_file
    from server.listing.snapshot import Snapshot
    from server.scripts.factory import offers_scripts, script_setup

    used = read_counts(usage_file(state_home())) if settings.catalog.usage else {}
    scripts = script_setup(settings) if offers_scripts(settings) else None
    return Snapshot(catalog, settings, used, scripts=scripts)
