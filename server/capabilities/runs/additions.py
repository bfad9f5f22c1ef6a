"""What other capabilities add to runs: further kinds of jobs, and what follows a run.

The commands of runs name these capabilities here alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.capabilities.runs.service import RunService
    from server.config.settings.model import Settings
    from skills_core.live.library import Library
    from skills_core.runs.durable.worker import Job

__all__ = ["additional_jobs", "lines_of_change", "open_service"]


def open_service(library: Library, settings: Settings) -> RunService:
    """Return the run service, with what follows its runs."""
    from server.capabilities.improve.factory import create_improving_service

    return create_improving_service(library, settings)


def additional_jobs(library: Library, settings: Settings, service: RunService) -> Mapping[str, Job]:
    """Return the jobs of further kinds of runs, by kind."""
    from server.capabilities.schedules.background import scheduled_jobs

    return scheduled_jobs(library, settings, service.follow_up)


def lines_of_change(change: Mapping[str, Any]) -> list[str]:
    """Return the lines that describe a change of a skill after a run."""
    from server.capabilities.improve.records import change_lines

    return change_lines(change)
