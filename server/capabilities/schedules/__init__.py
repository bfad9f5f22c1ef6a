"""Scheduler skills: their folders in the state directory, and the runs that fire by the durable engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.capabilities.schedules.settings import (
    LIST_SCHEDULES,
    SCHEDULE_SKILL,
    SCHEDULE_TOOLS,
    SECTION,
    SHOW_SCHEDULE,
    ScheduleSettings,
    check_schedules,
)
from server.capability import Capability, ToolModule

if TYPE_CHECKING:
    import typer

    from server.capability import BackgroundRuns, FollowUp, PageParts, ServerPart
    from server.config.settings.model import Settings
    from server.hosting.host import Host
    from skills_core.disk.sources import Source
    from skills_core.live.library import Library
    from skills_core.runs.durable.worker import Job

_SKILLS: Final = Path(__file__).parent / "bundled"


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.schedules.commands import schedule
    from server.cli.help_pages import CommandGroup

    app.add_typer(schedule, name="schedule", rich_help_panel=CommandGroup.RUN)


def _asks_clients(settings: Settings) -> bool:
    return SCHEDULE_SKILL in settings.tools.enabled


def _sources(settings: Settings) -> Iterable[Source]:
    from skills_core.disk.sources import Scope, Source, real_path

    # A server with schedules has the skill that makes them.
    return (Source(real_path(_SKILLS), Scope.BUNDLED),) if settings.section(ScheduleSettings).enabled else ()


def _part(host: Host) -> ServerPart:
    from server.capabilities.schedules.prompts import SchedulePrompts

    return host.service(SchedulePrompts)


def _jobs(library: Library, settings: Settings, follow_up: FollowUp) -> Mapping[str, Job]:
    from server.capabilities.schedules.background import scheduled_jobs

    return scheduled_jobs(library, settings, follow_up)


def _background_runs(host: Host) -> BackgroundRuns | None:
    from server.capabilities.schedules.background import scheduled_runs

    return scheduled_runs(host)


def _page(host: Host) -> PageParts:
    from server.capabilities.schedules.page import page_parts

    return page_parts(host)


CAPABILITY: Final = Capability(
    name="schedules",
    sections=(SECTION,),
    commands=_add_commands,
    checks=check_schedules,
    tools=(
        ToolModule(
            "server.capabilities.schedules.tools",
            SCHEDULE_TOOLS,
            shared_only=True,
            administrative=frozenset(SCHEDULE_TOOLS) - {LIST_SCHEDULES, SHOW_SCHEDULE},
        ),
    ),
    asks_clients=_asks_clients,
    sources=_sources,
    part=_part,
    page=_page,
    jobs=_jobs,
    background_runs=_background_runs,
)
