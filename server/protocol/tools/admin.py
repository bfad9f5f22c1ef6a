"""Calls of the tools that settings switch on for those who look after a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.admin.actions import read_status, reload_everything
from server.config.settings import OptionalTool
from server.hosting.status_filter import StatusChoice
from server.listing.envelope import text_block, tool_result
from server.wire.errors import InvalidRequestError
from skills_core.rendering.escaping import escape_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp.server.context import ServerRequestContext

    from server.hosting.host import Host

__all__ = ["AdminTools"]


class AdminTools:
    """The tools `skills_status` and `reload_skills`."""

    def __init__(self, host: Host) -> None:
        """Answer from `host`."""
        self._host = host
        known = {OptionalTool.SKILLS_STATUS: self._status, OptionalTool.RELOAD_SKILLS: self._reload}
        self._calls: dict[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]] = {
            name.value: known[name] for name in known if name in host.settings.tools.enabled
        }

    def calls(
        self, _: ServerRequestContext[Any, Any]
    ) -> dict[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]]:
        """Return the tools that are switched on, by their names."""
        return self._calls

    async def _status(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return _result(await read_status(self._host, StatusChoice.parse(arguments)))

    async def _reload(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if arguments:
            raise InvalidRequestError("reload_skills takes no arguments")
        return _result(await reload_everything(self._host))


def _result(structured: dict[str, Any]) -> dict[str, Any]:
    return {**tool_result([text_block(escape_json(structured))]), "structuredContent": structured}
