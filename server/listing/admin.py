"""What settings may offer to those who look after a server: tools, and the status as a resource.

They are there whatever skills there are: they are needed most where none is active.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.config import OptionalTool
from server.listing.envelope import cacheable
from skills_core.diagnostics import Severity
from skills_core.skill import State
from skills_core.sources import Scope, Strictness

if TYPE_CHECKING:
    from server.config import Settings

__all__ = ["STATUS_URI", "offers_status", "status_contents", "status_resource", "tools"]

STATUS_URI = "skillserve://status"

_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_FLAG = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 0}
_NAMES = {"type": "array", "items": _TEXT}


def tools(settings: Settings) -> list[dict[str, Any]]:
    """Return the entries of the tools that are switched on, in one order."""
    known = {OptionalTool.SKILLS_STATUS: _STATUS, OptionalTool.RELOAD_SKILLS: _RELOAD}
    return [known[name] for name in known if name in settings.tools]


def offers_status(settings: Settings) -> bool:
    """Tell whether the status is a resource: it is where the tool is there."""
    return OptionalTool.SKILLS_STATUS in settings.tools


def status_resource() -> dict[str, Any]:
    """Return the status as it stands in `resources/list`."""
    return {
        "uri": STATUS_URI,
        "name": "skills-status",
        "title": "Status of all skills",
        "description": "Every skill found, its state, and why.",
        "mimeType": "application/json",
        "annotations": {"audience": ["user"], "priority": 0.1},
    }


def status_contents(text: str, settings: Settings) -> dict[str, Any]:
    """Return the result of reading the status, which is of this moment, and for nobody's cache."""
    contents = {"uri": STATUS_URI, "mimeType": "application/json", "text": text}
    return {"contents": [contents], **cacheable(settings), "ttlMs": 0, "cacheScope": "private"}


def _enum(values: type[State | Scope | Strictness | Severity]) -> dict[str, Any]:
    return {"type": "string", "enum": [member.value for member in values]}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(items: dict[str, Any], description: str | None = None) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": items}
    return {**schema, "description": description} if description else schema


_DIAGNOSTIC = {
    "severity": _enum(Severity),
    "code": _TEXT,
    "message": _TEXT,
    "path": _TEXT,
    "line": {"type": ["integer", "null"]},
}

_SKILL = _object(
    name=_TEXT,
    key=_TEXT,
    skill_key=_TEXT,
    state=_enum(State),
    reason=_TEXT_OR_NULL,
    detail=_TEXT_OR_NULL,
    scope=_enum(Scope),
    source=_TEXT,
    path=_TEXT,
    uri=_TEXT,
    id=_TEXT_OR_NULL,
    digest=_TEXT_OR_NULL,
    last_modified={"type": ["integer", "null"]},
    description=_TEXT,
    primary_credential={"anyOf": [_object(name=_TEXT, set=_FLAG), {"type": "null"}]},
    model_invocable=_FLAG,
    user_invocable=_FLAG,
    diagnostics=_list(_object(**_DIAGNOSTIC, fix=_TEXT_OR_NULL)),
)

_SOURCE = _object(
    root=_TEXT, scope=_enum(Scope), strictness=_enum(Strictness), trusted=_FLAG, exists=_FLAG, skills=_COUNT
)

_STATUS: dict[str, Any] = {
    "name": OptionalTool.SKILLS_STATUS.value,
    "title": "Status of all skills",
    "description": (
        "Show every skill that was found, its state (active, excluded, shadowed, invalid), the reason, and what is "
        "wrong with its files. Call this when a skill is missing or does not work. The arguments narrow the answer."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "state": _list(_enum(State), "Only skills in one of these states."),
            "reason": _list(_TEXT, "Only skills with one of these reason codes, such as missing_env."),
            "scope": _list(_enum(Scope), "Only skills of such sources."),
            "name": _list(_TEXT, "Only skills whose name fits one of these patterns, such as sql-*."),
        },
        "additionalProperties": False,
    },
    "outputSchema": _object(skills=_list(_SKILL), problems=_list(_object(**_DIAGNOSTIC)), sources=_list(_SOURCE)),
    "annotations": {
        "title": "Status of all skills",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    },
}

_RELOAD: dict[str, Any] = {
    "name": OptionalTool.RELOAD_SKILLS.value,
    "title": "Reload skills",
    "description": "Compare all skills with the disk, load what changed, and say what that was.",
    "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    "outputSchema": _object(
        added=_NAMES,
        removed=_NAMES,
        updated=_NAMES,
        counts=_object(added=_COUNT, removed=_COUNT, updated=_COUNT),
        states=_object(**{state.value: _COUNT for state in State}),
    ),
    "annotations": {
        "title": "Reload skills",
        "readOnlyHint": False,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    },
}
