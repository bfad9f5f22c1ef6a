"""The tools for the history of skills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from server.config.settings import OptionalTool
from server.listing.schemas import TEXT, TEXTS, hints, list_of, object_of, or_null

if TYPE_CHECKING:
    from server.config.settings import Settings

__all__ = ["DEFAULT_COMMITS", "MAX_COMMITS", "tools"]

DEFAULT_COMMITS: Final = 20
MAX_COMMITS: Final = 100

_COMMIT = object_of(
    rev=TEXT,
    when={**TEXT, "description": "ISO 8601 with offset."},
    cause=TEXT,
    message=TEXT,
    trace_id=or_null(TEXT, "The run that led to the change."),
    skills=TEXTS,
    restores=or_null(TEXT, "The commit whose version a rollback restored."),
)
_NAME = {**TEXT, "description": "The skill's name."}
_REV = {
    **TEXT,
    "pattern": "^[0-9A-Fa-f]{4,40}$",
    "description": "A commit, by its first digits. Default: the one before the newest change.",
}


def tools(settings: Settings) -> list[dict[str, Any]]:
    """Return the entries of the tools that are switched on, in a fixed order."""
    known = {OptionalTool.SKILL_HISTORY: _HISTORY, OptionalTool.ROLLBACK_SKILL: _ROLLBACK}
    return [known[name] for name in known if name in settings.tools.enabled]


_HISTORY: dict[str, Any] = {
    "name": OptionalTool.SKILL_HISTORY.value,
    "title": "History of a skill",
    "description": (
        "List the recorded changes of a skill, newest first: when, why and by which run. With diff, also show what "
        "differs from a commit to the files now. Call this before rollback_skill."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "name": _NAME,
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_COMMITS, "default": DEFAULT_COMMITS},
            "diff": {"type": "boolean", "description": "Show the differences too."},
            "rev": {**_REV, "description": f"{_REV['description']} For diff."},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    "outputSchema": object_of(commits=list_of(_COMMIT), diff=or_null(TEXT, "A unified diff; null if not asked for.")),
    "annotations": hints("History of a skill"),
}

_ROLLBACK: dict[str, Any] = {
    "name": OptionalTool.ROLLBACK_SKILL.value,
    "title": "Restore a version of a skill",
    "description": (
        "Restore the files of a skill as they were at a commit, by default before the newest change. Edits that are "
        "not recorded yet are recorded first, and the rollback is a new commit, so nothing is lost. Call this only if "
        "the user asks for it."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {"name": _NAME, "rev": _REV},
        "required": ["name"],
        "additionalProperties": False,
    },
    "outputSchema": object_of(
        changed={"type": "boolean", "description": "False if the skill is as it was then."},
        commit={"anyOf": [_COMMIT, {"type": "null"}], "description": "The commit of the rollback."},
    ),
    "annotations": {
        **hints("Restore a version of a skill", read_only=False),
        "destructiveHint": True,
        "idempotentHint": False,
    },
}
