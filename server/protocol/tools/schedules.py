"""Calls of the tools for schedules."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.config.settings import OptionalTool
from server.exchange.elicitation import ClientUser
from server.listing.envelope import text_block, tool_result
from server.listing.runs import offers_tool
from server.listing.schedules import SCHEDULE_TOOLS, tools
from server.protocol.tool_call import Tool, is_always_there
from server.wire.arguments import string
from server.wire.errors import InvalidRequestError
from skills_core.rendering.escaping import escape_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from server.exchange.client_exchange import ClientExchange
    from server.exchange.registry import ExchangeRegistry
    from server.hosting.host import Host
    from server.protocol.tool_call import ToolCall
    from server.schedules.creation import Understood

__all__ = ["ScheduleHandlers"]

_MAX_QUESTIONS = 4
_MAX_TEXT = 20_000


class ScheduleHandlers:
    """The tools for schedules. Clients with views of their own have none: schedules are the user's."""

    def __init__(self, host: Host, exchanges: ExchangeRegistry) -> None:
        """Answer from `host`; `exchanges` asks the user for what is missing."""
        self._host = host
        self._exchanges = exchanges

    def tools(self) -> dict[str, Tool]:
        """Return the tools that are switched on, by their names."""
        known = {
            OptionalTool.SCHEDULE_SKILL: self._schedule,
            OptionalTool.LIST_SCHEDULES: self._in_thread(_list),
            OptionalTool.SHOW_SCHEDULE: self._in_thread(_show),
            OptionalTool.PAUSE_SCHEDULE: self._in_thread(_pause),
            OptionalTool.RESUME_SCHEDULE: self._in_thread(_resume),
            OptionalTool.RUN_SCHEDULE: self._in_thread(self._run),
            OptionalTool.REMOVE_SCHEDULE: self._in_thread(_remove),
        }
        if self._host.views_differ or not tools(self._host.settings):
            return {}
        enabled = self._host.settings.tools.enabled
        return {name.value: Tool(known[name], is_always_there) for name in SCHEDULE_TOOLS if name in enabled}

    def _in_thread(self, work: Callable[[ToolCall], dict[str, Any]]) -> Callable[[ToolCall], Any]:
        async def handle(call: ToolCall) -> dict[str, Any]:
            return _result(await anyio.to_thread.run_sync(work, call))

        return handle

    def _run(self, call: ToolCall) -> dict[str, Any]:
        if not self._host.settings.schedules.enabled:
            raise InvalidRequestError("this server does not fire schedules; `skillserve schedule run NAME` does")
        from server.schedules.binding import started_by_hand
        from server.schedules.budgets import terms_of
        from server.schedules.store import ScheduleStore, utc_now

        store = ScheduleStore()
        name, now = store.find(string(call.arguments, "name")), utc_now()
        trigger = f"manual: {name} by the tool {call.name}"
        terms = terms_of(self._host.settings, store.read(name).model, now)
        running = store.spend(
            name, lambda found, spending: started_by_hand(found, name, now, trigger, terms, spending)
        ).running
        return {"name": name, "run_id": "" if running is None else running.id}

    async def _schedule(self, call: ToolCall) -> dict[str, Any]:
        return await self._exchanges.handle_call(call.ctx, {}, partial(self._made, call))

    async def _made(self, call: ToolCall, exchange: ClientExchange) -> dict[str, Any]:
        understood = await self._completed(call, ClientUser(exchange, call.name, in_run=False))
        return _result(await anyio.to_thread.run_sync(self._bound, call, understood))

    async def _completed(self, call: ToolCall, user: ClientUser) -> Understood:
        """Return the time and the task of a call; ask the user for what is missing.

        Raises:
            InvalidRequestError: the user cannot be asked, or does not answer.
        """
        from server.schedules.creation import Request, understand
        from server.schedules.store import utc_now

        given = {key: string(call.arguments, key, default="")[:_MAX_TEXT] for key in ("time", "task", "request")}
        request = Request(given["time"] or None, given["task"] or None, given["request"] or None)
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
        from server.schedules.budgets import check_interval, terms_of
        from server.schedules.creation import bind, create, rebind
        from server.schedules.reports import echo, schedule_object
        from server.schedules.store import ScheduleStore, utc_now

        store, now, zone, when = ScheduleStore(), utc_now(), _zone(call), understood.when
        assert when is not None  # noqa: S101 - the request is understood
        existing = string(call.arguments, "name", default="")
        name = store.find(existing) if existing else ""
        model = store.read(name).model if name and store.is_bound(name) else None
        check_interval(when, terms_of(self._host.settings, model, now), now)
        if name:
            if store.is_bound(name):
                rebind(store, name, when, zone, now)
            else:
                bind(store, name, self._wanted(call, understood), now)
            task = None
        else:
            name = create(store, self._wanted(call, understood), now)
            task = understood.task
        found = schedule_object(store, name, store.read(name), now)
        return {"name": name, "echo": echo(when, zone, now, task), "next": found["next"], "state": found["state"]}

    def _wanted(self, call: ToolCall, understood: Understood) -> Any:  # noqa: ANN401 - its type needs the extra
        from msgspec import structs

        from server.schedules.creation import NewSchedule
        from server.schedules.rights import Rights, rights_of
        from skills_core.schedules.policies import MissedPolicy, OverlapPolicy

        arguments, settings = call.arguments, self._host.settings
        # A client that may run nothing must not do so by a schedule.
        rights = rights_of(settings) if offers_tool(settings) else Rights()
        if isinstance(chosen := arguments.get("tools"), list):
            rights = structs.replace(rights, run_tools=tuple(each for each in rights.run_tools if each in chosen))
        skill = string(arguments, "skill", default="") or None
        assert understood.when is not None  # noqa: S101 - the request is understood
        return NewSchedule(
            short=string(arguments, "short", default="") or "task",
            when=understood.when,
            zone=_zone(call),
            task=understood.task or "",
            output=string(arguments, "output", default="") or None,
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
    from server.schedules.reports import listed
    from server.schedules.store import ScheduleStore, utc_now

    return {"schedules": listed(ScheduleStore(), utc_now())}


def _show(call: ToolCall) -> dict[str, Any]:
    from server.schedules.reports import latest_result, shown
    from server.schedules.store import ScheduleStore, utc_now

    store = ScheduleStore()
    found = shown(store, store.find(string(call.arguments, "name")), utc_now())
    return {**found, "result": latest_result(found)}


def _pause(call: ToolCall) -> dict[str, Any]:
    from server.schedules.binding import paused
    from server.schedules.store import ScheduleStore

    store = ScheduleStore()
    name = store.find(string(call.arguments, "name"))
    return {"name": name, "state": store.update(name, paused).state.value}


def _resume(call: ToolCall) -> dict[str, Any]:
    from server.schedules.binding import resumed
    from server.schedules.store import ScheduleStore, utc_now

    store = ScheduleStore()
    name = store.find(string(call.arguments, "name"))
    return {"name": name, "state": store.update(name, lambda found: resumed(found, utc_now())).state.value}


def _remove(call: ToolCall) -> dict[str, Any]:
    from server.schedules.store import ScheduleStore

    store = ScheduleStore()
    name = store.find(string(call.arguments, "name"))
    store.remove(name)
    return {"name": name}


def _result(structured: dict[str, Any]) -> dict[str, Any]:
    return {**tool_result([text_block(escape_json(structured))]), "structuredContent": structured}
