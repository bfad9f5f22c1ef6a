"""A minimal client of HTTP/1.1 and event streams on asyncio, for hundreds of clients in one process.

Each request has its own connection, because connection pools of clients are not under test.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from http_link import MIRRORED
from http_wire import PATH, sse_messages
from processes import HOST
from soak_roles import TOKEN
from wire import BenchError, Era, Message, encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MODERN = Era.MODERN.protocol
LIMIT = 1 << 22
# Limit of asyncio's buffer for a stream, and so of a line.


@dataclass
class Answer:
    """The head of an answer, and the connection to read its body from."""

    status: int
    headers: dict[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter = field(repr=False)

    async def body(self) -> bytes:
        """Read the body to its end and close the connection."""
        try:
            if self.headers.get("transfer-encoding") == "chunked":
                return b"".join([chunk async for chunk in self.chunks()])
            return await self.reader.readexactly(int(self.headers.get("content-length", 0)))
        finally:
            self.close()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the chunks of a body as they arrive; raise if it is truncated."""
        while size := int(await _line(self.reader), 16):
            yield await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await _line(self.reader)

    async def messages(self) -> AsyncIterator[Message]:
        """Yield the messages of an event stream."""
        pending = b""
        async for chunk in self.chunks():
            whole, mark, pending = (pending + chunk).replace(b"\r\n", b"\n").rpartition(b"\n\n")
            for message in sse_messages(whole + mark):
                yield message

    def close(self) -> None:
        """Close the connection."""
        self.writer.close()

    def reset(self) -> None:
        """Reset the connection, as the system does when a process dies."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


async def send(
    port: int, method: str, message: Message | None = None, session: str | None = None, path: str = PATH
) -> Answer:
    """Send a request and read the head of its answer; a message with `_meta` is of the modern era.

    A request for another path than the endpoint's is one of a browser.
    """
    body = encode(message) if message is not None else b""
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    if path != PATH:
        headers["Accept"] = "text/html, text/event-stream"
    if session is not None:
        headers["Mcp-Session-Id"] = session
    if message is not None and "_meta" in message["params"]:
        headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"]}
        if key := MIRRORED.get(message["method"]):
            headers["Mcp-Name"] = message["params"][key]
    if token := TOKEN.get():
        headers["Authorization"] = f"Bearer {token}"
    reader, writer = await asyncio.open_connection(HOST, port, limit=LIMIT)
    lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}:{port}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    try:
        writer.write("\r\n".join((*lines, "\r\n")).encode("ascii") + body)
        status = int((await _line(reader)).split(" ")[1])
        answered: dict[str, str] = {}
        while line := await _line(reader):
            name, _, value = line.partition(":")
            answered[name.strip().lower()] = value.strip()
    except BaseException:
        writer.close()
        raise
    return Answer(status, answered, reader, writer)


async def ask(port: int, message: Message, session: str | None = None) -> Message:
    """Post a request and return its result."""
    answer = await send(port, "POST", message, session)
    raw = await answer.body()
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        replies = [each for each in sse_messages(raw) if "id" in each]
    else:
        replies = [json.loads(raw)]
    if answer.status != 200 or "result" not in replies[0]:  # noqa: PLR2004 - HTTP's own number
        raise BenchError(f"{message['method']}: HTTP {answer.status}: {raw[:300]!r}")
    result: Message = replies[0]["result"]
    return result


async def _line(reader: asyncio.StreamReader) -> str:
    line = await reader.readuntil(b"\n")
    return line.decode("latin-1").rstrip("\r\n")
