"""Improve skills after runs, if the settings name a source for that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from server.capabilities.improve.settings import ImproveSettings
from server.capability import AfterRuns

if TYPE_CHECKING:
    from server.capability import FinishedRun
    from server.config.settings.model import Settings


def improvement_after_runs(
    settings: Settings, on_change: Callable[[], Awaitable[object]] | None = None
) -> AfterRuns | None:
    """Return what improves skills after runs; `on_change` is called after a skill was improved."""
    if not settings.section(ImproveSettings).sources:
        return None
    from server.capabilities.improve.improver import Improver
    from server.capabilities.improve.installation import settle_interrupted
    from server.capabilities.improve.records import improvement_records

    records = improvement_records()
    settle_interrupted(records, settings)
    improver = Improver(settings, records)

    async def after_run(run: FinishedRun) -> None:
        if await improver.after_run(run) and on_change is not None:
            await on_change()

    return AfterRuns(after_run, records.changes_after)
