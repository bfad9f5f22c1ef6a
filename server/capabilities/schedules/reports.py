"""Schedules as JSON objects and as text, for commands and tools."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins

from server.capabilities.runs.offered import trace_store
from server.capabilities.runs.settings import RunSettings
from server.capabilities.schedules.binding import ahead_warning, healed
from server.capabilities.schedules.budgets import terms_of
from server.capabilities.schedules.errors import DamagedScheduleError, ScheduleError
from server.capabilities.schedules.rights import checked_model, no_programs_reason
from server.capabilities.schedules.settings import ScheduleSettings
from server.capabilities.schedules.store import body_of, description_of
from server.capabilities.scripts.factory import script_setup
from skills_core.runs.models import ModelUnavailableError
from skills_core.runs.trace import UnknownTraceError, UnreadableTraceError
from skills_core.schedules.cron import in_zone, to_utc, zone_named
from skills_core.schedules.policies import ScheduleState
from skills_core.schedules.when import Cron, describe, when_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.capabilities.schedules.binding import Binding, Firing, ScheduledRun
    from server.capabilities.schedules.budgets import Spending, Terms
    from server.capabilities.schedules.rights import Rights
    from server.capabilities.schedules.store import ScheduleStore
    from server.config.settings.model import Settings
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
        "next": _times(binding, now, 3),
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
    names = ("runs", "tokens", "dollars")
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


def cannot_run(settings: Settings, rights: Rights, model: str | None, terms: Terms) -> list[str]:
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


def next_times(store: ScheduleStore, name: str, now: datetime, count: int) -> list[str]:
    """Return the next firings of a schedule by the clocks of its zone.

    Raises:
        ScheduleError: there is none of this name, or it is damaged.
    """
    return _times(store.read(name), now, count)


def _times(binding: Binding, now: datetime, count: int) -> list[str]:
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
