"""Calls of the tools: `activate_skill`, `read_skill_file` and `find_skills`, and those that settings switch on.

What a model gets wrong in a call is answered as a tool result that says what was expected, not as a protocol
error, so that the model sees it.
"""

from __future__ import annotations

import base64
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import anyio.to_thread

from server.clients import budget_for, client_of, without_additions
from server.hosting.search_results import found_object
from server.listing.envelope import text_block, tool_result
from server.listing.resources import contents_of, mime_type
from server.listing.tools import ACTIVATE, DEFAULT_MATCHES, FIND, MAX_MATCHES, MAX_QUERY, MAX_TAGS, READ
from server.protocol.activation.calls import Activation
from server.protocol.activation.conversations import Conversations
from server.protocol.tools.admin import AdminTools
from server.protocol.tools.check_tool_call import GuardRequests
from server.protocol.tools.declared import DeclaredCalls
from server.protocol.tools.run_skill import RunRequests
from server.protocol.tools.skill_context import ContextRequests
from server.wire.arguments import read_arguments, string
from server.wire.errors import InvalidRequestError
from skills_core.errors import SkillsError
from skills_core.model_access import is_withheld_from_models
from skills_core.rendering.escaping import escape_json, escape_tags
from skills_core.selection import TOP_TEN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    import mcp_types as types
    from mcp.server.context import ServerRequestContext

    from server.exchange.registry import ExchangeRegistry
    from server.hosting.host import Host
    from server.run.supervisor import RunSupervisor

    Call = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]

__all__ = ["ToolHandlers"]

logger = logging.getLogger(__name__)

_LOGGED = 3
# Matches of a search that the log names.


class ToolGroup(Protocol):
    """Tools that settings switch on."""

    def calls(self, ctx: ServerRequestContext[Any, Any]) -> dict[str, Call]:
        """Return those that are there now, by their names, as they answer this request."""


class ToolHandlers:
    """The handlers of `tools/list` and `tools/call`."""

    def __init__(self, host: Host, exchanges: ExchangeRegistry, runs: RunSupervisor, *, local: bool) -> None:
        """Answer from `host`; `local` tells that clients see the same disk.

        Runs are work of `exchanges`, and performed by the service of `runs`.
        """
        self._host = host
        self.conversations = Conversations(local=local)
        self._activation = Activation(host, local=local)
        guard = GuardRequests(host)
        self._groups: tuple[ToolGroup, ...] = (
            AdminTools(host),
            ContextRequests(host, local=local),
            guard,
            *_scripts(host, guard, exchanges),
            RunRequests(host, exchanges, runs),
            DeclaredCalls(host, exchanges),
        )

    async def list(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> dict[str, Any]:
        """Handle `tools/list`, a single page with as much of the catalog as the client shows."""
        if params is not None and params.cursor is not None:
            raise InvalidRequestError("invalid cursor: this list has one page; ask for it without a cursor")
        return self._host.snapshot.tools(budget_for(client_of(ctx), self._host.settings))

    async def call(self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> dict[str, Any]:
        """Handle `tools/call`: the result of the tool, with news of skills that the model was given."""
        conversation = self.conversations.of(ctx)
        activate = partial(self._activation.call, ctx=ctx, conversation=conversation)
        skills: dict[str, Call] = {ACTIVATE: activate, READ: self._call_read, FIND: self._call_find}
        offered = skills if self._host.snapshot.catalog.active else {}
        for group in self._groups:
            offered |= group.calls(ctx)
        tool = offered.get(params.name)
        if tool is None:
            raise InvalidRequestError(f"Unknown tool: {params.name[:200]}")
        snapshot = self._host.snapshot
        schema = snapshot.tool_schemas.get(params.name, {})
        arguments = without_additions(params.arguments or {}, schema)
        try:
            # What a skill declares is checked against all of its schema where it is carried out.
            if params.name not in snapshot.declared:
                arguments = read_arguments(params.name, arguments, schema)
            result = await tool(arguments)
        except SkillsError as error:
            # It names skills and files as strangers called them.
            result = tool_result([text_block(escape_tags(str(error)))], is_error=True)
        if "content" not in result:
            return result  # no answer yet, but a question to the client
        news = conversation.news(self._host.snapshot.catalog)
        return {**result, "content": [*result["content"], *map(text_block, news)]} if news else result

    async def _call_read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        name, path = string(arguments, "skill"), string(arguments, "path")
        catalog = self._host.snapshot.catalog
        skill = catalog.skill(name, catalog.offered)
        # Models pass on what they have seen: a relative path, or the file's URI.
        uri = path if path.startswith(skill.root_uri) else skill.file_uri(catalog.file_of(skill, path).path)
        owner, file, raw = await self._host.reader.read(uri)
        if is_withheld_from_models(owner, file, raw):
            raise InvalidRequestError(
                f"{file.path} of the skill {owner.key!r} instructs in what is for the user to call; a model may not "
                "read it. The user calls such a skill as a command."
            )
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
        query = string(arguments, "query")
        tags = arguments.get("tags") or []
        limit = arguments.get("limit", DEFAULT_MATCHES)
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise InvalidRequestError("tags must be a list of strings")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_MATCHES:
            raise InvalidRequestError(f"limit must be a whole number from 1 to {MAX_MATCHES}")
        if len(query) > MAX_QUERY or len(tags) > MAX_TAGS:
            raise InvalidRequestError(f"query may have {MAX_QUERY} characters, tags {MAX_TAGS} items")
        policy = replace(TOP_TEN, top_k=limit, include_tags=tuple(tags))
        skills = self._host.snapshot.catalog.offered
        # A search may look at every skill, so it must not hold up the other requests.
        search = partial(self._host.search.select, skills, query, policy)
        matches = await anyio.to_thread.run_sync(search, limiter=self._host.searching)
        logger.info("found: %s", ", ".join(match.for_log for match in matches[:_LOGGED]) or "nothing")
        structured = found_object(matches)
        text = escape_json(structured) if matches else _nothing(query)
        return {**tool_result([text_block(text)]), "structuredContent": structured}


def _scripts(host: Host, guard: GuardRequests, exchanges: ExchangeRegistry) -> Iterator[ToolGroup]:
    if host.scripts is not None:
        # What runs programs is loaded only where programs are run.
        from server.protocol.tools.run_skill_script import ScriptCalls

        yield ScriptCalls(host, host.scripts, guard, exchanges)


def _nothing(query: str) -> str:
    return f"No skill matches {query[:200]!r}. Try the task, technology or file format in other words."
