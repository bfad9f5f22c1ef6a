"""Calls of the tools for operators: status and reload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.admin.actions import log_reload, read_status
from server.config.settings import OptionalTool
from server.hosting.status import change_object
from server.hosting.status_filter import StatusFilter
from server.listing.envelope import text_block, tool_result
from server.protocol.tool_call import Tool, is_always_there
from server.wire.errors import InvalidRequestError
from skills_core.rendering.escaping import escape_json

if TYPE_CHECKING:
    from server.hosting.host import Host
    from server.protocol.tool_call import ToolCall

__all__ = ["AdminHandlers"]


class AdminHandlers:
    """The tools `skills_status` and `reload_skills`."""

    def __init__(self, host: Host) -> None:
        """Answer from `host`."""
        self._host = host

    def tools(self) -> dict[str, Tool]:
        """Return the tools that are switched on, by their names."""
        known = {OptionalTool.SKILLS_STATUS: self._status, OptionalTool.RELOAD_SKILLS: self._reload}
        switched_on = [name for name in known if name in self._host.settings.tools.enabled]
        return {name.value: Tool(known[name], is_always_there) for name in switched_on}

    async def _status(self, call: ToolCall) -> dict[str, Any]:
        choice = StatusFilter.parse(call.arguments)
        return _result(await read_status(call.view.catalog, call.view.settings, choice))

    async def _reload(self, call: ToolCall) -> dict[str, Any]:
        if call.arguments:
            raise InvalidRequestError("reload_skills takes no arguments")
        change = log_reload(await self._host.reload())
        return _result(change_object(self._host.change_in(call.view.name, change)))


def _result(structured: dict[str, Any]) -> dict[str, Any]:
    return {**tool_result([text_block(escape_json(structured))]), "structuredContent": structured}
