"""Serve one client over the process's standard streams.

The pipes are read and written on the event loop where the system allows it: the SDK's transport passes every message
through worker threads, which doubles the time of a request. A write is never larger than a ready pipe takes without
blocking, and the pipes stay in blocking mode, because other processes may share them. Elsewhere, on Windows or where
stdin is a file, the SDK's transport is used.

Each message is routed to its protocol era. The SDK decides on one era at the first request, but some clients send
`server/discover` and then `initialize` on the same connection.
"""

from __future__ import annotations

import json
import logging
import os
import select
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

import anyio
import mcp_types as types
from mcp.server.runner import serve_dual_era_loop
from mcp.server.stdio import stdio_server
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage

from server.protocol.early_answers import ACKNOWLEDGED
from server.transport.early_stdio import READ_SIZE, Opening, can_wait_for, claimed_pipes
from skills_core.diagnostics import without_lone_surrogates

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.server.lowlevel.server import Server
    from mcp.shared._stream_protocols import WriteStream

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


Incoming = SessionMessage | Exception
"""A message, or the reason why a line is not one."""


async def read_messages(opening: Opening) -> AsyncIterator[Incoming]:
    """Yield the messages of a pipe, one per line, until it is closed; begin with those that have been received."""
    rest: list[bytes] = []
    chunk = opening.received
    while True:
        chunk = chunk or (b"" if opening.ended else await _read(opening.source))
        if not chunk:
            if message := b"".join(rest).strip():
                yield _parse(message)
            return
        first, *lines = chunk.split(b"\n")
        rest.append(first)
        for line in lines:
            message = b"".join(rest)
            rest = [line]
            if message.strip():
                yield _parse(message)
        chunk = b""


async def _read(descriptor: int) -> bytes:
    await anyio.wait_readable(descriptor)
    try:
        return os.read(descriptor, READ_SIZE)
    except ConnectionError:
        return b""


class UnreadableMessageError(ValueError):
    """A line is not a message; `code` is the JSON-RPC error code, `number` the id of the request if it has one."""

    def __init__(self, code: int, message: str, number: types.RequestId | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.number = number


def _parse(line: bytes) -> Incoming:
    line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return _parse_again(line)
    if isinstance(message, types.JSONRPCNotification) and b'"id"' in line and _has_id(line):
        # The SDK takes a request with an invalid id for a notification, and the client would wait for ever.
        return UnreadableMessageError(
            types.INVALID_REQUEST, "Invalid request: an id must be a string or a whole number"
        )
    return SessionMessage(message)


def _has_id(line: bytes) -> bool:
    try:
        return "id" in json.loads(line)
    except (ValueError, RecursionError):
        return False


def _parse_again(line: bytes) -> Incoming:
    """Parse a line again with lone surrogates, as JavaScript writes them, replaced by U+FFFD."""
    try:
        value = json.loads(line)
        text = without_lone_surrogates(json.dumps(value, ensure_ascii=False))
    except (ValueError, RecursionError):
        return UnreadableMessageError(types.PARSE_ERROR, "Parse error: this line is not JSON")
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError:
        number = value.get("id") if isinstance(value, dict) else None
        known = number if isinstance(number, str) or type(number) is int else None
        return UnreadableMessageError(types.INVALID_REQUEST, "Invalid request: this is not a JSON-RPC message", known)


class PipeWriter:
    """A write stream for the SDK that writes whole messages to a pipe.

    If a send is cancelled in the middle of a message, the next send first writes the rest of it.
    """

    def __init__(self, descriptor: int, unsent: bytes = b"", answered: Answered | None = None) -> None:
        """Write to `descriptor`, which stays open when this is closed; first the bytes that are `unsent` so far.

        What is `answered` is not written again.
        """
        self._descriptor = descriptor
        self._turn = anyio.Lock()
        self._rest = memoryview(unsent)
        self._answered = answered or Answered()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message.

        Raises:
            anyio.BrokenResourceError: the reader has closed the pipe.
        """
        async with self._turn:
            # Serialized within the turn, so that waiting messages do not take the memory of their text too.
            await self._flush()
            if self._answered.covers(item.message):
                return
            data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8") + b"\n"
            self._rest = memoryview(data)
            try:
                await self._flush()
            finally:
                if len(self._rest) == len(data):
                    self._rest = memoryview(b"")  # nothing of it was written, so it can be dropped

    async def _flush(self) -> None:
        while self._rest:
            if not self._poll.poll(0):
                await anyio.wait_writable(self._descriptor)
            try:
                # POSIX: a ready pipe takes this much without blocking, in either mode.
                self._rest = self._rest[os.write(self._descriptor, self._rest[: select.PIPE_BUF]) :]
            except ConnectionError:
                raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        """Do nothing: the caller owns the descriptor."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


_STREAM_KEY = "io.modelcontextprotocol/subscriptionId"


class Answered:
    """The requests that are answered and the streams that are acknowledged, as far as the server has not said so."""

    def __init__(self, silent: Iterable[str] = (), streams: Iterable[str | int] = ()) -> None:
        """Begin with the ids of requests and streams."""
        self._silent = set(silent)
        self._streams = set(streams)
        self._all_said = anyio.Event()
        self._check()

    def covers(self, message: types.JSONRPCMessage) -> bool:
        """Return whether the client has this message already; it counts as said from here on."""
        if isinstance(message, types.JSONRPCResponse):
            known = message.id in self._silent
            self._silent -= {message.id}
        elif isinstance(message, types.JSONRPCNotification) and message.method == ACKNOWLEDGED:
            stream = (message.params or {}).get("_meta", {}).get(_STREAM_KEY)
            known = stream in self._streams
            self._streams.discard(stream)
        else:
            return False
        self._check()
        return known

    def cancel(self, number: object) -> None:
        """Expect no acknowledgement of a stream that the client has cancelled, so that it may use the id again."""
        if isinstance(number, str | int):
            self._streams.discard(number)
            self._check()

    async def wait(self) -> None:
        """Wait until the server has processed all that was answered before."""
        await self._all_said.wait()

    def _check(self) -> None:
        if not self._silent and not self._streams:
            self._all_said.set()
