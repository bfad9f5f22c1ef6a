"""The handlers of `tools/list` and `tools/call`.

A mistake of the model is answered by a tool result that says what was expected, not by a protocol error, so that the
model sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from server.clients.known import client_of, without_additions
from server.clients.layout import called_in, is_structured, layout_for, may_refuse_names
from server.config.settings.tools import SHARED_ONLY_TOOLS
from server.listing.envelope import text_block, tool_result, with_joined_texts
from server.listing.extensions import META_STRUCTURE, extensions_of, tool_meta
from server.listing.tools import ACTIVATE, CORE_TOOLS, load_tools, tools_of_skills
from server.protocol.conversations import Conversations
from server.protocol.tool_call import ToolCall, ToolServices, room_of
from server.protocol.tools.cut_results import cut_to_room
from server.protocol.tools.new_skills import is_news_tool, tell_news, with_news_tool
from server.requests import RequestReason, note_denied, note_error, note_invalid, note_tool
from server.wire.params import InvalidRequestError, read_arguments
from skills_core.errors import SkillsError
from skills_core.rendering.escaping import escape_tags

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.context import ServerRequestContext

    from server.conversation.registry import ExchangeRegistry
    from server.hosting.host import Host
    from server.hosting.views import View
    from server.protocol.recipients import Recipients
    from server.protocol.tool_call import Handler, Tool


class ToolHandlers:
    """The handlers of `tools/list` and `tools/call`."""

    def __init__(self, host: Host, exchanges: ExchangeRegistry, recipients: Recipients, *, local: bool) -> None:
        """Answer from `host`; `local` tells that there is a single client.

        `recipients` knows for whom a request's text is rendered, `exchanges` converses with clients during a call.
        """
        self._host = host
        self._recipients = recipients
        self.conversations = Conversations(local=local)
        services = ToolServices(host, exchanges, recipients)
        # Every module that is listed here defines its tools as `Tool`.
        tools = cast("Iterator[Tool]", load_tools(host.settings))
        self._tools = {tool.name: tool for tool in tools if not (host.views_differ and tool.name in SHARED_ONLY_TOOLS)}
        self._handlers = {name: tool.handler(services) for name, tool in self._tools.items()}
        declared = tools_of_skills()
        self._declared = None if declared is None else declared.handler(services)

    @property
    def names(self) -> frozenset[str]:
        """The names of the tools that the settings switch on, beside those that skills declare."""
        return frozenset(self._tools)

    async def list(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> dict[str, Any]:
        """Handle `tools/list`: a single page, in the layout for the client; a conversation begins with it."""
        if params is not None and params.cursor is not None:
            raise InvalidRequestError("invalid cursor: this list has one page; ask for it without a cursor")
        view = self._host.view(ctx)
        self._host.texts.expect(view.name, self._recipients.of(ctx, view))
        client, conversation = client_of(ctx), self.conversations.of(ctx, view.changes)
        listed = view.tools(layout_for(client, view.settings, extensions_of(ctx, view.settings)))
        if view.hides_entries:
            # Where there is no room for all, alike skills share a place once they are known.
            self._host.keep_search_ready(view)
        return with_news_tool(listed, conversation, view) if client.announces_tools else listed

    async def call(self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> dict[str, Any]:
        """Handle `tools/call`: return the result of the tool, with news of skills."""
        view = self._host.view(ctx)
        client = client_of(ctx)
        handle = tell_news if client.announces_tools and is_news_tool(params.name) else self._handler(params.name, view)
        if handle is None:
            self._note_absent(params.name, view)
            raise InvalidRequestError(f"Unknown tool: {params.name[:200]}")
        note_tool(params.name, own=params.name not in view.declared)
        conversation = self.conversations.of(ctx, view.changes)
        schema = view.tool_schemas.get(params.name, {})
        arguments = without_additions(params.arguments or {}, schema)
        try:
            # The arguments of a declared tool are checked against its whole schema when it is executed.
            if params.name not in view.declared:
                arguments = read_arguments(called_in(client, params.name, view.settings), arguments, schema)
            call = ToolCall(ctx, client, view, conversation, params.name, arguments)
            result = await handle(call)
            if "structuredContent" in result and not call.structured:
                result = _without_structure(result, call)
        except SkillsError as error:
            note_error(error)
            # The message repeats names that the authors of skills chose.
            result = tool_result([text_block(escape_tags(str(error)))], is_error=True)
        if "content" not in result:
            return result  # a question to the client, not an answer yet
        # The catalog may have changed during the call.
        view = self._host.view(ctx)
        # A client whose model sees the changed list needs no news of it.
        changes = None if client.refreshes else view.changes
        news: list[str] = []
        if conversation.has_news(view.catalog, changes):
            tool = called_in(client, ACTIVATE, view.settings)
            may_refuse = may_refuse_names(client, view.settings)
            news = conversation.news(view.catalog, changes, tool=tool, may_refuse=may_refuse)
            result = _with_news(result, news) if news else result
        called = self._tools.get(params.name)
        advice = called.when_cut if called is not None else ""
        room = room_of(ctx, client, params.name, structured=is_structured(client, view.settings))
        result = cut_to_room(result, room, advice, news=len(news))
        return result if called is not None and called.verbatim else with_joined_texts(result)

    def _handler(self, name: str, view: View) -> Handler | None:
        """Return the handler of a tool, None if callers with this view have no such tool."""
        tool = self._tools.get(name)
        if tool is not None:
            return self._handlers[name] if _may_use(view, name) and tool.is_callable(view.catalog) else None
        return self._declared if name in view.declared else None

    def _note_absent(self, name: str, view: View) -> None:
        """Note why callers with a view have no such tool; their answer does not tell."""
        if name in self._tools and not _may_use(view, name):
            note_tool(name, own=True)
            note_denied(RequestReason.ROLE)
        else:
            note_invalid(RequestReason.UNKNOWN_TOOL)


def _may_use(view: View, name: str) -> bool:
    """Tell whether callers with a view may use a tool of ours."""
    return name in CORE_TOOLS or name in view.settings.tools.enabled


def _without_structure(result: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    """Return the result without its structure, which stands in `_meta` if an extension of the client needs it."""
    kept = {key: value for key, value in result.items() if key != "structuredContent"}
    if tool_meta(call.name, extensions_of(call.ctx, call.view.settings)):
        kept["_meta"] = {**kept.get("_meta", {}), META_STRUCTURE: result["structuredContent"]}
    return kept


def _with_news(result: dict[str, Any], news: list[str]) -> dict[str, Any]:
    """Return the result with the news as further text, and in its structure, beside which some clients drop text."""
    result = {**result, "content": [*result["content"], *map(text_block, news)]}
    if "structuredContent" in result:
        result["structuredContent"] = {**result["structuredContent"], "news": news}
    return result
