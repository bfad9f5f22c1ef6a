"""Create the run service that improves skills after its runs, if the settings name a source for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.capabilities.improve.settings import ImproveSettings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from server.capabilities.runs.after_run import FinishedRun
    from server.capabilities.runs.service import RunService
    from server.config.settings.model import Settings
    from server.hosting.host import Host
    from skills_core.live.library import Library


def create_improving_service(
    library: Library, settings: Settings, on_change: Callable[[], Awaitable[object]] | None = None
) -> RunService:
    """Return the service that runs the skills of `library`; `on_change` is called after a skill was improved."""
    from server.capabilities.runs.factory import create_service

    if not settings.section(ImproveSettings).sources:
        return create_service(library, settings)
    from server.capabilities.improve.improver import Improver
    from server.capabilities.improve.installation import settle_interrupted
    from server.capabilities.improve.records import improvement_records

    records = improvement_records()
    settle_interrupted(records, settings)
    improver = Improver(settings, records)

    async def after_run(run: FinishedRun) -> None:
        if await improver.after_run(run) and on_change is not None:
            await on_change()

    return create_service(library, settings, after_run, records.changes_after)


def create_improving_host_service(host: Host) -> RunService:
    """Return the run service of a host; the host reloads its skills after one was improved."""
    # The watcher would notice an improvement too, but may be off.
    return create_improving_service(host.library, host.settings, host.try_reload)
