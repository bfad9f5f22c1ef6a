"""The tools for the history of skills: `skill_history` and `rollback_skill`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio.to_thread

from server.capabilities.history.histories import Histories, is_shown, versions_seen
from server.capabilities.history.settings import ROLLBACK_SKILL, SKILL_HISTORY
from server.listing.schemas import TEXT, TEXTS, hints, list_of, object_of, or_null
from server.protocol.tool_call import Tool, structured_result
from server.requests import Use, note_skill, note_use
from server.wire.params import InvalidRequestError, string

if TYPE_CHECKING:
    from server.capabilities.history.histories import RecordedSkill
    from server.hosting.host import Host
    from server.protocol.tool_call import ToolCall
    from skills_core.catalog.catalog import Catalog
    from skills_core.history.history import History, Sees

    _Work: TypeAlias = Callable[[History, RecordedSkill, Sees | None], dict[str, Any]]

logger = logging.getLogger(__name__)

_MAX_DIFF = 50_000

_DEFAULT_COMMITS: Final = 20
_MAX_COMMITS: Final = 100

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

_HISTORY: dict[str, Any] = {
    "name": SKILL_HISTORY,
    "title": "History of a skill",
    "description": (
        "List the recorded changes of a skill, newest first: when, why and by which run. With diff, also show what "
        "differs from a commit to the files now. Call this before rollback_skill."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "name": _NAME,
            "limit": {"type": "integer", "minimum": 1, "maximum": _MAX_COMMITS, "default": _DEFAULT_COMMITS},
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
    "name": ROLLBACK_SKILL,
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


class _HistoryHandlers:
    def __init__(self, host: Host) -> None:
        """Answer from `host`."""
        self._host = host

    async def history(self, call: ToolCall) -> dict[str, Any]:
        limit = call.arguments.get("limit", _DEFAULT_COMMITS)
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MAX_COMMITS:
            raise InvalidRequestError(f"limit must be a whole number from 1 to {_MAX_COMMITS}")
        shows_evals = call.view.settings.catalog.serve_evals

        def work(history: History, found: RecordedSkill, sees: Sees | None) -> dict[str, Any]:
            _note_read(found, call.view.catalog)
            commits = [commit.to_json() for commit in history.commits(found.name, limit, sees)]
            wanted = call.arguments.get("diff") is True
            shows = partial(is_shown, found.name, evals=shows_evals)
            text = history.diff(found.name, _rev(call), shows, sees) if wanted else None
            return {"commits": commits, "diff": text if text is None else _shortened(text)}

        return structured_result(await self._in_thread(call, work))

    async def rollback(self, call: ToolCall) -> dict[str, Any]:
        def work(history: History, found: RecordedSkill, sees: Sees | None) -> dict[str, Any]:
            commit = history.rollback(found.name, _rev(call), sees=sees)
            return {"changed": commit is not None, "commit": None if commit is None else commit.to_json()}

        done = await self._in_thread(call, work)
        if done["changed"]:
            logger.info("rolled back on request: %s", ", ".join(done["commit"]["skills"]))
            # The watcher would notice it too, but may be off.
            await self._host.reload()
        return structured_result(done)

    async def _in_thread(self, call: ToolCall, work: _Work) -> dict[str, Any]:
        """Do the work on the history of the skill that a call names; only what its sender sees counts."""
        histories = Histories.of(call.view.settings)
        name, catalog = string(call.arguments, "name"), call.view.catalog

        def sees_of(found: RecordedSkill) -> Sees | None:
            if call.view.shows is None:
                return None
            visible = histories.names_in(found.root, catalog)
            return versions_seen(found.root, found.source, call.view.shows, visible)

        def locked() -> dict[str, Any]:
            found = histories.find(name, catalog, removed=call.view.shows is None)
            with histories.open(found.root) as history:
                return work(history, found, sees_of(found))

        return await anyio.to_thread.run_sync(locked)


def _note_read(found: RecordedSkill, catalog: Catalog) -> None:
    place = found.root / found.name
    skill = next((each for each in catalog.skills if each.source.root / each.content.place == place), None)
    if skill is None:
        note_use(Use.READ)
    else:
        note_skill(skill, Use.READ)


def _rev(call: ToolCall) -> str | None:
    rev = call.arguments.get("rev")
    return rev if isinstance(rev, str) else None


def _shortened(text: str) -> str:
    if len(text) <= _MAX_DIFF:
        return text
    return f"{text[:_MAX_DIFF]}\n[{len(text) - _MAX_DIFF} more characters are left out]\n"


TOOLS = (
    Tool(SKILL_HISTORY, lambda _: _HISTORY, lambda services: _HistoryHandlers(services.host).history),
    Tool(ROLLBACK_SKILL, lambda _: _ROLLBACK, lambda services: _HistoryHandlers(services.host).rollback),
)
