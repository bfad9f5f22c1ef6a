"""What other capabilities add to runs: further kinds of jobs, runs without a client, and what follows a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from server.capabilities import CAPABILITIES

if TYPE_CHECKING:
    from server.capabilities.runs.service import RunService
    from server.capability import BackgroundRuns
    from server.config.settings.model import Settings
    from server.hosting.host import Host
    from skills_core.live.library import Library
    from skills_core.runs.durable.worker import Job


def open_service(
    library: Library, settings: Settings, on_change: Callable[[], Awaitable[object]] | None = None
) -> RunService:
    """Return the run service, with what follows its runs; `on_change` is called after that has changed a skill."""
    from server.capabilities.runs.factory import create_service

    found = (each.after_runs(settings, on_change) for each in CAPABILITIES if each.after_runs is not None)
    after = next((each for each in found if each is not None), None)
    return create_service(library, settings) if after is None else create_service(library, settings, *after)


def additional_jobs(library: Library, settings: Settings, service: RunService) -> Mapping[str, Job]:
    """Return the jobs of further kinds of runs, by kind."""
    jobs: dict[str, Job] = {}
    for each in CAPABILITIES:
        if each.jobs is not None:
            jobs |= each.jobs(library, settings, service.follow_up)
    return jobs


def background_runs(host: Host) -> BackgroundRuns | None:
    """Return the runs that a server begins by itself, None if there are none."""
    found = (each.background_runs(host) for each in CAPABILITIES if each.background_runs is not None)
    return next((each for each in found if each is not None), None)


def lines_of_change(change: Mapping[str, Any]) -> list[str]:
    """Return the lines that describe a change of a skill after a run."""
    return [line for each in CAPABILITIES if each.describe_change is not None for line in each.describe_change(change)]
