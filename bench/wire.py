"""JSON-RPC messages of both protocol eras, and the interface of the links that carry them.

Processes, pipes and sockets belong to the links (`stdio_link`, `http_link`). This module uses the standard library
only, so that no SDK is part of a timing.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

Message = dict[str, Any]

CLIENT_INFO = {"name": "skillserve-bench", "version": "1"}
_PREFIX = "io.modelcontextprotocol/"


class BenchError(Exception):
    """A server did not behave as the bench requires; notes contain the end of its log."""


class RefusedError(BenchError):
    """A server answered a request with an error."""


class Era(StrEnum):
    """The two generations of the protocol, which differ in how a connection begins."""

    HANDSHAKE = "handshake"
    MODERN = "modern"

    @property
    def protocol(self) -> str:
        """The protocol version that represents this era."""
        return "2026-07-28" if self is Era.MODERN else "2025-11-25"


class Answer(NamedTuple):
    """The reply to a request, whose first byte was sent at `start`; its last byte arrived at `end`."""

    start: float
    end: float
    reply: Message
    size: int

    @property
    def seconds(self) -> float:
        """The duration of the exchange."""
        return self.end - self.start


class Event(NamedTuple):
    """A message that the server sent without a request, and its time of arrival (`time.perf_counter`)."""

    at: float
    message: Message


class Link(Protocol):
    """A connection to one server over any transport."""

    def exchange(self, message: Message, timeout: float) -> Answer:
        """Send a request and wait for its reply; keep events that arrive before it."""
        ...

    def notify(self, message: Message) -> None:
        """Send a notification."""
        ...

    def listen(self, message: Message | None) -> None:
        """Start to receive events, by sending `message` if the era needs a request."""
        ...

    def next_event(self, timeout: float) -> Event | None:
        """Remove and return the oldest event; None at the timeout."""
        ...


def request(era: Era, number: int, method: str, params: Message) -> Message:
    """Build a request; in the modern era each one names its protocol version."""
    if era is Era.MODERN:
        envelope = {
            f"{_PREFIX}protocolVersion": era.protocol,
            f"{_PREFIX}clientCapabilities": {},
            f"{_PREFIX}clientInfo": CLIENT_INFO,
        }
        params = {**params, "_meta": envelope}
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def encode(message: Message) -> bytes:
    """Encode a message as compact JSON on one line, as stdio requires."""
    return json.dumps(message, separators=(",", ":")).encode()
