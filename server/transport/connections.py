"""Connections of HTTP clients: closed if they keep the server waiting, and with joined writes.

uvicorn closes connections that are idle between two requests, and waits for ever for one that has begun. Each of them
keeps a descriptor, and a process has about a thousand. uvicorn also writes the head of a response and its body one
after the other, and each write is a packet of its own that wakes the client: here they go together. A head without a
body is sent when the event loop runs next. h11 parses requests, also where httptools is installed, which sets no limit
on the length of a header.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from server.limits.descriptors import most_connections

logger = logging.getLogger(__name__)

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


_MAX_HEAD_LINES: Final = 200
_MAX_HEAD_BYTES: Final = 65_536
"""The head of a request is parsed before anything is known of its sender, and takes microseconds for each line."""

_REFUSAL_SECONDS: Final = 1.0

_PATIENT_SECONDS: Final = 1.0
"""A connection is not closed to make room before it is so old: a request usually follows at once."""

_SWEEP_SECONDS: Final = 0.25
_MOST_AT_ONCE: Final = 32


class WaitingClients:
    """The connections for whose clients a server waits, the longest wait first."""

    def __init__(self, seconds: float, most: int | None = None) -> None:
        """Close connections after `seconds` (0 for never), and the oldest ones if there are more than `most`."""
        self._seconds = seconds
        self._most = most_connections() if most is None else most
        self._since: dict[asyncio.Protocol, tuple[float, Callable[[], None]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many connections there are."""
        return len(self._since)

    def __contains__(self, connection: asyncio.Protocol) -> bool:
        """Tell whether the server waits for the client of a connection."""
        return connection in self._since

    def add(self, connection: asyncio.Protocol, close: Callable[[], None]) -> None:
        """Wait for the client of a connection from now on; `close` ends it."""
        loop = asyncio.get_running_loop()
        self._since[connection] = loop.time(), close
        if self._timer is None:
            self._timer = loop.call_later(_SWEEP_SECONDS, self._sweep)

    def discard(self, connection: asyncio.Protocol) -> None:
        """Wait no longer: the client has done its part, or has gone."""
        self._since.pop(connection, None)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now, closed = loop.time(), 0
        # Some at a time: their clients connect again at once, all together.
        for connection, (since, close) in [*islice(self._since.items(), _MOST_AT_ONCE)]:
            is_slow = 0 < self._seconds <= now - since
            is_too_many = len(self._since) > self._most and now - since >= _PATIENT_SECONDS
            if not is_slow and not is_too_many:
                break
            del self._since[connection]
            close()
            closed += 1
        if closed:
            logger.info("%d connections are closed, whose clients sent no complete request or took no answer", closed)
        self._timer = loop.call_later(_SWEEP_SECONDS, self._sweep) if self._since else None


class BoundedProtocol(JoiningProtocol):
    """uvicorn's HTTP protocol, which does not wait for its client without a limit."""

    def __init__(self, waiting: WaitingClients, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as uvicorn has them
        """Serve one connection; `waiting` holds it while its client keeps the server waiting."""
        super().__init__(*args, **kwargs)
        self._waiting = waiting
        self._head_lines = self._head_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._waiting.add(self, self._abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._waiting.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request; its head has to be complete in time."""
        if self.conn.their_state is h11.IDLE and not self._is_modest(data):
            # Whoever sends such heads connects again at once.
            self.transport.pause_reading()
            self._waiting.discard(self)
            asyncio.get_running_loop().call_later(_REFUSAL_SECONDS, self._refuse)
            return
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Go on after a response: uvicorn closes the connection if it is idle now."""
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """Begin to wait until the client takes what is written."""
        super().pause_writing()
        self._waiting.add(self, self._abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        self._waiting.discard(self)

    def _look(self) -> None:
        is_answering = bool(self.cycle) and not self.cycle.response_complete  # None before the first request
        if is_answering or self.timeout_keep_alive_task is not None:
            if self not in self._waiting or self.flow.write_paused:
                return
            self._waiting.discard(self)
        elif self not in self._waiting:
            self._waiting.add(self, self._abort)

    def _is_modest(self, data: bytes) -> bool:
        """Tell whether the received part of a head has no more lines and bytes than a head may have."""
        end = data.find(b"\r\n\r\n")
        is_complete = end >= 0
        self._head_lines += data.count(b"\n", 0, end if is_complete else len(data))
        self._head_bytes += end if is_complete else len(data)
        is_modest = self._head_lines <= _MAX_HEAD_LINES and self._head_bytes <= _MAX_HEAD_BYTES
        if is_complete:
            self._head_lines = self._head_bytes = 0
        return is_modest

    def _refuse(self) -> None:
        if not self.transport.is_closing():
            self.send_400_response("The request has too many headers.")

    def _abort(self) -> None:
        self.transport.abort()
