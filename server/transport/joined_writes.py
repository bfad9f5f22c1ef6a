"""Send the head of an HTTP response together with the first part of its body.

uvicorn writes them one after the other, and each write is a packet of its own that wakes the client. A head without a
body is sent when the event loop runs next. h11 parses requests, also where httptools is installed, which sets no limit
on the length of a header.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["JoinedWrites", "JoiningProtocol"]

_HEAD = b"HTTP/1.1 "


class JoinedWrites(asyncio.Transport):
    """A transport that passes everything on to another one, and a response's head together with the next bytes."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        """Write to `transport`, which belongs to `loop`."""
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Write bytes; keep a head for the next write."""
        content = self._head + bytes(data)
        if content and not self._head and content.startswith(_HEAD):
            self._head = content
            self._loop.call_soon(self._flush)
        elif data:
            self._head = b""
            self._transport.write(content)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        """Write several parts."""
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        """Write what is kept, and close when all is sent."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._head = b""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Tell whether the transport closes."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as the base class says
        """Return what is known of the connection."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Receive no more bytes."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Receive bytes again."""
        self._transport.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Deliver received bytes to another protocol."""
        self._transport.set_protocol(protocol)

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head:
            self._transport.write(head)


class JoiningProtocol(H11Protocol):
    """uvicorn's HTTP protocol with joined writes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve a connection."""
        joined = JoinedWrites(transport, asyncio.get_running_loop())  # type: ignore[arg-type] # a stream's transport
        super().connection_made(joined)
