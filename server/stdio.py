"""Serve one client over the process's standard streams.

Where the system can wait for pipes on the event loop, both pipes are read and written there: the SDK's own
transport hands every message to worker threads and back, which doubles the time of a request. Elsewhere (on
Windows, or where stdin is a file) the SDK's transport is used.

Each message goes to the protocol era that it belongs to. The SDK settles on an era at the first request, but
clients exist that ask `server/discover` and then send `initialize` on the same connection.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Self

import anyio
import mcp_types as types
from mcp.server.runner import serve_dual_era_loop
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Generator

    from anyio.abc import TaskGroup
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.server.lowlevel.server import Server
    from mcp.shared._stream_protocols import WriteStream

__all__ = ["serve_stdio"]

_READ_SIZE = 1 << 16

_GRACE_SECONDS = 5
# A client that closes stdin at once after its last request still wants the answer.

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"

Incoming = SessionMessage | Exception


async def serve_stdio(server: Server[Any]) -> None:
    """Serve until the client closes stdin."""
    async with _streams() as (incoming, outgoing), anyio.create_task_group() as tasks:
        eras = _Eras(server, outgoing, tasks)
        async for item in incoming:
            await eras.route(item)
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
            self._unanswered.add(request.id)

    async def until_answered(self) -> None:
        while self._unanswered:
            self._answered = anyio.Event()
            await self._answered.wait()

    async def send(self, item: SessionMessage, /) -> None:
        await self._stream.send(item)
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            self._unanswered.discard(item.message.id)
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
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            # It names a request by its id; the era that does not have it ignores it.
            targets = list(self._open)
        else:
            targets = [_is_modern(message)]
        if isinstance(message, types.JSONRPCRequest):
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


def _is_modern(message: types.JSONRPCMessage | None) -> bool:
    """Tell whether a request carries the modern envelope; all else belongs to the handshake era."""
    if not isinstance(message, types.JSONRPCRequest) or message.method == "initialize":
        return False
    meta = (message.params or {}).get("_meta")
    return isinstance(meta, dict) and _VERSION_KEY in meta


@asynccontextmanager
async def _streams() -> AsyncGenerator[tuple[AsyncIterator[Incoming], WriteStream[SessionMessage]]]:
    if _can_wait_for(0) and _can_wait_for(1):
        with _claimed_pipes() as (source, sink):
            yield _read_messages(source), _PipeWriter(sink)
    else:
        async with stdio_server() as (read, write):
            yield read, write
            # The SDK's writer goes on until its stream is closed.
            await write.aclose()


def _can_wait_for(descriptor: int) -> bool:
    """Tell whether the event loop can wait for a descriptor: not on Windows, not for files, not for /dev/null."""
    if not hasattr(select, "poll"):
        return False
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


@contextmanager
def _claimed_pipes() -> Generator[tuple[int, int]]:
    """Take stdin and stdout for the protocol: what anything else prints goes to stderr meanwhile."""
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        yield source, sink
    finally:
        os.dup2(source, 0)
        os.dup2(sink, 1)
        os.close(source)
        os.close(sink)


async def _read_messages(descriptor: int) -> AsyncIterator[Incoming]:
    rest: list[bytes] = []
    while True:
        await anyio.wait_readable(descriptor)
        try:
            chunk = os.read(descriptor, _READ_SIZE)
        except ConnectionError:
            return
        if not chunk:
            return
        first, *lines = chunk.split(b"\n")
        rest.append(first)
        for line in lines:
            message = b"".join(rest)
            rest = [line]
            if message.strip():
                yield _parse(message)


def _parse(line: bytes) -> Incoming:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


class _PipeWriter:
    """Write messages to a pipe, each whole, without blocking the event loop and without changing the pipe's mode."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._turn = anyio.Lock()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    async def send(self, item: SessionMessage, /) -> None:
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8") + b"\n"
        async with self._turn:
            left = memoryview(data)
            while left:
                if not self._poll.poll(0):
                    await anyio.wait_writable(self._descriptor)
                try:
                    # A pipe that is ready takes this much without blocking (POSIX), whatever its mode is.
                    left = left[os.write(self._descriptor, left[: select.PIPE_BUF]) :]
                except ConnectionError:
                    raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass
