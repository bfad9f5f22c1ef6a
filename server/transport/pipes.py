"""JSON-RPC messages over the process's own pipes, read and written on the event loop.

The SDK's transport passes every message through worker threads, which doubles the time of a request. Here the event
loop itself waits for the pipes, and a write is never larger than a ready pipe takes without blocking. The pipes stay in
blocking mode, because other processes may share them.
"""

from __future__ import annotations

import json
import os
import select
from typing import TYPE_CHECKING, Self

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from server.transport.answered import Answered
from server.transport.standard_pipes import READ_SIZE, Opening
from skills_core.diagnostics import without_lone_surrogates

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["Incoming", "PipeWriter", "UnreadableMessageError", "read_messages"]

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
