"""An MCP server as a child process, spoken to over its stdin and stdout, with bounds on what it may say.

The SDK's own transport keeps a line in memory however long it gets, and logs what it cannot parse. This one ends the
connection where a line is too long, and passes over lines that are no messages, as some servers print other things.
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

from skills_core.run.scripts.platform_processes import OWN_SESSION, ask_to_end, end_all

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from anyio.abc import Process
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from server.run.mcp_servers.config_file import ServerSpec

__all__ = ["child_server"]

MAX_LINE = 8 * 1024 * 1024
"""Longest message of a server, in bytes."""

_MAX_OTHER = 1000
# Lines that are no messages.

_GRACE_SECONDS = 2.0
# For a server to end when nobody speaks to it any more, and again when it is asked to.


@asynccontextmanager
async def child_server(spec: ServerSpec) -> AsyncGenerator[tuple[Any, Any]]:
    """Start the server, and give the streams of messages from and to it.

    Its environment is the SDK's short list of what is safe to inherit, and what the spec says. What it writes to
    stderr goes nowhere.

    Raises:
        OSError, ValueError: it cannot be started.
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
    # Windows starts `npx` only by the name of the file that it is.
    return shutil.which(spec.command[0], path=environment.get("PATH")) or spec.command[0]


async def _receive(process: Process, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    others = 0
    # Closed when the server ends, so that whoever waits for an answer is told.
    async with incoming:
        async for line in _lines(process):
            try:
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                others += 1
                if others > _MAX_OTHER:
                    return
                continue
            try:
                await incoming.send(SessionMessage(message))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return


async def _lines(process: Process) -> AsyncIterator[bytes]:
    """Yield what the server writes, line by line, until it ends or a line is too long."""
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
        # The server reads no more: whoever waits for an answer would wait for ever.
        await incoming.aclose()


async def _end(process: Process) -> None:
    """Let a server end, ask it to, and end it, with all that it started; each is waited for, but not for ever."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                await stream.aclose()
    with anyio.move_on_after(_GRACE_SECONDS):
        await process.wait()
    if process.returncode is None:
        await ask_to_end(process.pid)
        with anyio.move_on_after(_GRACE_SECONDS):
            await process.wait()
    # What it left running ends too.
    await end_all(process.pid)
    with anyio.move_on_after(_GRACE_SECONDS):
        await process.wait()
    # The event loop keeps the pipe of a server whose output nobody read to its end; only this way closes it.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()
    await anyio.lowlevel.checkpoint()
