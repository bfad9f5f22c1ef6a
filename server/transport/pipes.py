"""JSON-RPC messages over the process's own pipes, read and written on the event loop.

The SDK's transport hands every message to worker threads and back, which doubles the time of a request. Here the
event loop waits for the pipes itself, and no more is written at once than a ready pipe takes without blocking:
the mode of the pipes, which other processes may share, stays as it is.
"""

from __future__ import annotations

import json
import os
import select
import stat
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from skills_core.diagnostics import without_lone_surrogates

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

__all__ = ["Incoming", "PipeWriter", "UnreadableMessageError", "can_wait_for", "claimed_pipes", "read_messages"]

_READ_SIZE = 1 << 16

Incoming = SessionMessage | Exception
"""What comes in: a message, or why a line is none."""


def can_wait_for(descriptor: int) -> bool:
    """Tell whether the event loop can wait for a descriptor: not on Windows, not for files, not for /dev/null."""
    if not hasattr(select, "poll"):
        return False
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


@contextmanager
def claimed_pipes() -> Generator[tuple[int, int]]:
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


async def read_messages(descriptor: int) -> AsyncIterator[Incoming]:
    """Yield what the lines of a pipe hold, until it is closed."""
    rest: list[bytes] = []
    while True:
        await anyio.wait_readable(descriptor)
        try:
            chunk = os.read(descriptor, _READ_SIZE)
        except ConnectionError:
            chunk = b""
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


class UnreadableMessageError(ValueError):
    """A line is no message; `code` says in JSON-RPC's words why, `number` is the request's id where it has one."""

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
        # The SDK takes a request whose id is none for a notification; its sender would wait for ever.
        return UnreadableMessageError(types.INVALID_REQUEST, "Invalid request: an id is a string or a whole number")
    return SessionMessage(message)


def _has_id(line: bytes) -> bool:
    try:
        return "id" in json.loads(line)
    except (ValueError, RecursionError):
        return False


def _parse_again(line: bytes) -> Incoming:
    """Read a line that is no proper message: half a character, as JavaScript writes it, becomes U+FFFD."""
    try:
        value = json.loads(line)
        text = without_lone_surrogates(json.dumps(value, ensure_ascii=False))
    except (ValueError, RecursionError):
        return UnreadableMessageError(types.PARSE_ERROR, "Parse error: this line is no JSON")
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError:
        number = value.get("id") if isinstance(value, dict) else None
        known = number if isinstance(number, str) or type(number) is int else None
        return UnreadableMessageError(types.INVALID_REQUEST, "Invalid request: this is no JSON-RPC message", known)


class PipeWriter:
    """Writes messages to a pipe, each whole; a stream as the SDK wants one.

    Where a send is cancelled in the middle of a message, the rest of it goes out before the next one.
    """

    def __init__(self, descriptor: int) -> None:
        """Write to `descriptor`, which stays open when this is closed."""
        self._descriptor = descriptor
        self._turn = anyio.Lock()
        self._left = memoryview(b"")
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message.

        Raises:
            anyio.BrokenResourceError: nobody reads any more.
        """
        async with self._turn:
            # Within the turn: what waits for a client that does not read waits as an object, not as text too.
            await self._flush()
            data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8") + b"\n"
            self._left = memoryview(data)
            try:
                await self._flush()
            finally:
                if len(self._left) == len(data):
                    self._left = memoryview(b"")  # nothing of it went out, so nobody waits for its end

    async def _flush(self) -> None:
        while self._left:
            if not self._poll.poll(0):
                await anyio.wait_writable(self._descriptor)
            try:
                # A pipe that is ready takes this much without blocking (POSIX), whatever its mode is.
                self._left = self._left[os.write(self._descriptor, self._left[: select.PIPE_BUF]) :]
            except ConnectionError:
                raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        """Do nothing: the descriptor is not ours to close."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass
