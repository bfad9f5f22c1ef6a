"""Connect a run to MCP servers, name their tools for models, and convert the results of calls.

Servers that are child processes have a stdio transport of our own. The SDK's buffers lines of any length, and logs
lines that it cannot parse. Ours closes the connection at a line that is too long, and skips lines that are not
messages, which some servers print.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from server.capabilities.runs.mcp_config import file_secrets
from server.wire.http_client import limit_responses, open_client, silence_clients
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError, ToolFailedError
from skills_core.guard.tool import Effect, Role, Secrets, Tool
from skills_core.scripts.process import OWN_SESSION, kill_all, terminate

if TYPE_CHECKING:
    from anyio.abc import Process
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp_types import CallToolResult, ContentBlock

    from server.capabilities.runs.mcp_config import ServerSpec
    from server.wire.http_client import HttpExchange
    from skills_core.format.yaml12 import JsonObject
    from skills_core.guard.tool import CallContext


MAX_LINE = 8 * 1024 * 1024
"""Longest line that a server may send, in bytes."""

_MAX_SKIPPED = 1000
# Lines that are not messages; the connection ends at the next one.

_GRACE_SECONDS = 2.0
# Time for the server to exit after its stdin is closed, and again after it is asked to terminate.


@asynccontextmanager
async def open_server(spec: ServerSpec) -> AsyncGenerator[tuple[Any, Any]]:
    """Start the server, and yield the streams that read and write messages.

    The server gets the environment variables that the SDK considers safe to inherit, and those of the spec. Its stderr
    is discarded.

    Raises:
        OSError, ValueError: the server cannot be started.
    """
    environment = get_default_environment() | dict(spec.environment)
    program = await anyio.to_thread.run_sync(_program, spec, environment)
    process = await anyio.open_process(
        [program, *spec.command[1:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=spec.directory,
        env=environment,
        **OWN_SESSION,
    )
    try:
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        async with incoming, read, write, outgoing, anyio.create_task_group() as tasks:
            tasks.start_soon(_receive, process, incoming)
            tasks.start_soon(_send, process, outgoing, incoming)
            yield read, write
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


def _program(spec: ServerSpec, environment: dict[str, str]) -> str:
    # Windows starts `npx` only by the full name of its file, such as `npx.cmd`.
    return shutil.which(spec.command[0], path=environment.get("PATH")) or spec.command[0]


async def _receive(process: Process, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    skipped = 0
    # Closing the stream at the server's end makes pending requests fail.
    async with incoming:
        async for line in _lines(process):
            try:
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                skipped += 1
                if skipped > _MAX_SKIPPED:
                    return
                continue
            try:
                await incoming.send(SessionMessage(message))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return


async def _lines(process: Process) -> AsyncIterator[bytes]:
    """Yield the lines of the server's output until it ends or a line is too long."""
    if process.stdout is None:
        return
    parts: list[bytes] = []
    size = 0
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        while True:
            first, *rest = (await process.stdout.receive()).split(b"\n")
            parts.append(first)
            size += len(first)
            if size > MAX_LINE:
                return
            if rest:
                yield b"".join(parts)
                for line in rest[:-1]:
                    yield line
                parts, size = [rest[-1]], len(rest[-1])


async def _send(
    process: Process,
    outgoing: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    if process.stdin is None:
        return
    try:
        async with outgoing:
            async for message in outgoing:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(text.encode() + b"\n")
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        # The server has stopped reading: pending requests must fail instead of waiting for ever.
        await incoming.aclose()


async def _end(process: Process) -> None:
    """Close the server's pipes, ask it to exit, then kill it and its children; wait a bounded time after each."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                await stream.aclose()
    with anyio.move_on_after(_GRACE_SECONDS):
        await process.wait()
    if process.returncode is None:
        await terminate(process.pid)
        with anyio.move_on_after(_GRACE_SECONDS):
            await process.wait()
    # Also kills child processes that the server left running.
    await kill_all(process.pid)
    with anyio.move_on_after(_GRACE_SECONDS):
        await process.wait()
    # asyncio keeps a pipe with unread output open; only closing its transport releases it.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()
    await anyio.lowlevel.checkpoint()


logger = logging.getLogger(__name__)

MAX_NAME = 64
"""Longest tool name that model APIs accept."""

_HASH_DIGITS = 8
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


def sanitized(name: str) -> str:
    """Return the name with `_` in place of each forbidden character."""
    return _FORBIDDEN.sub("_", name)


def tool_name(server: str, tool: str) -> str:
    """Return the name of a server's tool; a name that is too long is cut and ends with a hash."""
    name = f"{sanitized(server)}__{sanitized(tool)}"
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f"{name[: MAX_NAME - _HASH_DIGITS - 1]}_{digest}"


def aliases_of(server: str, tool: str) -> tuple[str, ...]:
    """Return the names by which skills refer to the tool: those of Claude Code, Codex and VS Code."""
    return (
        f"{sanitized(server)}__{sanitized(tool)}",
        f"mcp__{sanitized(server)}__{sanitized(tool)}",
        f"{server}/{tool}",
    )


def prefixes_of(server: str) -> tuple[str, ...]:
    """Return the prefixes of the names by which skills refer to a server's tools."""
    return (f"mcp__{sanitized(server)}__", f"{server}/")


_BASE64 = 3 / 4


def text_of(result: CallToolResult) -> str:
    """Return the content blocks as lines of text, or the structured content of a result without blocks."""
    parts = [_text(block) for block in result.content]
    if not parts and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(parts)


def _text(block: ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent():
            return _placeholder("an image", block.mime_type, block.data)
        case types.AudioContent():
            return _placeholder("a sound", block.mime_type, block.data)
        case types.ResourceLink():
            return f"[a link to the resource {one_line(str(block.uri))[:500]}]"
        case types.EmbeddedResource():
            return _resource(block.resource)


def _resource(resource: types.TextResourceContents | types.BlobResourceContents) -> str:
    if isinstance(resource, types.BlobResourceContents):
        return _placeholder("a file", resource.mime_type or "unknown", resource.blob)
    return f"[the resource {one_line(str(resource.uri))[:500]}]\n{resource.text}"


def _placeholder(what: str, kind: str, data: str) -> str:
    return f"[{what} of the type {one_line(kind)[:100]}, {int(len(data) * _BASE64)} bytes, which is not shown]"


MAX_TOOLS = 500
"""Largest number of tools that a server may offer; the rest is ignored."""

MAX_DESCRIPTION = 4000
"""Longest description of a tool that models receive, in characters."""

_MAX_PAGES = 50
_SESSION_BYTES = 256 * 1024 * 1024
_LIST_BYTES = 16 * 1024 * 1024
_CALL_BYTES = 16 * 1024 * 1024


_CONNECT_SECONDS = 30.0
_SHUTDOWN_SECONDS = 10.0
# For all servers together.


@dataclass(frozen=True, slots=True)
class ConnectedTools:
    """The tools of all connected servers, and a message for each server or tool that is missing."""

    tools: tuple[Tool, ...] = ()
    problems: tuple[str, ...] = ()


@asynccontextmanager
async def connect_servers(
    specs: Iterable[ServerSpec], connect_seconds: float = _CONNECT_SECONDS
) -> AsyncGenerator[ConnectedTools]:
    """Connect to the servers concurrently, and yield their tools; the connections close when the block ends.

    A server that does not answer within `connect_seconds` provides no tools.
    """
    silence_clients()
    specs = tuple(specs)
    secrets = Secrets(file_secrets(specs))
    connections = [_ServerConnection(spec, connect_seconds, secrets) for spec in specs]
    try:
        async with anyio.create_task_group() as tasks:
            for connection in connections:
                tasks.start_soon(connection.run)
            for connection in connections:
                await connection.ready.wait()
            try:
                yield _collect(connections, secrets)
            finally:
                with anyio.move_on_after(_SHUTDOWN_SECONDS, shield=True):
                    for connection in connections:
                        connection.stop.set()
                    for connection in connections:
                        await connection.closed.wait()
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # `_ServerConnection.run` never raises, so this is the caller's own exception: unwrap it.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise


def _collect(connections: list[_ServerConnection], secrets: Secrets) -> ConnectedTools:
    tools: dict[str, Tool] = {}
    problems: list[str] = []
    for connection in connections:
        if connection.problem:
            problems.append(connection.problem)
        for tool in connection.tools():
            if tool.name in tools:
                problems.append(f"a second tool named {tool.name} ({tool.origin}) is left out")
            tools.setdefault(tool.name, tool)
    problems = [secrets.redact(problem) for problem in problems]
    for problem in problems:
        logger.warning("MCP servers: %s", problem)
    return ConnectedTools(tuple(tools.values()), tuple(problems))


class _ServerConnection:
    """The connection to one server; `ready` is set when its tools are known, or it has failed."""

    def __init__(self, spec: ServerSpec, connect_seconds: float, secrets: Secrets) -> None:
        self._spec = spec
        self._secrets = secrets
        self._connect_seconds = connect_seconds
        self._client: Client | None = None
        self._listed: list[types.Tool] = []
        self._exchange: HttpExchange | None = None
        self._first_failure = ""
        self.problem = ""
        self.ready = anyio.Event()
        self.stop = anyio.Event()
        self.closed = anyio.Event()

    async def run(self) -> None:
        """Connect, list the tools, and stay connected until `stop` is set; never raise."""
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self._connect_seconds) as scope:
                await self._connect(scope)
            if scope.cancelled_caught:
                self._fail(f"it did not answer within {self._connect_seconds:g} seconds")
        except Exception as error:  # noqa: BLE001 - a faulty server can cause any exception in the libraries
            self._fail(_transport_error(self._exchange) or _reason(error, self._secrets))
        finally:
            self._client = None
            self.ready.set()
            self.closed.set()

    async def _connect(self, scope: anyio.CancelScope) -> None:
        async with AsyncExitStack() as stack:
            client = await self._open_client(stack)
            self._listed = await _list_tools(client)
            self._client = client
            scope.deadline = float("inf")
            self.ready.set()
            await self.stop.wait()

    async def _open_client(self, stack: AsyncExitStack) -> Client:
        """Open a session, over streamable HTTP first; fall back to HTTP+SSE if the server rejects it."""
        if not self._spec.sse:
            try:
                return await self._open_session(stack, sse=False)
            except Exception:
                status = _rejected_status(self._exchange)
                if not status:
                    raise
                self._first_failure = f"it answered with HTTP {status}; over the older HTTP+SSE transport: "
        return await self._open_session(stack, sse=True)

    async def _open_session(self, stack: AsyncExitStack, *, sse: bool) -> Client:
        async with AsyncExitStack() as opening:
            with limit_responses(_SESSION_BYTES, _SESSION_BYTES) as self._exchange:
                transport = await _transport(self._spec, opening, sse=sse)
                client = await opening.enter_async_context(_client(transport, sse=sse))
            stack.push_async_exit(opening.pop_all())
        return client

    def _fail(self, why: str) -> None:
        shown = one_line(self._spec.name)[:100]
        self.problem = self.problem or f"the server {shown} provides no tools: {self._first_failure}{why}"

    def tools(self) -> list[Tool]:
        """Return the server's tools for a run; none while disconnected."""
        return [self._tool(listed) for listed in self._listed[:MAX_TOOLS]] if self._client is not None else []

    def _tool(self, listed: types.Tool) -> Tool:
        async def call(arguments: JsonObject, _context: CallContext) -> str:
            return await self._call(listed.name, arguments)

        reads = self._spec.trusted and listed.annotations is not None and listed.annotations.read_only_hint is True
        return Tool(
            tool_name(self._spec.name, listed.name),
            self._secrets.redact(listed.description or listed.title or "")[:MAX_DESCRIPTION],
            listed.input_schema,
            Effect.READS if reads else Effect.WRITES,
            f"server {self._spec.name}",
            call,
            Role(aliases=aliases_of(self._spec.name, listed.name), alias_prefixes=prefixes_of(self._spec.name)),
        )

    async def _call(self, name: str, arguments: JsonObject) -> str:
        shown = one_line(self._spec.name)[:100]
        if self._client is None:
            raise ToolFailedError(f"The server {shown} has disconnected; its tools are not available.")
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        with limit_responses(_CALL_BYTES, _CALL_BYTES) as exchange:
            try:
                request = types.CallToolRequest(params=params)
                result = await self._client.session.send_request(request, types.CallToolResult)
            except (MCPError, ValidationError, RuntimeError, ValueError, anyio.ClosedResourceError) as error:
                why = self._secrets.redact(_transport_error(exchange) or _reason(error, self._secrets))
                raise ToolFailedError(f"The server {shown}: {why}") from None
        # Redact before any cut: part of a secret would not be recognized.
        text = self._secrets.redact(text_of(result))
        if result.is_error:
            raise ToolFailedError(text or f"The server {shown} reports that the call failed, without a reason.")
        return text


def _client(transport: Any, *, sse: bool) -> Client:  # noqa: ANN401 - the SDK's transports have no common type
    return Client(
        transport,
        cache=None,
        # Over HTTP+SSE the protocol era can only be probed with a second connection.
        mode="legacy" if sse else "auto",
        client_info=types.Implementation(name="skillserve", version=version("skillserve")),
    )


async def _transport(spec: ServerSpec, stack: AsyncExitStack, *, sse: bool) -> Any:  # noqa: ANN401 - likewise
    if spec.address is None:
        return open_server(spec)
    address = spec.address
    if not sse:
        client = await stack.enter_async_context(open_client(address))
        return streamable_http_client(address.url, http_client=client, max_sse_event_size=_CALL_BYTES)

    def bounded(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        client: httpx2.AsyncClient = open_client(address)
        client.headers.update(headers or {})
        client.timeout = timeout or client.timeout
        if auth is not None:
            client.auth = auth
        return client

    return sse_client(address.url, httpx_client_factory=bounded)


async def _list_tools(client: Client) -> list[types.Tool]:
    found: list[types.Tool] = []
    cursor: str | None = None
    with limit_responses(_LIST_BYTES, _LIST_BYTES) as exchange:
        for _ in range(_MAX_PAGES):
            exchange.start_request()
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            if not page.next_cursor or page.next_cursor == cursor or len(found) > MAX_TOOLS:
                break
            cursor = page.next_cursor
    return found


def _rejected_status(exchange: HttpExchange | None) -> int:
    """Return the HTTP 4xx status by which a server rejects streamable HTTP, 0 if it does not."""
    status = exchange.status or 0 if exchange is not None and not _transport_error(exchange) else 0
    return status if httpx2.codes.is_client_error(status) else 0


def _transport_error(exchange: HttpExchange | None) -> str:
    """Describe a failure of HTTP or the network; return an empty string if there is none."""
    if exchange is not None and exchange.failure is not None:
        return exchange.failure.message
    if exchange is not None and exchange.status in {httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN}:
        return f"it denies access (HTTP {exchange.status}); check the headers in its entry"
    return ""


def _reason(error: BaseException, secrets: Secrets) -> str:
    """Describe the error in one line, without any value from the servers' file."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return f"it reports: {one_line(secrets.redact(error.message))[:500]}"
    if isinstance(error, ValidationError):
        return "its answer violates the protocol"
    if isinstance(error, SkillsError):
        return str(error)
    if isinstance(error, httpx2.HTTPStatusError):
        return f"it answered with HTTP {error.response.status_code}"
    if isinstance(error, OSError):
        return f"it cannot be started or reached: {(error.strerror or type(error).__name__).lower()}"
    return f"the connection failed ({type(error).__name__})"
