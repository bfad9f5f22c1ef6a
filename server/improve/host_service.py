"""The run service of a server, which improves skills after its runs if the settings say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from server.hosting.host import Host
    from server.run.service import RunService

__all__ = ["create_improving_host_service"]


def create_improving_host_service(host: Host) -> RunService:
    """Return the run service of a host; the host reloads its skills after one was improved."""
    from server.improve.factory import create_improving_service  # noqa: PLC0415 - it imports what only runs need

    # The watcher would notice an improvement too, but may be off.
    return create_improving_service(host.library, host.settings, host.try_reload)
