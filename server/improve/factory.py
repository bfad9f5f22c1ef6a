"""Create the run service that improves skills after its runs, if the settings name a source for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.improve.records import improvement_records
from server.run.factory import create_service

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from server.config.settings import Settings
    from server.run.after_run import FinishedRun
    from server.run.service import RunService
    from skills_core.library import Library

__all__ = ["create_improving_service"]


def create_improving_service(
    library: Library, settings: Settings, on_change: Callable[[], Awaitable[object]] | None = None
) -> RunService:
    """Return the service that runs the skills of `library`; `on_change` is called after a skill was improved."""
    if not settings.improve.sources:
        return create_service(library, settings)
    # They import what only this setting needs.
    from server.improve.improver import Improver  # noqa: PLC0415
    from server.improve.interrupted import settle_interrupted  # noqa: PLC0415

    records = improvement_records()
    settle_interrupted(records, settings)
    improver = Improver(settings, records)

    async def after_run(run: FinishedRun) -> None:
        if await improver.after_run(run) and on_change is not None:
            await on_change()

    return create_service(library, settings, after_run, records.changes_after)
