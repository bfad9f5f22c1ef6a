"""Calls of the tools: `activate_skill`, `read_skill_file` and `find_skills`, and those that settings switch on.

What a model gets wrong in a call is answered as a tool result that says what was expected, not as a protocol
error, so that the model sees it.
"""

from __future__ import annotations

import base64
import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.admin.tools import AdminTools
from server.context import ContextRequests
from server.faults import InvalidRequestError
from server.found import found_object
from server.listing.envelope import text_block, tool_result
from server.listing.resources import contents_of, mime_type
from server.listing.tools import ACTIVATE, DEFAULT_MATCHES, FIND, MAX_MATCHES, MAX_QUERY, MAX_TAGS, READ
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError
from skills_core.rendering import activation_inputs, render_activation, render_request
from skills_core.selection import ALL_THAT_MATCH

if TYPE_CHECKING:
    from collections.abc import Mapping

    import mcp_types as types
    from mcp.server.context import ServerRequestContext

    from server.host import Host
    from skills_core.catalog import Catalog
    from skills_core.skill import Skill

__all__ = ["ToolHandlers"]

logger = logging.getLogger(__name__)

MAX_ARGUMENTS = 100_000
"""Most characters of all arguments together: a body may repeat each of them."""


class ToolHandlers:
    """The handlers of `tools/list` and `tools/call`."""

    def __init__(self, host: Host, *, local: bool) -> None:
        """Answer from `host`; `local` tells that clients see the same disk."""
        self._host = host
        self._local = local
        self._admin = AdminTools(host)
        self._context = ContextRequests(host, local=local)

    async def list(
        self, _ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> dict[str, Any]:
        """Handle `tools/list`, a single page."""
        if params is not None and params.cursor is not None:
            raise InvalidRequestError("invalid cursor; this list has one page")
        return self._host.snapshot.tools

    async def call(self, _ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> dict[str, Any]:
        """Handle `tools/call`."""
        skills = {ACTIVATE: self._call_activate, READ: self._call_read, FIND: self._call_find}
        offered = {**self._admin.calls, **self._context.calls, **(skills if self._host.snapshot.catalog.active else {})}
        tool = offered.get(params.name)
        if tool is None:
            raise InvalidRequestError(f"Unknown tool: {params.name[:200]}")
        try:
            return await tool(params.arguments or {})
        except SkillsError as error:
            return tool_result([text_block(str(error))], is_error=True)

    async def _call_activate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        name = _string(arguments, "name")
        values = arguments.get("arguments") or {}
        if not isinstance(values, dict):
            raise InvalidRequestError('arguments must be an object of strings, such as {"format": "table"}')
        texts = {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
        if sum(len(name) + len(text) for name, text in texts.items()) > MAX_ARGUMENTS:
            raise InvalidRequestError(f"arguments may have {MAX_ARGUMENTS} characters in all; put more into a file")
        message = _string(arguments, "message", default="")
        skill = _invocable(self._host.snapshot.catalog, name)
        values, bound = activation_inputs(skill, texts, message)
        logger.debug("activated %s %s", one_line(skill.key), skill.digest)
        content = [text_block(render_activation(skill, values, directory=self._local))]
        if bound:
            content.append(text_block(render_request(skill, bound)))
        return tool_result(content)

    async def _call_read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        name, path = _string(arguments, "skill"), _string(arguments, "path")
        catalog = self._host.snapshot.catalog
        skill = catalog.skill(name)
        # Models pass on what they have seen: a relative path, or the file's URI.
        uri = path if path.startswith(skill.root_uri) else skill.file_uri(catalog.file_of(skill, path).path)
        _, file, raw = await self._host.reader.read(uri)
        if file.text:
            return tool_result([text_block(raw.decode("utf-8"))])
        if mime_type(file).startswith("image/"):
            image = {
                "type": "image",
                "data": base64.b64encode(raw).decode("ascii"),
                "mimeType": mime_type(file),
            }
            return tool_result([image])
        return tool_result([{"type": "resource", "resource": contents_of(uri, file, raw)}])

    async def _call_find(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        query = _string(arguments, "query")
        tags = arguments.get("tags") or []
        limit = arguments.get("limit", DEFAULT_MATCHES)
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise InvalidRequestError("tags must be a list of strings")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_MATCHES:
            raise InvalidRequestError(f"limit must be a whole number from 1 to {MAX_MATCHES}")
        if len(query) > MAX_QUERY or len(tags) > MAX_TAGS:
            raise InvalidRequestError(f"query may have {MAX_QUERY} characters, tags {MAX_TAGS} items")
        policy = replace(ALL_THAT_MATCH, top_k=limit, include_tags=tuple(tags))
        skills = self._host.snapshot.catalog.offered
        # A search may look at every skill, so it must not hold up the other requests.
        matches = await anyio.to_thread.run_sync(self._host.search.select, skills, query, policy)
        structured = found_object(matches)
        text = json.dumps(structured, ensure_ascii=False) if matches else _nothing(query)
        return {**tool_result([text_block(text)]), "structuredContent": structured}


def _invocable(catalog: Catalog, name: str) -> Skill:
    skill = catalog.skill(name)
    if not skill.model_invocable:
        raise InvalidRequestError(f"The skill {name!r} is for the user to call, as /{skill.key}; a model may not.")
    return skill


def _nothing(query: str) -> str:
    return f"No skill matches {query[:200]!r}. Try the task, technology or file format in other words."


def _string(arguments: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = arguments.get(name)
    if value is None and default is not None:
        return default
    if value is None:
        given = ", ".join(sorted(arguments))[:200] or "nothing"
        raise InvalidRequestError(f"{name} is missing; the call has {given}")
    if not isinstance(value, str):
        raise InvalidRequestError(f"{name} must be a string")
    return value
