"""What the commands of `schedule` do: read times, make schedules, perform them, and keep time."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from server.cli.console import EXIT_USAGE, fail, print_notice
from server.config.bootstrap import open_with_settings, settings_of, settings_with_logs
from server.config.machine import Machine, current_places, local_zone
from server.listing.runs import runs_unavailable_reason
from server.run.telemetry import traced
from server.schedules.background import ScheduledRuns
from server.schedules.clock import utc_now
from server.schedules.creation import NewSchedule, bind, create, rebind
from server.schedules.errors import UnknownScheduleError
from server.schedules.keeper import TimeKeeper
from server.schedules.reports import echo, latest_result, schedule_object, shown
from server.schedules.rights import rights_of
from server.schedules.store import ScheduleStore, short_fault
from server.transport.signals import until_signalled
from skills_core.errors import InvalidTimeError
from skills_core.run.durable.errors import RunNotDoneError
from skills_core.schedules.parsing import parse_at, parse_cron, parse_every
from skills_core.schedules.policies import MissedPolicy, OverlapPolicy
from skills_core.schedules.when import Every
from skills_core.schedules.zones import zone_named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from server.config.settings import Settings
    from skills_core.library import Library
    from skills_core.run.ports import JsonObject
    from skills_core.schedules.when import When

__all__ = ["ScheduleRequest", "add_schedule", "keep_time", "request_of", "run_by_hand", "show_schedule"]


class ScheduleRequest(NamedTuple):
    """The arguments of `schedule add`."""

    short: str
    at: str | None
    every: str | None
    cron: str | None
    zone: str | None
    task: str | None
    output: str | None
    skill: str | None
    model: str | None
    missed: str
    overlap: str
    directories: list[Path] | None
    flags: Mapping[str, object]


_FLAGS = ("model", "run_tools", "workspace", "mcp_servers", "skill_tools", "follow_symlinks", "trust_workspace")
# Arguments of `schedule add` that are settings of its runs.


def request_of(given: Mapping[str, Any]) -> ScheduleRequest:
    """Return the arguments of `schedule add` by their names."""
    return ScheduleRequest(
        **{name: given[name] for name in ScheduleRequest._fields if name not in {"zone", "flags"}},
        zone=given["tz"],
        flags={name: given[name] for name in _FLAGS},
    )


def add_schedule(request: ScheduleRequest) -> tuple[str, dict[str, Any]]:
    """Make a schedule or give one another time; return what was understood, as text and as an object."""
    store, now = ScheduleStore(), utc_now()
    try:
        zone = request.zone or local_zone()
        zone_named(zone)
        when = _when(request, now, zone)
    except InvalidTimeError as error:
        fail(str(error), EXIT_USAGE)
    try:
        name = store.find(request.short)
    except UnknownScheduleError:
        name, task = _created(store, request, when, zone, now), request.task
        what = "made"
    else:
        task = None
        if store.is_bound(name):
            rebind(store, name, when, zone, now)
        else:
            bind(store, name, _wanted(request, when, zone, ""), now)
        what = "has this time"
        if request.task is not None:
            print_notice(
                f"{name} exists, so only its time is changed; edit {store.root / name / 'SKILL.md'} for the task"
            )
    understood = echo(when, zone, now, task)
    return f"{name}  {what}\n{understood}", {
        **schedule_object(store, name, store.read(name), now),
        "echo": understood,
    }


def _when(request: ScheduleRequest, now: datetime, zone: str) -> When:
    given = [each for each in (request.at, request.every, request.cron) if each is not None]
    if len(given) != 1:
        fail("When should it run? Give exactly one of --at WHEN, --every SPAN and --cron EXPR.", EXIT_USAGE)
    if request.at is not None:
        return parse_at(request.at, now, zone)
    if request.every is not None:
        return Every(parse_every(request.every), _whole_second(now))
    return parse_cron(request.cron or "", zone)


def _whole_second(now: datetime) -> datetime:
    return now.replace(microsecond=0) + timedelta(seconds=1)


def _created(store: ScheduleStore, request: ScheduleRequest, when: When, zone: str, now: datetime) -> str:
    if request.task is None:
        fail("What should be done? Give the task with --task TEXT.", EXIT_USAGE)
    if fault := short_fault(request.short):
        fail(fault, EXIT_USAGE)
    return create(store, _wanted(request, when, zone, request.task), now, alone=True)


def _wanted(request: ScheduleRequest, when: When, zone: str, task: str) -> NewSchedule:
    library, settings = _opened(request)
    if request.skill is not None and (library is None or library.catalog.get(request.skill) is None):
        print_notice(f"--skill {request.skill}: no such skill is active here; runs fail unless it is when they fire")
    if reason := runs_unavailable_reason(settings.runs):
        print_notice(f"with the settings here its runs would fail: {reason}")
    return NewSchedule(
        short=request.short,
        when=when,
        zone=zone,
        task=task,
        output=request.output,
        rights=rights_of(settings),
        creator="command: schedule add",
        skill=request.skill,
        model=request.model,
        missed=MissedPolicy(request.missed),
        overlap=OverlapPolicy(request.overlap),
    )


def _opened(request: ScheduleRequest) -> tuple[Library | None, Settings]:
    """Return the settings, and the skills if the request names one of them."""
    if request.skill is None:
        return None, settings_of(Machine(current_places()), request.flags)
    return open_with_settings(request.directories, **request.flags)


def show_schedule(store: ScheduleStore, name: str) -> tuple[dict[str, Any], str]:
    """Return a schedule as an object and as text; one that is done is found in the trash."""
    try:
        found = shown(store, store.find(name), utc_now())
    except UnknownScheduleError:
        trashed = [(each, binding) for each, binding in store.trashed() if name in {each, each.rpartition("-")[0]}]
        if not trashed:
            raise
        kept, binding = trashed[-1]
        found = {**schedule_object(store, kept, binding, utc_now()), "next": [], "trashed": True}
    result = latest_result(found)
    lines = [
        f"{found['name']}  {found['state']}{'  (in the trash)' if found.get('trashed') else ''}",
        *(f"next {each}" for each in found["next"]),
        *([f"{found['skipped']} firings were skipped. {found['note']}"] if found["skipped"] else []),
        *(_line(run) for run in found["runs"]),
        *([f"\n{result}"] if result else []),
    ]
    return {**found, "result": result}, "\n".join(lines)


def _line(run: Mapping[str, Any]) -> str:
    delivery = run.get("delivery") or {}
    problem = f"  {run['problem']}: {run['message']}" if run.get("problem") else ""
    sent = f"  {delivery['status']}{': ' + delivery['message'] if delivery['message'] else ''}" if delivery else ""
    return f"run {run['id']}  {run['fired_at']}  {run['status']}{problem}{sent}"


def run_by_hand(
    store: ScheduleStore, name: str, directories: Sequence[Path] | None, flags: Mapping[str, object]
) -> JsonObject:
    """Perform a schedule now, and return the outcome of its run."""
    from server.improve.factory import create_improving_service
    from server.run.factory import recording

    found = store.find(name)
    library, settings = open_with_settings(directories, **flags)
    service, scheduled = create_improving_service(library, settings), ScheduledRuns(library, settings)

    async def work() -> JsonObject:
        async with recording(service, library, settings, [], more_jobs=scheduled.jobs(service.follow_up)) as engine:
            return await TimeKeeper(store, engine, settings).run_by_hand(found, f"manual: {found}")

    with traced(os.environ):
        try:
            return until_signalled(work, service.close)
        except RunNotDoneError as error:
            return {"run_id": error.run.run_id, "output": "", "problem": error.run.state.value, "message": str(error)}


def keep_time(directories: Sequence[Path] | None, flags: Mapping[str, object]) -> None:
    """Fire schedules until a signal comes."""
    from server.config.bootstrap import open_library
    from server.improve.factory import create_improving_service
    from server.run.factory import recording

    machine = Machine(current_places())
    settings = settings_with_logs(machine, **flags)
    library = open_library(directories, settings, machine)
    service, scheduled = create_improving_service(library, settings), ScheduledRuns(library, settings, reloads=True)

    async def work() -> None:
        async with recording(
            service, library, settings, unattended=True, more_jobs=scheduled.jobs(service.follow_up)
        ) as engine:
            await scheduled.run(engine)

    with traced(os.environ):
        try:
            until_signalled(work, service.close)
        except (KeyboardInterrupt, SystemExit):
            return
