"""The tools for schedules."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from server.config.settings import OptionalTool
from server.listing.schemas import TEXT, TEXTS, hints, list_of, object_of, or_null

if TYPE_CHECKING:
    from server.config.settings import Settings

__all__ = ["SCHEDULE_TOOLS", "can_schedule", "tools"]

SCHEDULE_TOOLS: Final = (
    OptionalTool.SCHEDULE_SKILL,
    OptionalTool.LIST_SCHEDULES,
    OptionalTool.SHOW_SCHEDULE,
    OptionalTool.PAUSE_SCHEDULE,
    OptionalTool.RESUME_SCHEDULE,
    OptionalTool.RUN_SCHEDULE,
    OptionalTool.REMOVE_SCHEDULE,
)

_NAME = {**TEXT, "description": "The schedule's name, from list_schedules."}
_RUN = object_of(id=TEXT, fired_at=TEXT, status=TEXT)
_SCHEDULE = object_of(
    name=TEXT,
    next={**TEXTS, "description": "The next firings in ISO 8601 with offset."},
    state=TEXT,
    runs=list_of(_RUN),
)
_CHANGED = object_of(name=TEXT, state=TEXT)


def can_schedule() -> bool:
    """Tell whether the libraries for times are installed; they come with the extra `run`."""
    return find_spec("cronsim") is not None and find_spec("dbos") is not None


def tools(settings: Settings) -> list[dict[str, Any]]:
    """Return the entries of the tools that are switched on, in a fixed order; times need the extra `run`."""
    wanted = [_ENTRIES[name] for name in SCHEDULE_TOOLS if name in settings.tools.enabled]
    return wanted if wanted and can_schedule() else []


def _entry(
    name: OptionalTool,
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
    repeats = name in {OptionalTool.SCHEDULE_SKILL, OptionalTool.RUN_SCHEDULE}
    annotations = {**hints(title, read_only=read_only), "destructiveHint": destroys, "idempotentHint": not repeats}
    return {
        "name": name.value,
        "title": title,
        "description": description,
        "inputSchema": schema,
        "outputSchema": output,
        "annotations": annotations,
    }


def _of_name(name: OptionalTool, title: str, description: str, output: dict[str, Any], **more: bool) -> dict[str, Any]:
    return _entry(name, title, description, output, {"name": _NAME}, required=("name",), **more)


_MAKE = _entry(
    OptionalTool.SCHEDULE_SKILL,
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
    OptionalTool.SCHEDULE_SKILL: _MAKE,
    OptionalTool.LIST_SCHEDULES: _entry(
        OptionalTool.LIST_SCHEDULES,
        "Schedules",
        "List the schedules with their next firings and their runs.",
        object_of(schedules=list_of(_SCHEDULE)),
        read_only=True,
    ),
    OptionalTool.SHOW_SCHEDULE: _of_name(
        OptionalTool.SHOW_SCHEDULE,
        "A schedule",
        "Show a schedule: its task, rights, runs, and the result of the latest run.",
        {**_SCHEDULE, "properties": {**_SCHEDULE["properties"], "body": TEXT, "result": or_null(TEXT)}},
        read_only=True,
    ),
    OptionalTool.PAUSE_SCHEDULE: _of_name(
        OptionalTool.PAUSE_SCHEDULE, "Pause a schedule", "Let a schedule fire only by hand.", _CHANGED
    ),
    OptionalTool.RESUME_SCHEDULE: _of_name(
        OptionalTool.RESUME_SCHEDULE, "Resume a schedule", "Let a paused schedule fire again.", _CHANGED
    ),
    OptionalTool.RUN_SCHEDULE: _of_name(
        OptionalTool.RUN_SCHEDULE,
        "Run a schedule now",
        "Begin a run of a schedule now; show_schedule has the result later. Call this only if the user asks for it.",
        object_of(name=TEXT, run_id=TEXT),
    ),
    OptionalTool.REMOVE_SCHEDULE: _of_name(
        OptionalTool.REMOVE_SCHEDULE,
        "Remove a schedule",
        "Remove a schedule; its folder is moved to the trash. Call this only if the user asks for it.",
        object_of(name=TEXT),
        destroys=True,
    ),
}
