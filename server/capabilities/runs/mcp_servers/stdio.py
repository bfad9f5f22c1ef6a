"""A bounded stdio transport to an MCP server that runs as a child process.

The SDK's transport buffers lines of any length and logs lines that it cannot parse. This transport closes the
connection at a line that is too long, and skips lines that are not messages, which some servers print.
"""

from __future__ import annotations

import shutil
import subprocess
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import mcp_types as types
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from skills_core.scripts.process import OWN_SESSION, kill_all, terminate

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from anyio.abc import Process
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from server.capabilities.runs.mcp_servers.config_file import ServerSpec

__all__ = ["open_server"]

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
