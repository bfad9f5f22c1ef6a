"""The schedules of a server: their job, and the task that keeps time while the server runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from server.capabilities.schedules.settings import ScheduleSettings, can_schedule
from skills_core.installation import extra_advice

if TYPE_CHECKING:
    from server.capability import FollowUp, ImprovementsAfter
    from server.config.settings.model import Settings
    from server.hosting.activity import Activity
    from server.hosting.host import Host
    from skills_core.live.library import Library
    from skills_core.runs.durable.engine import Engine
    from skills_core.runs.durable.worker import Job


logger = logging.getLogger(__name__)


class ScheduledRuns:
    """The scheduled runs of one process. The modules that need the extra `run` are imported when it begins."""

    def __init__(
        self, library: Library, settings: Settings, *, reloads: bool = False, activity: Activity | None = None
    ) -> None:
        """Open nothing yet; `reloads` reads the skills again at each firing, and `activity` gets events of firings."""
        self._activity = activity
        self._reloads = reloads
        self._library = library
        self._settings = settings

    def jobs(self, follow_up: FollowUp) -> Mapping[str, Job]:
        """Return the job that performs a firing, by its kind; it calls `follow_up` with each run that has ended."""
        from server.capabilities.schedules.firing import KIND, ScheduleJob
        from server.capabilities.schedules.store import ScheduleStore

        job = ScheduleJob(self._library, self._settings, ScheduleStore(), follow_up, reloads=self._reloads)
        return {KIND: job}

    async def run(self, engine: Engine, improvements: ImprovementsAfter) -> None:
        """Keep time until cancelled; `improvements` returns the changes of skills that runs led to."""
        from server.capabilities.schedules.keeper import TimeKeeper, tell_nobody
        from server.capabilities.schedules.store import ScheduleStore

        store = ScheduleStore()
        logger.info("keeping time for %d schedules in %s", len(store.names()), store.root)
        tell = tell_nobody if self._activity is None else partial(self._activity.add, "schedule")
        await TimeKeeper(store, engine, self._settings, improvements=improvements, tell=tell).run()


def scheduled_jobs(library: Library, settings: Settings, follow_up: FollowUp) -> Mapping[str, Job]:
    """Return the job of schedules for a command beside a server with these settings, which share their runs."""
    if not settings.section(ScheduleSettings).enabled or not can_schedule():
        return {}
    return ScheduledRuns(library, settings).jobs(follow_up)


def scheduled_runs(host: Host) -> ScheduledRuns | None:
    """Return the schedules of a server, None if its settings switch them off, or the extra `run` is missing."""
    if not host.settings.section(ScheduleSettings).enabled:
        return None
    if not can_schedule():
        logger.warning("schedules are off: they require the extra `run`; %s", extra_advice("run"))
        return None
    return ScheduledRuns(host.library, host.settings, activity=host.activity)
