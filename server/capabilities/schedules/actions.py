"""What commands and tools do with schedules, and schedules as JSON objects and as text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins

from server.capabilities.improve.records import change_lines, improvement_records
from server.capabilities.runs.offered import runs_unavailable_reason, trace_store
from server.capabilities.runs.settings import RunSettings
from server.capabilities.runs.telemetry import traced
from server.capabilities.schedules.allowances import (
    DamagedScheduleError,
    ScheduleError,
    UnknownScheduleError,
    check_interval,
    checked_model,
    no_programs_reason,
    rights_of,
    terms_of,
)
from server.capabilities.schedules.background import ScheduledRuns
from server.capabilities.schedules.binding import (
    ahead_warning,
    healed,
    new_binding,
    paused,
    rebound,
    resumed,
    started_by_hand,
)
from server.capabilities.schedules.keeper import TimeKeeper
from server.capabilities.schedules.settings import ScheduleSettings
from server.capabilities.schedules.store import ScheduleStore, body_of, description_of, short_fault, utc_now
from server.capabilities.scripts.factory import script_setup
from server.cli.console import EXIT_USAGE, fail, print_notice
from server.config.bootstrap import open_with_settings, settings_of, settings_with_logs
from server.config.machine import Machine, current_places, local_zone
from server.transport.signals import until_signalled
from skills_core.diagnostics import one_line
from skills_core.disk.folders import MAIN_FILE
from skills_core.errors import InvalidTimeError
from skills_core.runs.durable.recorded_run import RunNotDoneError
from skills_core.runs.models import ModelUnavailableError
from skills_core.runs.trace import UnknownTraceError, UnreadableTraceError
from skills_core.schedules.cron import in_zone, to_utc, zone_named
from skills_core.schedules.parsing import parse_at, parse_cron, parse_every
from skills_core.schedules.when import Cron, Every, MissedPolicy, OverlapPolicy, ScheduleState, describe, when_to_json

if TYPE_CHECKING:
    from server.capabilities.schedules.allowances import RunRights, Spending, Terms
    from server.capabilities.schedules.binding import Binding, Firing, ScheduledRun
    from server.config.settings.model import Settings
    from skills_core.format.yaml12 import JsonObject
    from skills_core.schedules.when import When


_UNBOUND: Final = "It has no time yet; give it one with `skillserve schedule add NAME`."


def listed(store: ScheduleStore, now: datetime) -> list[dict[str, Any]]:
    """Return all schedules; a damaged one has its problem."""
    found = []
    for name in store.names():
        if not store.is_bound(name):
            found.append({"name": name, "next": [], "state": "unbound", "runs": [], "problem": _UNBOUND})
            continue
        try:
            found.append(schedule_object(store, name, store.read(name), now))
        except DamagedScheduleError as error:
            found.append({"name": name, "next": [], "state": "damaged", "runs": [], "problem": str(error)})
        except ScheduleError:
            continue  # it was removed meanwhile
    return found


def schedule_object(store: ScheduleStore, name: str, binding: Binding, now: datetime) -> dict[str, Any]:
    """Return a schedule with its next firings and its runs, latest last; one that lasts has the status `running`."""
    when = binding.time
    runs = [_run_object(run, binding) for run in binding.runs]
    if binding.running is not None:
        runs.append({**_run_object(binding.running, binding), "status": "running"})
    return {
        "name": name,
        "description": description_of(store.root / name),
        "next": next_times(binding, now, 3),
        "state": binding.state.value,
        "runs": runs,
        "when": when_to_json(when),
        "zone": binding.zone,
        "missed": binding.missed.value,
        "overlap": binding.overlap.value,
        "skill": binding.skill,
        "model": binding.model,
        "creator": binding.creator,
        "created": binding.created.isoformat(),
        "waiting": len(binding.waiting),
        "skipped": binding.skipped,
        "failures": binding.failures,
        "note": binding.note,
        "warnings": [each for each in (ahead_warning(binding, now),) if each],
    }


def shown(store: ScheduleStore, name: str, now: datetime) -> dict[str, Any]:
    """Return a schedule with its rights and its instructions.

    Raises:
        ScheduleError: there is none of this name, or it is damaged.
    """
    binding = store.read(name)
    found = schedule_object(store, name, binding, now)
    return {**found, "rights": to_builtins(binding.rights), "body": body_of(store.folder(name))}


def overview(store: ScheduleStore, settings: Settings, now: datetime) -> dict[str, Any]:
    """Return what runs without the user: each schedule with rights, model and spending, the limits, and warnings."""
    spending, wanted = store.spending(), settings.section(ScheduleSettings)
    day = terms_of(settings, None, now).day
    schedules = [_watched(store, each, settings, spending, now) for each in listed(store, now)]
    spent = spending.spent(day)
    warnings = [f"{each['name']}: {warning}" for each in schedules for warning in each["warnings"]]
    if spent.unpriced:
        warnings.append(f"The price of {spent.unpriced} tokens of today is unknown, so the dollars lack them.")
    names = ("runs", "tokens", "requests", "seconds", "dollars")
    together = {name: getattr(wanted, f"{name}_per_day") for name in names}
    each_one = {name: getattr(wanted, f"each_{name}_per_day") for name in names}
    limits = {
        "together": together,
        "each": each_one,
        "failures_to_pause": wanted.failures_to_pause,
        "paid_interval_seconds": wanted.paid_interval_seconds,
    }
    if schedules and not any((*together.values(), *each_one.values())):
        warnings.append("No budget is set, so nothing limits what runs use in a day (schedules.tokens_per_day).")
    return {"day": day, "schedules": schedules, "spent": to_builtins(spent), "limits": limits, "warnings": warnings}


def _watched(
    store: ScheduleStore, found: dict[str, Any], settings: Settings, spending: Spending, now: datetime
) -> dict[str, Any]:
    """Return a schedule of the overview, whose warnings include what keeps it from running with these settings."""
    name, problem = found["name"], found.get("problem")
    kept = {key: found.get(key) for key in ("name", "description", "state", "next", "note")}
    warnings = [*([problem] if problem else []), *found.get("warnings", [])]
    if problem:
        return {**kept, "model": None, "rights": None, "spent": None, "warnings": warnings}
    binding = store.read(name)
    terms = terms_of(settings, binding.model, now)
    if binding.state is ScheduleState.PAUSED and binding.note:
        warnings.append(binding.note)
    warnings += cannot_run(settings, binding.rights, binding.model, terms)
    if (reason := spending.refusal(name, terms)) is not None:
        warnings.append(f"Its next run is skipped: {reason}.")
    spent = to_builtins(spending.spent(terms.day, name))
    rights = to_builtins(binding.rights)
    return {**kept, "model": terms.model, "rights": rights, "spent": spent, "warnings": warnings}


def cannot_run(settings: Settings, rights: RunRights, model: str | None, terms: Terms) -> list[str]:
    """Return why runs with these rights fail, or lack something, in a process with these settings."""
    found = []
    try:
        checked_model(model, settings.section(RunSettings).model)
    except (ScheduleError, ModelUnavailableError) as error:
        found.append(str(error))
    if terms.price is None and (terms.together.dollars or terms.each.dollars):
        found.append(f"The price of {terms.model} is unknown, so its runs are skipped: give it in runs.prices.")
    starts = "run_command" in rights.run_tools or rights.scripts or bool(rights.skill_tools)
    if starts and not settings.section(ScheduleSettings).unsandboxed:
        isolation = script_setup(settings).isolation
        if isolation.sandbox is None:
            found.append(f"Its runs start no programs: {no_programs_reason(isolation.fault)}.")
    return found


def latest_result(found: Mapping[str, Any]) -> str | None:
    """Return the output of a schedule's latest run that has ended, None if its trace is gone."""
    done = [run for run in found["runs"] if run["status"] != "running"]
    try:
        return str(trace_store().read(done[-1]["id"]).get("output") or "") if done else None
    except (UnknownTraceError, UnreadableTraceError):
        return None


def next_times(binding: Binding, now: datetime, count: int) -> list[str]:
    """Return the next firings of a schedule by the clocks of its zone."""
    return [_local(each, binding) for each in healed(binding, now).next(now, count)]


def _run_object(run: ScheduledRun | Firing, binding: Binding) -> dict[str, Any]:
    found: dict[str, Any] = to_builtins(run, builtin_types=(datetime,))
    return {key: _readable(value, binding) for key, value in found.items()}


def _readable(value: object, binding: Binding) -> object:
    """Return a value of a run for JSON, with its times as the clocks of the schedule show them."""
    if isinstance(value, dict):
        return {key: _readable(each, binding) for key, each in value.items()}
    return _local(value, binding) if isinstance(value, datetime) else value


def _local(moment: datetime, binding: Binding) -> str:
    """Return a time as the clocks of the schedule show it, with its offset."""
    when = binding.time
    return in_zone(to_utc(moment), zone_named(when.zone if isinstance(when, Cron) else binding.zone)).isoformat()


def echo(when: When, zone: str, now: datetime, task: str | None) -> str:
    """Return what was understood, in full: the time, its next three firings, and the task, None if it stays."""
    shown = "The task is not changed." if task is None else f"Task: {task.strip()}"
    return f"{describe(when, now, zone)}\n{shown}"


@dataclass(frozen=True, slots=True)
class AddOptions:
    """The arguments of `schedule add`; `flags` are settings of its runs."""

    short: str
    at: str | None
    every: str | None
    cron: str | None
    zone: str | None
    task: str | None
    output: str | None
    skill: str | None
    model: str | None
    missed: MissedPolicy
    overlap: OverlapPolicy
    directories: list[Path] | None
    flags: Mapping[str, object]


_CHANGES = frozenset({"improved", "proposed", "accepted", "rejected"})
# Improvements that changed a skill, or that propose to.

_MOST_CHANGES = 20


def add_schedule(options: AddOptions) -> tuple[str, dict[str, Any]]:
    """Make a schedule or give one another time; return what was understood, as text and as an object."""
    store, now = ScheduleStore(), utc_now()
    try:
        zone = options.zone or local_zone()
        zone_named(zone)
        when = _when(options, now, zone)
    except InvalidTimeError as error:
        fail(str(error), EXIT_USAGE)
    try:
        name = store.find(options.short)
    except UnknownScheduleError:
        if options.task is None:
            fail("What should be done? Give the task with --task TEXT.", EXIT_USAGE)
        if fault := short_fault(options.short):
            fail(fault, EXIT_USAGE)
        binding = _binding(options, when, zone, now)
        name = store.add(options.short, options.task, binding, output=options.output, alone=True)
        understood, what = echo(when, zone, now, options.task), "made"
    else:
        settings = settings_of(Machine(current_places()), options.flags)
        give_time(store, name, when, zone, now, settings, lambda: _binding(options, when, zone, now))
        understood, what = echo(when, zone, now, None), "has this time"
        if options.task is not None:
            file = store.root / name / MAIN_FILE
            print_notice(f"{name} exists, so only its time is changed; edit {file} for the task")
    found = schedule_object(store, name, store.read(name), now)
    return f"{name}  {what}\n{understood}", {**found, "echo": understood}


def give_time(
    store: ScheduleStore,
    name: str,
    when: When,
    zone: str,
    now: datetime,
    settings: Settings,
    make: Callable[[], Binding],
) -> None:
    """Give a schedule another time, or a scheduler skill that has none the binding that `make` returns.

    Raises:
        ScheduleError: the time never comes or comes too often, or the schedule cannot be changed.
    """
    if store.is_bound(name):
        check_interval(when, terms_of(settings, store.read(name).model, now), now)
        store.update(name, lambda binding: rebound(binding, when, zone, now))
    else:
        store.bind(name, make())


def _when(options: AddOptions, now: datetime, zone: str) -> When:
    given = [each for each in (options.at, options.every, options.cron) if each is not None]
    if len(given) != 1:
        fail("When should it run? Give exactly one of --at WHEN, --every SPAN and --cron EXPR.", EXIT_USAGE)
    if options.at is not None:
        return parse_at(options.at, now, zone)
    if options.every is not None:
        return Every(parse_every(options.every), now.replace(microsecond=0) + timedelta(seconds=1))
    return parse_cron(options.cron or "", zone)


def _binding(options: AddOptions, when: When, zone: str, now: datetime) -> Binding:
    """Return the binding of a new schedule, and tell what would keep its runs from working."""
    skill, model = options.skill, options.model
    if skill is None:
        library, settings = None, settings_of(Machine(current_places()), options.flags)
    else:
        library, settings = open_with_settings(options.directories, **options.flags)
    check_interval(when, terms_of(settings, model, now), now)
    # The process that fires it has the settings alone.
    own = settings_of(Machine(current_places()), {**options.flags, "model": None})
    for trouble in cannot_run(own, rights_of(settings), model, terms_of(own, model, now)):
        print_notice(trouble)
    if library is not None and library.catalog.get(skill or "") is None:
        print_notice(f"--skill {skill}: no such skill is active here; runs fail unless it is when they fire")
    if reason := runs_unavailable_reason(settings.section(RunSettings)):
        print_notice(f"with the settings here its runs would fail: {reason}")
    return new_binding(
        when,
        zone,
        now,
        rights=rights_of(settings),
        creator="command: schedule add",
        skill=skill,
        model=model,
        missed=options.missed,
        overlap=options.overlap,
    )


def pause_schedule(name: str) -> dict[str, str]:
    """Let a schedule fire only by hand, and return its name and its state."""
    return _changed(name, paused)


def resume_schedule(name: str) -> dict[str, str]:
    """Let a paused schedule fire again, and return its name and its state."""
    return _changed(name, lambda binding: resumed(binding, utc_now()))


def _changed(name: str, change: Callable[[Binding], Binding]) -> dict[str, str]:
    store = ScheduleStore()
    found = store.find(name)
    return {"name": found, "state": store.update(found, change).state.value}


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
    lines += [f"today, {found['day']}: {spent_words(found['spent'], found['limits']['together'])}"]
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
    yield f"  may use  {rights_words(found['rights'])}"
    yield f"  today    {spent_words(found['spent'], {})}"


def rights_words(rights: Mapping[str, Any]) -> str:
    """Return what the runs of a schedule may use, as people read it; `rights` are as in the overview."""
    may = [*rights["run_tools"], *rights["skill_tools"], *(["scripts of skills"] if rights["scripts"] else [])]
    may += [f"the MCP servers of {rights['mcp_servers']}"] if rights["mcp_servers"] else []
    place = f" in {rights['workspace']}" if rights["workspace"] else ""
    return f"{', '.join(may) or 'nothing but the model'}{place}"


def spent_words(spent: Mapping[str, Any], limits: Mapping[str, Any]) -> str:
    """Return what runs have used on a day, and of how much; `spent` and `limits` are as in the overview."""

    def of(name: str) -> str:
        return f" of {limits[name]:,}" if limits.get(name) else ""

    dollars = f"{spent['dollars']:.2f}{of('dollars')} dollars"
    others = "".join(f", {spent[name]:,}{of(name)} {name}" for name in ("requests", "seconds") if limits.get(name))
    return f"{spent['runs']:,}{of('runs')} runs, {spent['tokens']:,}{of('tokens')} tokens{others}, {dollars}"


def start_schedule(name: str, tool: str, settings: Settings) -> dict[str, str]:
    """Begin a run of a schedule for the caller of a tool, and return its name and the ID of the run."""
    store, now = ScheduleStore(), utc_now()
    found = store.find(name)
    trigger, terms = f"manual: {found} by the tool {tool}", terms_of(settings, store.read(found).model, now)
    binding = store.spend(found, lambda each, spending: started_by_hand(each, found, now, trigger, terms, spending))
    return {"name": found, "run_id": "" if binding.running is None else binding.running.id}


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
