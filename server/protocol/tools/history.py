"""Calls of the tools for the history of skills."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.config.settings import OptionalTool
from server.history.histories import Histories, versions_seen
from server.listing.envelope import text_block, tool_result
from server.listing.history import DEFAULT_COMMITS, MAX_COMMITS
from server.operation.notes import note_skill, note_use
from server.operation.records import Use
from server.protocol.tool_call import Tool, is_always_there
from server.wire.arguments import string
from server.wire.errors import InvalidRequestError
from skills_core.disk.folders import EVALS
from skills_core.rendering.escaping import escape_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from server.history.histories import RecordedSkill
    from server.hosting.host import Host
    from server.protocol.tool_call import ToolCall
    from skills_core.catalog import Catalog
    from skills_core.history.history import History, Sees

    _Work: TypeAlias = Callable[[History, RecordedSkill, Sees | None], dict[str, Any]]

__all__ = ["HistoryHandlers"]

logger = logging.getLogger(__name__)

_MAX_DIFF = 50_000


class HistoryHandlers:
    """The tools `skill_history` and `rollback_skill`."""

    def __init__(self, host: Host) -> None:
        """Answer from `host`."""
        self._host = host

    def tools(self) -> dict[str, Tool]:
        """Return the tools that are switched on, by their names."""
        known = {OptionalTool.SKILL_HISTORY: self._history, OptionalTool.ROLLBACK_SKILL: self._rollback}
        switched_on = [name for name in known if name in self._host.settings.tools.enabled]
        return {name.value: Tool(known[name], is_always_there) for name in switched_on}

    async def _history(self, call: ToolCall) -> dict[str, Any]:
        limit = call.arguments.get("limit", DEFAULT_COMMITS)
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_COMMITS:
            raise InvalidRequestError(f"limit must be a whole number from 1 to {MAX_COMMITS}")
        shows_evals = call.view.settings.catalog.serve_evals

        def work(history: History, found: RecordedSkill, sees: Sees | None) -> dict[str, Any]:
            _note_read(found, call.view.catalog)
            commits = [commit.to_json() for commit in history.commits(found.name, limit, sees)]
            wanted = call.arguments.get("diff") is True
            shows = partial(_is_shown, found.name, evals=shows_evals)
            text = history.diff(found.name, _rev(call), shows, sees) if wanted else None
            return {"commits": commits, "diff": text if text is None else _shortened(text)}

        return _result(await self._in_thread(call, work))

    async def _rollback(self, call: ToolCall) -> dict[str, Any]:
        def work(history: History, found: RecordedSkill, sees: Sees | None) -> dict[str, Any]:
            commit = history.rollback(found.name, _rev(call), sees=sees)
            return {"changed": commit is not None, "commit": None if commit is None else commit.to_json()}

        done = await self._in_thread(call, work)
        if done["changed"]:
            logger.info("rolled back on request: %s", ", ".join(done["commit"]["skills"]))
            # The watcher would notice it too, but may be off.
            await self._host.reload()
        return _result(done)

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


def _is_shown(unit: str, path: str, *, evals: bool) -> bool:
    """Tell whether a model may see what differs in a file: the files of evals may hold the expected answers."""
    inside = path[len(unit) :].lstrip("/")
    return evals or inside.partition("/")[0].lower() != EVALS


def _shortened(text: str) -> str:
    if len(text) <= _MAX_DIFF:
        return text
    return f"{text[:_MAX_DIFF]}\n[{len(text) - _MAX_DIFF} more characters are left out]\n"


def _result(structured: dict[str, Any]) -> dict[str, Any]:
    return {**tool_result([text_block(escape_json(structured))]), "structuredContent": structured}
