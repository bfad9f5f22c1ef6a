"""The tools for operators, `skills_status` and `reload_skills`, and what they share with signals and routes.

The tools are listed even if no skill is active, since that is when they are needed most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.capabilities.operation.settings import RELOAD_SKILLS, SKILLS_STATUS
from server.hosting.catalog_log import log_reload
from server.hosting.status import StatusFilter, change_object, skill_object, status_object
from server.listing.schemas import TEXT, TEXTS, hints, list_of, object_of, or_null
from server.protocol.tool_call import Tool, structured_result
from server.wire.params import InvalidRequestError
from skills_core.diagnostics import Severity
from skills_core.disk.sources import Scope, Strictness
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from server.protocol.tool_call import Handler, ToolCall, ToolServices
    from skills_core.catalog.catalog import Catalog
    from skills_core.live.library import Change


async def read_status(catalog: Catalog, settings: Settings, choice: StatusFilter | None = None) -> dict[str, Any]:
    """Return what `status --json` prints for a catalog."""
    # The status covers every skill, so it is built in a thread and does not block other requests.
    return await anyio.to_thread.run_sync(status_object, catalog, settings, choice or StatusFilter())


def status_differs(change: Change) -> bool:
    """Tell whether a change of the library changes the status, which also has the problems and sources."""
    before, after = change.before, change.after
    others_differ = (before.problems, before.sources) != (after.problems, after.sources)
    if others_differ or change.added or change.removed:
        return True
    return any(skill_object(old) != skill_object(new) for old, new in change.updated)


_FLAG = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 0}


def _enum(values: type[State | Scope | Strictness | Severity]) -> dict[str, Any]:
    return {"type": "string", "enum": [member.value for member in values]}


_DIAGNOSTIC = {
    "severity": _enum(Severity),
    "code": TEXT,
    "message": TEXT,
    "path": TEXT,
    "line": or_null({"type": "integer"}),
}

_SKILL = object_of(
    name=TEXT,
    key=TEXT,
    skill_key=TEXT,
    state=_enum(State),
    reason=or_null(TEXT),
    detail=or_null(TEXT),
    scope=_enum(Scope),
    source=TEXT,
    path=TEXT,
    uri=TEXT,
    id=or_null(TEXT),
    digest=or_null(TEXT),
    last_modified=or_null({"type": "integer"}),
    description=TEXT,
    version=or_null(TEXT),
    primary_credential=or_null(object_of(name=TEXT, set=_FLAG)),
    model_invocable=_FLAG,
    user_invocable=_FLAG,
    diagnostics=list_of(object_of(**_DIAGNOSTIC, fix=or_null(TEXT))),
)

_SOURCE = object_of(
    root=TEXT, scope=_enum(Scope), strictness=_enum(Strictness), trusted=_FLAG, exists=_FLAG, skills=_COUNT
)

_STATUS: dict[str, Any] = {
    "name": SKILLS_STATUS,
    "title": "Status of all skills",
    "description": (
        "Show every skill that was found, its state (active, excluded, shadowed, invalid), the reason, and what is "
        "wrong with its files. Call this when a skill is missing or does not work. The arguments narrow the answer."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "state": list_of(_enum(State), "Only skills in one of these states."),
            "reason": list_of(TEXT, "Only skills with one of these reason codes, such as missing_env."),
            "scope": list_of(_enum(Scope), "Only skills of such sources."),
            "name": list_of(TEXT, "Only skills whose name fits one of these patterns, such as sql-*."),
        },
        "additionalProperties": False,
    },
    "outputSchema": object_of(
        skills=list_of(_SKILL),
        problems=list_of(object_of(**_DIAGNOSTIC)),
        sources=list_of(_SOURCE),
        runs=object_of(
            model=or_null(TEXT),
            run_skill=_FLAG,
            reason=or_null(TEXT, "Why run_skill is not there."),
            run_workflow=_FLAG,
            workflow_reason=or_null(TEXT, "Why run_workflow is not there."),
            missing_workflows=list_of(TEXT, "Places of workflows that settings name, at which there is nothing."),
        ),
        scripts=object_of(
            offered=_FLAG,
            isolation=TEXT,
            sandbox_required=_FLAG,
            missing=list_of(TEXT, "Parts of the sandbox that do not work here."),
            memory_limited={**_FLAG, "description": "Whether all processes of a script together have a limit."},
            statement=TEXT,
        ),
    ),
    "annotations": hints("Status of all skills"),
}

_RELOAD: dict[str, Any] = {
    "name": RELOAD_SKILLS,
    "title": "Reload skills",
    "description": "Compare all skills with the disk, load what changed, and say what that was.",
    "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    "outputSchema": object_of(
        added=TEXTS,
        removed=TEXTS,
        updated=TEXTS,
        counts=object_of(added=_COUNT, removed=_COUNT, updated=_COUNT),
        states=object_of(**{state.value: _COUNT for state in State}),
    ),
    "annotations": hints("Reload skills", read_only=False),
}


def _status_handler(_: ToolServices) -> Handler:
    async def status(call: ToolCall) -> dict[str, Any]:
        choice = StatusFilter.parse(call.arguments)
        return structured_result(await read_status(call.view.catalog, call.view.settings, choice))

    return status


def _reload_handler(services: ToolServices) -> Handler:
    host = services.host

    async def reload(call: ToolCall) -> dict[str, Any]:
        if call.arguments:
            raise InvalidRequestError("reload_skills takes no arguments")
        change = log_reload(await host.reload())
        return structured_result(change_object(host.change_in(call.view.name, change)))

    return reload


TOOLS = (
    Tool(
        SKILLS_STATUS,
        lambda _: _STATUS,
        _status_handler,
        when_cut="Ask for less with state, reason, scope or name.",
    ),
    Tool(RELOAD_SKILLS, lambda _: _RELOAD, _reload_handler),
)
