"""Schedules as JSON objects and as text, for commands and tools."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins

from server.run.trace_files import trace_store
from server.schedules.errors import DamagedScheduleError, ScheduleError
from server.schedules.skill_text import body_of, description_of
from skills_core.run.trace.store import UnknownTraceError, UnreadableTraceError
from skills_core.schedules.description import describe
from skills_core.schedules.when import Cron, when_to_json
from skills_core.schedules.zones import in_zone, to_utc, zone_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.schedules.binding import Binding, Firing, ScheduledRun
    from server.schedules.store import ScheduleStore
    from skills_core.schedules.when import When

__all__ = ["echo", "latest_result", "listed", "next_times", "schedule_object", "shown"]


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
        "note": binding.note,
    }


def shown(store: ScheduleStore, name: str, now: datetime) -> dict[str, Any]:
    """Return a schedule with its rights and its instructions.

    Raises:
        ScheduleError: there is none of this name, or it is damaged.
    """
    binding = store.read(name)
    found = schedule_object(store, name, binding, now)
    return {**found, "rights": to_builtins(binding.rights), "body": body_of(store.folder(name))}


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
    return [_local(each, binding) for each in binding.next(now, count)]


def _run_object(run: ScheduledRun | Firing, binding: Binding) -> dict[str, Any]:
    found: dict[str, Any] = to_builtins(run, builtin_types=(datetime,))
    return {key: _local(value, binding) if isinstance(value, datetime) else value for key, value in found.items()}


def _local(moment: datetime, binding: Binding) -> str:
    """Return a time as the clocks of the schedule show it, with its offset."""
    when = binding.time
    return in_zone(to_utc(moment), zone_named(when.zone if isinstance(when, Cron) else binding.zone)).isoformat()


def echo(when: When, zone: str, now: datetime, task: str | None) -> str:
    """Return what was understood, in full: the time, its next three firings, and the task, None if it stays."""
    shown = "The task is not changed." if task is None else f"Task: {task.strip()}"
    return f"{describe(when, now, zone)}\n{shown}"
