"""The tools for schedules. Clients with views of their own have none: schedules are the user's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread

from server.capabilities.runs.offered import offers_tool
from server.capabilities.schedules.settings import (
    LIST_SCHEDULES,
    PAUSE_SCHEDULE,
    REMOVE_SCHEDULE,
    RESUME_SCHEDULE,
    RUN_SCHEDULE,
    SCHEDULE_SKILL,
    SCHEDULE_TOOLS,
    SHOW_SCHEDULE,
    ScheduleSettings,
    can_schedule,
)
from server.listing.schemas import TEXT, TEXTS, hints, list_of, object_of, or_null
from server.protocol.tool_call import Tool, structured_result
from server.wire.params import InvalidRequestError, string

if TYPE_CHECKING:
    from server.capabilities.schedules.binding import Binding
    from server.conversation.client_exchange import ClientExchange
    from server.conversation.elicitation import ClientUser
    from server.protocol.tool_call import Handler, ToolCall, ToolServices
    from skills_core.schedules.free_text import Understood
    from skills_core.schedules.when import When

_MAX_QUESTIONS = 4
_MAX_TEXT = 20_000


_NAME = {**TEXT, "description": "The schedule's name, from list_schedules."}
_RUN = object_of(id=TEXT, fired_at=TEXT, status=TEXT)
_SCHEDULE = object_of(
    name=TEXT,
    next={**TEXTS, "description": "The next firings in ISO 8601 with offset."},
    state=TEXT,
    runs=list_of(_RUN),
)
_CHANGED = object_of(name=TEXT, state=TEXT)


def _entry(
    name: str,
    title: str,
    description: str,
    output: dict[str, Any],
    properties: dict[str, Any] | None = None,
    *,
    required: tuple[str, ...] = (),
    read_only: bool = False,
    destroys: bool = False,
) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties or {}, "required": [*required], "additionalProperties": False}
    repeats = name in {SCHEDULE_SKILL, RUN_SCHEDULE}
    annotations = {**hints(title, read_only=read_only), "destructiveHint": destroys, "idempotentHint": not repeats}
    return {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": schema,
        "outputSchema": output,
        "annotations": annotations,
    }


def _of_name(name: str, title: str, description: str, output: dict[str, Any], **more: bool) -> dict[str, Any]:
    return _entry(name, title, description, output, {"name": _NAME}, required=("name",), **more)


_MAKE = _entry(
    SCHEDULE_SKILL,
    "Schedule a skill",
    (
        "Run a task at a set time, once or again and again, without the user. Pass the user's own words as request, "
        "or time and task. Never invent a time or a task: leave out what the user did not say, and the user is asked. "
        "With name, only the time of that schedule is changed. Call this only if the user asks for a schedule."
    ),
    object_of(
        name=TEXT, echo={**TEXT, "description": "What was understood; repeat it to the user."}, next=TEXTS, state=TEXT
    ),
    {
        "request": {**TEXT, "description": "What to do and when, as the user said it."},
        "time": {**TEXT, "description": "When, as the user said it: +5m, 18:00, every 2 hours, 0 9 * * 1-5."},
        "task": {**TEXT, "description": "What to do, complete: the user cannot be asked later."},
        "output": {**TEXT, "description": "What the result should look like."},
        "short": {**TEXT, "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$", "maxLength": 40, "description": "A short name."},
        "name": {**TEXT, "description": "An existing schedule, to change its time."},
        "zone": {**TEXT, "description": "The IANA time zone. Default: the server's."},
        "skill": {**TEXT, "description": "The skill to perform the task with."},
        "tools": {**TEXTS, "description": "The workspace tools that runs may use. Default: all that run_skill has."},
        "missed": {**TEXT, "enum": ["skip", "once", "all"], "description": "What to do about missed firings."},
        "overlap": {**TEXT, "enum": ["skip", "queue"], "description": "What to do about a firing during a run."},
    },
)

_ENTRIES: Final = {
    SCHEDULE_SKILL: _MAKE,
    LIST_SCHEDULES: _entry(
        LIST_SCHEDULES,
        "Schedules",
        "List the schedules with their next firings and their runs.",
        object_of(schedules=list_of(_SCHEDULE)),
        read_only=True,
    ),
    SHOW_SCHEDULE: _of_name(
        SHOW_SCHEDULE,
        "A schedule",
        "Show a schedule: its task, rights, runs, and the result of the latest run.",
        {**_SCHEDULE, "properties": {**_SCHEDULE["properties"], "body": TEXT, "result": or_null(TEXT)}},
        read_only=True,
    ),
    PAUSE_SCHEDULE: _of_name(PAUSE_SCHEDULE, "Pause a schedule", "Let a schedule fire only by hand.", _CHANGED),
    RESUME_SCHEDULE: _of_name(RESUME_SCHEDULE, "Resume a schedule", "Let a paused schedule fire again.", _CHANGED),
    RUN_SCHEDULE: _of_name(
        RUN_SCHEDULE,
        "Run a schedule now",
        "Begin a run of a schedule now; show_schedule has the result later. Call this only if the user asks for it.",
        object_of(name=TEXT, run_id=TEXT),
    ),
    REMOVE_SCHEDULE: _of_name(
        REMOVE_SCHEDULE,
        "Remove a schedule",
        "Remove a schedule; its folder is moved to the trash. Call this only if the user asks for it.",
        object_of(name=TEXT),
        destroys=True,
    ),
}


class _Making:
    """Makes schedules, and begins their runs."""

    def __init__(self, services: ToolServices) -> None:
        """Ask the user for what is missing by the exchanges of `services`."""
        self._host = services.host
        self._exchanges = services.exchanges

    def run(self, call: ToolCall) -> dict[str, Any]:
        if not self._host.settings.section(ScheduleSettings).enabled:
            raise InvalidRequestError("this server does not fire schedules; `skillserve schedule run NAME` does")
        from server.capabilities.schedules.actions import start_schedule

        return start_schedule(string(call.arguments, "name"), call.name, self._host.settings)

    async def schedule(self, call: ToolCall) -> dict[str, Any]:
        return await self._exchanges.handle_call(call.ctx, {}, partial(self._made, call))

    async def _made(self, call: ToolCall, exchange: ClientExchange) -> dict[str, Any]:
        # Imported here, as it needs the SDK, which the list of tools does not wait for.
        from server.conversation.elicitation import ClientUser

        understood = await self._completed(call, ClientUser(exchange, call.name, in_run=False))
        return structured_result(await anyio.to_thread.run_sync(self._bound, call, understood))

    async def _completed(self, call: ToolCall, user: ClientUser) -> Understood:
        """Return the time and the task of a call; ask the user for what is missing.

        Raises:
            InvalidRequestError: the user cannot be asked, or does not answer.
        """
        from server.capabilities.schedules.store import utc_now
        from skills_core.schedules.free_text import UserRequest, understand

        given = {key: string(call.arguments, key, default="")[:_MAX_TEXT] for key in ("time", "task", "request")}
        request = UserRequest(given["time"] or None, given["task"] or None, given["request"] or None)
        needs_task = not call.arguments.get("name")
        understood = understand(request, utc_now(), _zone(call), needs_task=needs_task)
        for _ in range(_MAX_QUESTIONS):
            answer = await user.ask(understood.question) if understood.question else None
            if answer is None or not answer.strip():
                break
            understood = understand(understood.answered(answer), utc_now(), _zone(call), needs_task=needs_task)
        if not understood.question:
            return understood
        what = "time" if understood.asks_time else "task"
        raise InvalidRequestError(
            f"nothing is scheduled. Ask the user, and do not guess: {understood.question} Then call {call.name} again "
            f"with the answer as {what}."
        )

    def _bound(self, call: ToolCall, understood: Understood) -> dict[str, Any]:
        from server.capabilities.schedules.actions import echo, give_time, schedule_object
        from server.capabilities.schedules.store import ScheduleStore, utc_now

        store, now, zone, when = ScheduleStore(), utc_now(), _zone(call), understood.when
        assert when is not None  # noqa: S101 - the request is understood
        given = {key: string(call.arguments, key, default="") for key in ("name", "short", "output")}
        if given["name"]:
            name, task = store.find(given["name"]), None
            make = partial(self._binding, call, when, zone, now)
            give_time(store, name, when, zone, now, self._host.settings, make)
        else:
            task, binding = understood.task or "", self._binding(call, when, zone, now)
            name = store.add(given["short"] or "task", task, binding, output=given["output"] or None)
        found = schedule_object(store, name, store.read(name), now)
        return {"name": name, "echo": echo(when, zone, now, task), "next": found["next"], "state": found["state"]}

    def _binding(self, call: ToolCall, when: When, zone: str, now: datetime) -> Binding:
        from msgspec import structs

        from server.capabilities.schedules.allowances import RunRights, check_interval, rights_of, terms_of
        from server.capabilities.schedules.binding import new_binding
        from skills_core.schedules.when import MissedPolicy, OverlapPolicy

        arguments, settings = call.arguments, self._host.settings
        check_interval(when, terms_of(settings, None, now), now)
        # A client that may run nothing must not do so by a schedule.
        rights = rights_of(settings) if offers_tool(settings) else RunRights()
        if isinstance(chosen := arguments.get("tools"), list):
            rights = structs.replace(rights, run_tools=tuple(each for each in rights.run_tools if each in chosen))
        skill = string(arguments, "skill", default="") or None
        return new_binding(
            when,
            zone,
            now,
            rights=rights,
            creator=f"client_call: {call.name}",
            skill=None if skill is None else call.view.catalog.skill(skill).key,
            missed=MissedPolicy(arguments.get("missed") or MissedPolicy.ONCE),
            overlap=OverlapPolicy(arguments.get("overlap") or OverlapPolicy.SKIP),
        )


def _zone(call: ToolCall) -> str:
    from server.config.machine import local_zone
    from skills_core.schedules.cron import zone_named

    zone = string(call.arguments, "zone", default="") or local_zone()
    zone_named(zone)
    return zone


def _list(call: ToolCall) -> dict[str, Any]:
    del call
    from server.capabilities.schedules.actions import listed
    from server.capabilities.schedules.store import ScheduleStore, utc_now

    return {"schedules": listed(ScheduleStore(), utc_now())}


def _show(call: ToolCall) -> dict[str, Any]:
    from server.capabilities.schedules.actions import latest_result, shown
    from server.capabilities.schedules.store import ScheduleStore, utc_now

    store = ScheduleStore()
    found = shown(store, store.find(string(call.arguments, "name")), utc_now())
    return {**found, "result": latest_result(found)}


def _pause(call: ToolCall) -> dict[str, Any]:
    from server.capabilities.schedules.actions import pause_schedule

    return pause_schedule(string(call.arguments, "name"))


def _resume(call: ToolCall) -> dict[str, Any]:
    from server.capabilities.schedules.actions import resume_schedule

    return resume_schedule(string(call.arguments, "name"))


def _remove(call: ToolCall) -> dict[str, Any]:
    from server.capabilities.schedules.store import ScheduleStore

    store = ScheduleStore()
    name = store.find(string(call.arguments, "name"))
    store.remove(name)
    return {"name": name}


def _in_thread(work: Callable[[ToolCall], dict[str, Any]]) -> Handler:
    async def handle(call: ToolCall) -> dict[str, Any]:
        return structured_result(await anyio.to_thread.run_sync(work, call))

    return handle


_HANDLERS: Final[dict[str, Callable[[ToolServices], Handler]]] = {
    SCHEDULE_SKILL: lambda services: _Making(services).schedule,
    LIST_SCHEDULES: lambda _: _in_thread(_list),
    SHOW_SCHEDULE: lambda _: _in_thread(_show),
    PAUSE_SCHEDULE: lambda _: _in_thread(_pause),
    RESUME_SCHEDULE: lambda _: _in_thread(_resume),
    RUN_SCHEDULE: lambda services: _in_thread(_Making(services).run),
    REMOVE_SCHEDULE: lambda _: _in_thread(_remove),
}


def _tool(name: str) -> Tool:
    return Tool(name, lambda _: _ENTRIES[name], _HANDLERS[name], is_offered=lambda _: can_schedule())


TOOLS = tuple(map(_tool, SCHEDULE_TOOLS))
