"""What the commands of `schedule` do: read times, make schedules, perform them, and keep time."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from server.capabilities.improve.records import change_lines, improvement_records
from server.capabilities.runs.offered import runs_unavailable_reason
from server.capabilities.runs.settings import RunSettings
from server.capabilities.runs.telemetry import traced
from server.capabilities.schedules.background import ScheduledRuns
from server.capabilities.schedules.budgets import check_interval, terms_of
from server.capabilities.schedules.creation import NewSchedule, bind, create, rebind
from server.capabilities.schedules.errors import ScheduleError, UnknownScheduleError
from server.capabilities.schedules.keeper import TimeKeeper
from server.capabilities.schedules.reports import cannot_run, echo, latest_result, overview, schedule_object, shown
from server.capabilities.schedules.rights import rights_of
from server.capabilities.schedules.store import ScheduleStore, short_fault, utc_now
from server.cli.console import EXIT_USAGE, fail, print_notice
from server.config.bootstrap import open_with_settings, settings_of, settings_with_logs
from server.config.machine import Machine, current_places, local_zone
from server.transport.signals import until_signalled
from skills_core.diagnostics import one_line
from skills_core.errors import InvalidTimeError
from skills_core.runs.durable.recorded_run import RunNotDoneError
from skills_core.schedules.cron import zone_named
from skills_core.schedules.parsing import parse_at, parse_cron, parse_every
from skills_core.schedules.policies import MissedPolicy, OverlapPolicy
from skills_core.schedules.when import Every

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from server.capabilities.schedules.binding import ScheduledRun
    from server.config.settings.model import Settings
    from skills_core.format.yaml12 import JsonObject
    from skills_core.live.library import Library
    from skills_core.schedules.when import When

__all__ = [
    "ScheduleRequest",
    "add_schedule",
    "keep_time",
    "request_of",
    "run_by_hand",
    "schedule_overview",
    "show_schedule",
]


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


_CHANGES = frozenset({"improved", "proposed", "accepted", "rejected"})
# Improvements that changed a skill, or that propose to.

_MOST_CHANGES = 20

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
            settings = settings_of(Machine(current_places()), request.flags)
            check_interval(when, terms_of(settings, store.read(name).model, now), now)
            rebind(store, name, when, zone, now)
        else:
            bind(store, name, _wanted(request, when, zone, "", now), now)
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
    return create(store, _wanted(request, when, zone, request.task, now), now, alone=True)


def _wanted(request: ScheduleRequest, when: When, zone: str, task: str, now: datetime) -> NewSchedule:
    library, settings = _opened(request)
    check_interval(when, terms_of(settings, request.model, now), now)
    # The process that fires it has the settings alone.
    own = settings_of(Machine(current_places()), {**request.flags, "model": None})
    for trouble in cannot_run(own, rights_of(settings), request.model, terms_of(own, request.model, now)):
        print_notice(trouble)
    if request.skill is not None and (library is None or library.catalog.get(request.skill) is None):
        print_notice(f"--skill {request.skill}: no such skill is active here; runs fail unless it is when they fire")
    if reason := runs_unavailable_reason(settings.section(RunSettings)):
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
    found["improvements"] = improvement_records().changes_after({run["id"] for run in found["runs"]})
    lines = [
        f"{found['name']}  {found['state']}{'  (in the trash)' if found.get('trashed') else ''}",
        *(f"next {each}" for each in found["next"]),
        *([f"{found['skipped']} firings were skipped. {found['note']}"] if found["skipped"] else []),
        *(_line(run) for run in found["runs"]),
        *(line for change in found["improvements"] for line in ["", *change_lines(change)]),
        *([f"\n{result}"] if result else []),
    ]
    return {**found, "result": result}, "\n".join(lines)


def _line(run: Mapping[str, Any]) -> str:
    delivery = run.get("delivery") or {}
    problem = f"  {run['problem']}: {run['message']}" if run.get("problem") else ""
    sent = f"  {delivery['status']}{': ' + delivery['message'] if delivery['message'] else ''}" if delivery else ""
    return f"run {run['id']}  {run['fired_at']}  {run['status']}{problem}{sent}"


def schedule_overview(store: ScheduleStore) -> tuple[dict[str, Any], str]:
    """Return what runs without the user, as an object and as text."""
    found = overview(store, settings_of(Machine(current_places()), {}), utc_now())
    of_run = {run.id: name for name, run in _listed_runs(store)}
    changes = [
        {
            "id": each["id"],
            "at": each.get("at"),
            "skill": each["skill"],
            "status": each["status"],
            "run_id": each["run_id"],
            "schedule": of_run.get(each["run_id"]),
        }
        for each in improvement_records().all()
        if each["status"] in _CHANGES
    ][:_MOST_CHANGES]
    lines = [*(line for each in found["schedules"] for line in _overview_lines(each))]
    lines += [f"today, {found['day']}: {_spent(found['spent'], found['limits']['together'])}"]
    lines += [f"change {each['id']}  {each['at']}  {each['skill']}  {each['status']}" for each in changes]
    lines += [f"warning: {each}" for each in found["warnings"]]
    return {**found, "changes": changes}, "\n".join(lines)


def _listed_runs(store: ScheduleStore) -> Iterator[tuple[str, ScheduledRun]]:
    for name in store.names():
        with suppress(ScheduleError):
            yield from ((name, run) for run in store.read(name).runs)


def _overview_lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{found['name']}  {found['state']}  {one_line(found['description'] or '')[:100]}"
    if found["rights"] is None:
        return
    yield f"  next     {', '.join(found['next']) or '-'}"
    yield f"  model    {found['model']}"
    rights = found["rights"]
    may = [*rights["run_tools"], *rights["skill_tools"], *(["scripts of skills"] if rights["scripts"] else [])]
    may += [f"the MCP servers of {rights['mcp_servers']}"] if rights["mcp_servers"] else []
    place = f" in {rights['workspace']}" if rights["workspace"] else ""
    yield f"  may use  {', '.join(may) or 'nothing but the model'}{place}"
    yield f"  today    {_spent(found['spent'], {})}"


def _spent(spent: Mapping[str, Any], limits: Mapping[str, Any]) -> str:
    def of(name: str) -> str:
        return f" of {limits[name]:,}" if limits.get(name) else ""

    dollars = f"{spent['dollars']:.2f}{of('dollars')} dollars"
    return f"{spent['runs']:,}{of('runs')} runs, {spent['tokens']:,}{of('tokens')} tokens, {dollars}"


def run_by_hand(
    store: ScheduleStore, name: str, directories: Sequence[Path] | None, flags: Mapping[str, object]
) -> tuple[JsonObject, Sequence[Mapping[str, Any]]]:
    """Perform a schedule now; return the outcome of its run, and the changes of skills that it led to."""
    from server.capabilities.runs.additions import open_service
    from server.capabilities.runs.factory import recording

    found = store.find(name)
    library, settings = open_with_settings(directories, **flags)
    service, scheduled = open_service(library, settings), ScheduledRuns(library, settings)

    async def work() -> tuple[JsonObject, Sequence[Mapping[str, Any]]]:
        async with recording(service, library, settings, [], more_jobs=scheduled.jobs(service.follow_up)) as engine:
            keeper = TimeKeeper(store, engine, settings, improvements=service.improvements)
            outcome = await keeper.run_by_hand(found, f"manual: {found}")
            return outcome, await service.improvements([str(outcome["run_id"])])

    with traced(os.environ):
        try:
            return until_signalled(work, service.close)
        except RunNotDoneError as error:
            run, problem = error.run, error.run.state.value
            return {"run_id": run.run_id, "output": "", "problem": problem, "message": str(error)}, ()


def keep_time(directories: Sequence[Path] | None, flags: Mapping[str, object]) -> None:
    """Fire schedules until a signal comes."""
    from server.capabilities.runs.additions import open_service
    from server.capabilities.runs.factory import recording
    from server.config.bootstrap import open_library

    machine = Machine(current_places())
    settings = settings_with_logs(machine, **flags)
    library = open_library(directories, settings, machine)
    service, scheduled = open_service(library, settings), ScheduledRuns(library, settings, reloads=True)

    async def work() -> None:
        async with recording(
            service, library, settings, unattended=True, more_jobs=scheduled.jobs(service.follow_up)
        ) as engine:
            await scheduled.run(engine, service.improvements)

    with traced(os.environ):
        try:
            until_signalled(work, service.close)
        except (KeyboardInterrupt, SystemExit):
            return
