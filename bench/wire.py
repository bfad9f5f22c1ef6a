"""What travels between the bench and a server: JSON-RPC messages of both protocol eras.

Knows nothing of processes, pipes or sockets: those are links (`stdio_link`, `http_link`), and what a link
must be able to do stands here as a protocol. Standard library only, so that no SDK is part of a timing.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

Message = dict[str, Any]

CLIENT_INFO = {"name": "skillserve-bench", "version": "1"}
_PREFIX = "io.modelcontextprotocol/"


class BenchError(Exception):
    """A server did not do what the bench needs of it; notes carry the end of its log."""


class Era(StrEnum):
    """The two generations of the protocol, by the way a connection begins."""

    HANDSHAKE = "handshake"
    MODERN = "modern"

    @property
    def protocol(self) -> str:
        """The protocol version that stands for this era."""
        return "2026-07-28" if self is Era.MODERN else "2025-11-25"


class Answer(NamedTuple):
    """The reply to one request; its first byte went out at `start`, its last byte came in at `end`."""

    start: float
    end: float
    reply: Message
    size: int

    @property
    def seconds(self) -> float:
        """How long the exchange of bytes took."""
        return self.end - self.start


class Event(NamedTuple):
    """A message the server sent on its own, and when it arrived (`time.perf_counter`)."""

    at: float
    message: Message


class Link(Protocol):
    """A connection to one server, over whatever transport."""

    def exchange(self, message: Message, timeout: float) -> Answer:
        """Send a request and wait for its reply; events that come in between are kept."""
        ...

    def notify(self, message: Message) -> None:
        """Send a notification."""
        ...

    def listen(self, message: Message | None) -> None:
        """Open the way for events: by this request, or by none where the era needs none."""
        ...

    def next_event(self, timeout: float) -> Event | None:
        """The oldest event not yet taken, or None when none came in time."""
        ...


def request(era: Era, number: int, method: str, params: Message) -> Message:
    """Build a request; in the modern era each one says its protocol version itself."""
    if era is Era.MODERN:
        envelope = {
            f"{_PREFIX}protocolVersion": era.protocol,
            f"{_PREFIX}clientCapabilities": {},
            f"{_PREFIX}clientInfo": CLIENT_INFO,
        }
        params = {**params, "_meta": envelope}
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def encode(message: Message) -> bytes:
    """Write a message as compact JSON, on one line as stdio needs it."""
    return json.dumps(message, separators=(",", ":")).encode()
