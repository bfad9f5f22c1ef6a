"""Serve one client over the process's standard streams.

The pipes are read and written on the event loop where the system allows it (see `pipes`). Elsewhere, on Windows or
where stdin is a file, the SDK's transport is used.

Each message is routed to its protocol era. The SDK decides on one era at the first request, but some clients send
`server/discover` and then `initialize` on the same connection.
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

from server.transport.answered import Answered
from server.transport.pipes import (
    Incoming,
    PipeWriter,
    UnreadableMessageError,
    read_messages,
)
from server.transport.standard_pipes import Opening, can_wait_for, claimed_pipes

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from anyio.abc import TaskGroup
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.server.lowlevel.server import Server
    from mcp.shared._stream_protocols import WriteStream

__all__ = ["serve_stdio"]

logger = logging.getLogger(__name__)

_MAX_UNANSWERED = 128
# Beyond this many unanswered requests, the server reads no more from a client that does not read.

_GRACE_SECONDS = 5
# Time for the responses to requests that a client sent just before it closed stdin.

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"


async def serve_stdio(
    server: Server[Any],
    at_end: Callable[[], Awaitable[None]],
    opening: Opening | None = None,
    answered: Answered | None = None,
) -> None:
    """Serve until the client closes stdin; then call `at_end` and finish the open requests.

    `opening` is the connection, where the first requests were `answered` before.
    """
    answered = answered or Answered()
    async with _streams(opening, answered) as (incoming, outgoing), anyio.create_task_group() as tasks:
        eras = _EraRouter(server, _Output(outgoing, answered), tasks)
        async for item in incoming:
            await eras.route(item)
        await at_end()
        await eras.finish()


class _Output:
    """The output stream shared by both eras, which keeps track of unanswered requests."""

    def __init__(self, stream: WriteStream[SessionMessage], answered: Answered) -> None:
        self._stream = stream
        self._answered_early = answered
        self._unanswered: set[types.RequestId | None] = set()
        self._answered = anyio.Event()

    def expect_answer(self, request: types.JSONRPCRequest) -> None:
        # The response to this request comes only at the end of its stream.
        if request.method != "subscriptions/listen":
            self._unanswered.add(coerce_request_id(request.id))

    def expect_no_answer(self, number: object) -> None:
        if isinstance(number, str | int):
            # The SDK also cancels request 7 for "7", and does not answer it then.
            self._unanswered.discard(coerce_request_id(number))
            self._answered.set()
            self._answered_early.cancel(number)

    async def refuse(self, why: Exception) -> None:
        """Answer a line that is not a message with an error, so that the client does not wait for ever."""
        unreadable = why if isinstance(why, UnreadableMessageError) else None
        code = unreadable.code if unreadable else types.PARSE_ERROR
        logger.warning("a line on stdin is not a message: %s", unreadable or type(why).__name__)
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


class _EraRouter:
    """One SDK loop for each era that the client uses; each request says which era it belongs to."""

    def __init__(self, server: Server[Any], output: _Output, tasks: TaskGroup) -> None:
        self._server = server
        self._output = output
        self._tasks = tasks
        self._open: dict[bool, MemoryObjectSendStream[Incoming]] = {}

    async def route(self, item: Incoming) -> None:
        if isinstance(item, Exception):
            await self._output.refuse(item)
            return
        message = item.message
        if isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            # Sent to both eras: the one without a request of this id ignores it. Cancelled requests get no response.
            self._output.expect_no_answer((message.params or {}).get("requestId"))
            targets = list(self._open)
        else:
            targets = [_is_modern(message)]
        if isinstance(message, types.JSONRPCRequest):
            await self._output.until_answered(at_most=_MAX_UNANSWERED)
            self._output.expect_answer(message)
        for modern in targets:
            await self._stream(modern=modern).send(item)

    async def finish(self) -> None:
        """Wait a while until all requests are answered, then end all loops."""
        with anyio.move_on_after(_GRACE_SECONDS):
            await self._output.until_answered()
        for stream in self._open.values():
            stream.close()

    def _stream(self, *, modern: bool) -> MemoryObjectSendStream[Incoming]:
        if modern not in self._open:
            send, receive = anyio.create_memory_object_stream[Incoming](16)
            self._open[modern] = send

            async def serve() -> None:
                await serve_dual_era_loop(self._server, receive, self._output, lifespan_state={})

            self._tasks.start_soon(serve)
        return self._open[modern]


def _is_modern(message: types.JSONRPCMessage) -> bool:
    """Tell whether a message is a request with the modern envelope; all others belong to the handshake era."""
    if not isinstance(message, types.JSONRPCRequest) or message.method == "initialize":
        return False
    meta = (message.params or {}).get("_meta")
    return isinstance(meta, dict) and _VERSION_KEY in meta


@asynccontextmanager
async def _streams(
    opening: Opening | None, answered: Answered
) -> AsyncGenerator[tuple[AsyncIterator[Incoming], WriteStream[SessionMessage]]]:
    if opening is not None:
        yield read_messages(opening), PipeWriter(opening.sink, opening.unsent, answered)
    elif can_wait_for(0) and can_wait_for(1):
        with claimed_pipes() as (source, sink):
            yield read_messages(Opening(source, sink)), PipeWriter(sink)
    else:
        async with stdio_server() as (read, write):
            yield read, write
            # The SDK's writer task runs until its stream is closed.
            await write.aclose()
