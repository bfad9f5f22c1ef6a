"""The tools of other MCP servers, for the time of a run.

Each connection lives in a task of its own: a server that does not start, hangs, dies or says nonsense costs its own
tools, never the run nor another server. What a server says of its tools is a stranger's word: names are brought into
the form that models take, schemas are checked by the gate, and hints count only where the user trusts the server. A
result is not checked against the server's own schema for it, which might take for ever; the model reads it as text.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from server.remote.bounded_transport import receiving
from server.remote.client import RemoteLimits, http_client
from server.run.mcp_servers.config_file import secrets_of
from server.run.mcp_servers.results import text_of
from server.run.mcp_servers.stdio import child_server
from server.run.mcp_servers.tool_names import aliases_of, beginnings_of, tool_name
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError, ToolFailedError
from skills_core.run.secrets import Secrets
from skills_core.run.tools.tool import Effect, Role, Tool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from server.remote.bounded_transport import HttpExchange
    from server.run.mcp_servers.config_file import ServerSpec
    from skills_core.run.ports import JsonObject
    from skills_core.run.tools.tool import CallContext

__all__ = ["Connected", "ServerTimeouts", "other_servers"]

logger = logging.getLogger(__name__)

MAX_TOOLS = 500
"""Tools of one server that are taken."""

MAX_DESCRIPTION = 4000
"""Characters of a tool's description that a model is told."""

_MAX_PAGES = 50
_SESSION_BYTES = 256 * 1024 * 1024
_LIST_BYTES = 16 * 1024 * 1024
_CALL_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerTimeouts:
    """How long, in seconds, a server may take to begin, and all of them together to end."""

    begin: float = 30.0
    end: float = 10.0


@dataclass(frozen=True, slots=True)
class Connected:
    """The tools of all servers that answered, and what became of the others, in a sentence each."""

    tools: tuple[Tool, ...] = ()
    problems: tuple[str, ...] = ()


@asynccontextmanager
async def other_servers(specs: Iterable[ServerSpec], times: ServerTimeouts | None = None) -> AsyncGenerator[Connected]:
    """Connect to the servers, all at once, and give their tools as long as the block lasts."""
    times = times or ServerTimeouts()
    # They log addresses and messages, in which keys of servers stand.
    for library in ("httpcore2", "httpx2", "mcp.client"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    specs = tuple(specs)
    secrets = Secrets(secrets_of(specs))
    connections = [_Connection(spec, times, secrets) for spec in specs]
    try:
        async with anyio.create_task_group() as tasks:
            for connection in connections:
                tasks.start_soon(connection.keep)
            for connection in connections:
                await connection.settled.wait()
            try:
                yield _connected(connections, secrets)
            finally:
                with anyio.move_on_after(times.end, shield=True):
                    for connection in connections:
                        connection.no_longer_needed.set()
                    for connection in connections:
                        await connection.closed.wait()
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # Connections raise nothing, so it is what the block raised, and its caller's to see as it was.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise


def _connected(connections: list[_Connection], secrets: Secrets) -> Connected:
    tools: dict[str, Tool] = {}
    problems: list[str] = []
    for connection in connections:
        if connection.problem:
            problems.append(connection.problem)
        for tool in connection.tools():
            if tool.name in tools:
                problems.append(f"a second tool {tool.name} ({tool.origin}) is left out")
            tools.setdefault(tool.name, tool)
    problems = [secrets.hidden(problem) for problem in problems]
    for problem in problems:
        logger.warning("other MCP servers: %s", problem)
    return Connected(tuple(tools.values()), tuple(problems))


class _Connection:
    """One server, from its start to its end; `settled` is set when its tools are known, or that there are none."""

    def __init__(self, spec: ServerSpec, times: ServerTimeouts, secrets: Secrets) -> None:
        self._spec = spec
        self._secrets = secrets
        self._times = times
        self._client: Client | None = None
        self._listed: list[types.Tool] = []
        self._exchange: HttpExchange | None = None
        self._before = ""
        self.problem = ""
        self.settled = anyio.Event()
        self.no_longer_needed = anyio.Event()
        self.closed = anyio.Event()

    async def keep(self) -> None:
        """Connect, ask for the tools, and stay until nobody needs the server; raise nothing."""
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self._times.begin) as scope:
                await self._connect(scope)
            if scope.cancelled_caught:
                self._fail(f"it did not begin within {self._times.begin:g} seconds")
        except Exception as error:  # noqa: BLE001 - whatever a library makes of what a server does
            self._fail(_below(self._exchange) or _reason(error, self._secrets))
        finally:
            self._client = None
            self.settled.set()
            self.closed.set()

    async def _connect(self, scope: anyio.CancelScope) -> None:
        async with AsyncExitStack() as stack:
            client = await self._begin(stack)
            self._listed = await _list_tools(client)
            self._client = client
            scope.deadline = float("inf")
            self.settled.set()
            await self.no_longer_needed.wait()

    async def _begin(self, stack: AsyncExitStack) -> Client:
        """Begin a session; where an address turns down the newer transport, by the older one."""
        if not self._spec.sse:
            try:
                return await self._speak(stack, sse=False)
            except Exception:
                status = _turned_down(self._exchange)
                if not status:
                    raise
                self._before = f"it answers with HTTP {status}; over sse, the older transport: "
        return await self._speak(stack, sse=True)

    async def _speak(self, stack: AsyncExitStack, *, sse: bool) -> Client:
        async with AsyncExitStack() as opening:
            with receiving(_SESSION_BYTES, _SESSION_BYTES) as self._exchange:
                transport = await _transport(self._spec, opening, sse=sse)
                client = await opening.enter_async_context(_client(transport, sse=sse))
            stack.push_async_exit(opening.pop_all())
        return client

    def _fail(self, why: str) -> None:
        shown = one_line(self._spec.name)[:100]
        self.problem = self.problem or f"the server {shown} gives no tools: {self._before}{why}"

    def tools(self) -> list[Tool]:
        """Return the server's tools as a run has them."""
        return [self._tool(listed) for listed in self._listed[:MAX_TOOLS]] if self._client is not None else []

    def _tool(self, listed: types.Tool) -> Tool:
        async def perform(arguments: JsonObject, _context: CallContext) -> str:
            return await self._call(listed.name, arguments)

        reads = self._spec.trusted and listed.annotations is not None and listed.annotations.read_only_hint is True
        return Tool(
            tool_name(self._spec.name, listed.name),
            self._secrets.hidden(listed.description or listed.title or "")[:MAX_DESCRIPTION],
            listed.input_schema,
            Effect.READS if reads else Effect.WRITES,
            f"server {self._spec.name}",
            perform,
            Role(aliases=aliases_of(self._spec.name, listed.name), beginnings=beginnings_of(self._spec.name)),
        )

    async def _call(self, name: str, arguments: JsonObject) -> str:
        shown = one_line(self._spec.name)[:100]
        if self._client is None:
            raise ToolFailedError(f"The server {shown} has ended; its tools are gone.")
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        with receiving(_CALL_BYTES, _CALL_BYTES) as exchange:
            try:
                request = types.CallToolRequest(params=params)
                result = await self._client.session.send_request(request, types.CallToolResult)
            except (MCPError, ValidationError, RuntimeError, ValueError, anyio.ClosedResourceError) as error:
                why = self._secrets.hidden(_below(exchange) or _reason(error, self._secrets))
                raise ToolFailedError(f"The server {shown}: {why}") from None
        # Here, as whoever cuts a text may cut a secret, and nobody knows what is left of it.
        text = self._secrets.hidden(text_of(result))
        if result.is_error:
            raise ToolFailedError(text or f"The server {shown} says that the call failed, and not why.")
        return text


def _client(transport: Any, *, sse: bool) -> Client:  # noqa: ANN401 - the SDK's transports have no common name
    return Client(
        transport,
        cache=None,
        # The era before it has no way to ask which one it is without a second connection.
        mode="legacy" if sse else "auto",
        client_info=types.Implementation(name="skillserve", version=version("skillserve")),
    )


async def _transport(spec: ServerSpec, stack: AsyncExitStack, *, sse: bool) -> Any:  # noqa: ANN401 - likewise
    if spec.address is None:
        return child_server(spec)
    address, limits = spec.address, RemoteLimits()
    if not sse:
        client = await stack.enter_async_context(http_client(address, limits))
        return streamable_http_client(address.url, http_client=client, max_sse_event_size=_CALL_BYTES)

    def bounded(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        client: httpx2.AsyncClient = http_client(address, limits)
        client.headers.update(headers or {})
        client.timeout = timeout or client.timeout
        if auth is not None:
            client.auth = auth
        return client

    return sse_client(address.url, httpx_client_factory=bounded)


async def _list_tools(client: Client) -> list[types.Tool]:
    found: list[types.Tool] = []
    cursor: str | None = None
    with receiving(_LIST_BYTES, _LIST_BYTES) as exchange:
        for _ in range(_MAX_PAGES):
            exchange.ask()
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            if not page.next_cursor or page.next_cursor == cursor or len(found) > MAX_TOOLS:
                break
            cursor = page.next_cursor
    return found


def _turned_down(exchange: HttpExchange | None) -> int:
    """Return the status by which a server may say that it has only the older transport, 0 where it says nothing so."""
    status = exchange.status or 0 if exchange is not None and not _below(exchange) else 0
    return status if httpx2.codes.is_client_error(status) else 0


def _below(exchange: HttpExchange | None) -> str:
    """Say what went wrong below the protocol; empty where nothing did."""
    if exchange is not None and exchange.failure is not None:
        return exchange.failure.message
    if exchange is not None and exchange.status in {httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN}:
        return f"it lets nobody in (HTTP {exchange.status}); look at the headers in its entry"
    return ""


def _reason(error: BaseException, secrets: Secrets) -> str:
    """Say in one line what went wrong, without a value from the file of servers."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return f"it says: {one_line(secrets.hidden(error.message))[:500]}"
    if isinstance(error, ValidationError):
        return "its answer is not what the protocol demands"
    if isinstance(error, SkillsError):
        return str(error)
    if isinstance(error, httpx2.HTTPStatusError):
        return f"it answers with HTTP {error.response.status_code}"
    if isinstance(error, OSError):
        return f"it cannot be started or reached: {(error.strerror or type(error).__name__).lower()}"
    return f"the connection failed ({type(error).__name__})"
