"""Serve one client over the process's standard streams.

The pipes are read and written on the event loop where the system allows it (see `pipes`); elsewhere, on Windows
or where stdin is a file, the SDK's transport is used.

Each message goes to the protocol era that it belongs to. The SDK settles on an era at the first request, but
clients exist that ask `server/discover` and then send `initialize` on the same connection.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

import anyio
import mcp_types as types
from mcp.server.runner import serve_dual_era_loop
from mcp.server.stdio import stdio_server
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage

from server.transport.pipes import (
    Incoming,
    PipeWriter,
    UnreadableMessageError,
    can_wait_for,
    claimed_pipes,
    read_messages,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from anyio.abc import TaskGroup
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.server.lowlevel.server import Server
    from mcp.shared._stream_protocols import WriteStream

__all__ = ["serve_stdio"]

logger = logging.getLogger(__name__)

_MAX_UNANSWERED = 128
# A client that asks and does not read is not read either beyond so many requests.

_GRACE_SECONDS = 5
# A client that closes stdin at once after its last request still wants the answer.

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"


async def serve_stdio(server: Server[Any], at_end: Callable[[], Awaitable[None]]) -> None:
    """Serve until the client closes stdin; `at_end` is then called, before what is under way is finished."""
    async with _streams() as (incoming, outgoing), anyio.create_task_group() as tasks:
        eras = _Eras(server, outgoing, tasks)
        async for item in incoming:
            await eras.route(item)
        await at_end()
        await eras.finish()


class _Outlet:
    """The way out for all eras; it outlives each of them, and ticks off the requests that are answered."""

    def __init__(self, stream: WriteStream[SessionMessage]) -> None:
        self._stream = stream
        self._unanswered: set[types.RequestId | None] = set()
        self._answered = anyio.Event()

    def expect_answer(self, request: types.JSONRPCRequest) -> None:
        # A stream of events is answered at its end only.
        if request.method != "subscriptions/listen":
            self._unanswered.add(coerce_request_id(request.id))

    def expect_no_answer(self, number: object) -> None:
        if isinstance(number, str | int):
            # The SDK cancels request 7 by "7" as well, and does not answer it then.
            self._unanswered.discard(coerce_request_id(number))
            self._answered.set()

    async def refuse(self, why: Exception) -> None:
        """Answer a line that is no message, so that nobody waits for ever."""
        unreadable = why if isinstance(why, UnreadableMessageError) else None
        code = unreadable.code if unreadable else types.PARSE_ERROR
        logger.warning("a line on stdin is no message: %s", unreadable or type(why).__name__)
        error = types.ErrorData(code=code, message=str(unreadable or "Parse error"))
        answer = types.JSONRPCError(jsonrpc="2.0", id=unreadable.number if unreadable else None, error=error)
        with suppress(anyio.BrokenResourceError):
            await self._stream.send(SessionMessage(answer))

    async def until_answered(self, at_most: int = 0) -> None:
        while len(self._unanswered) > at_most:
            self._answered = anyio.Event()
            await self._answered.wait()

    async def send(self, item: SessionMessage, /) -> None:
        await self._stream.send(item)
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            number = item.message.id
            self._unanswered.discard(None if number is None else coerce_request_id(number))
            self._answered.set()

    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class _Eras:
    """One SDK loop for each era that the client has used; requests say themselves to which they belong."""

    def __init__(self, server: Server[Any], outgoing: WriteStream[SessionMessage], tasks: TaskGroup) -> None:
        self._server = server
        self._outlet = _Outlet(outgoing)
        self._tasks = tasks
        self._open: dict[bool, MemoryObjectSendStream[Incoming]] = {}

    async def route(self, item: Incoming) -> None:
        if isinstance(item, Exception):
            await self._outlet.refuse(item)
            return
        message = item.message
        if isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            # It names a request by its id; the era that does not have it ignores it, and nobody answers it.
            self._outlet.expect_no_answer((message.params or {}).get("requestId"))
            targets = list(self._open)
        else:
            targets = [_is_modern(message)]
        if isinstance(message, types.JSONRPCRequest):
            await self._outlet.until_answered(at_most=_MAX_UNANSWERED)
            self._outlet.expect_answer(message)
        for modern in targets:
            await self._stream(modern=modern).send(item)

    async def finish(self) -> None:
        """Let the requests that are under way be answered, and end all loops."""
        with anyio.move_on_after(_GRACE_SECONDS):
            await self._outlet.until_answered()
        for stream in self._open.values():
            stream.close()

    def _stream(self, *, modern: bool) -> MemoryObjectSendStream[Incoming]:
        if modern not in self._open:
            send, receive = anyio.create_memory_object_stream[Incoming](16)
            self._open[modern] = send

            async def serve() -> None:
                await serve_dual_era_loop(self._server, receive, self._outlet, lifespan_state={})

            self._tasks.start_soon(serve)
        return self._open[modern]


def _is_modern(message: types.JSONRPCMessage) -> bool:
    """Tell whether a request carries the modern envelope; all else belongs to the handshake era."""
    if not isinstance(message, types.JSONRPCRequest) or message.method == "initialize":
        return False
    meta = (message.params or {}).get("_meta")
    return isinstance(meta, dict) and _VERSION_KEY in meta


@asynccontextmanager
async def _streams() -> AsyncGenerator[tuple[AsyncIterator[Incoming], WriteStream[SessionMessage]]]:
    if can_wait_for(0) and can_wait_for(1):
        with claimed_pipes() as (source, sink):
            yield read_messages(source), PipeWriter(sink)
    else:
        async with stdio_server() as (read, write):
            yield read, write
            # The SDK's writer goes on until its stream is closed.
            await write.aclose()
