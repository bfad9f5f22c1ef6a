"""Write prepared events to the response of a request that is a stream of events.

The SDK makes a message of each notification, and passes it through three tasks to the response. A change is the same
bytes for all of a thousand clients; these are written to the response beside what the SDK writes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from starlette.types import Scope, Send

_WRITER_KEY: Final = "skillserve.events"
# The key in an ASGI scope of the writer of its response.


class EventWriter:
    """Writes whole events to one response; `last_event` is the id of the last event that its client has received."""

    def __init__(self, send: Send, last_event: str = "") -> None:
        """Write by `send`, once `begin` tells that the response is a stream of events."""
        self._send = send
        self._begun = asyncio.Event()
        self.last_event = last_event

    @property
    def has_begun(self) -> bool:
        """Whether the response is a stream of events, to which events may be written."""
        return self._begun.is_set()

    def begin(self) -> None:
        """Let events be written."""
        self._begun.set()

    async def write(self, frames: bytes) -> None:
        """Write events in one part; wait until the response has begun and its client takes what is written."""
        await self._begun.wait()
        await self._send({"type": "http.response.body", "body": frames, "more_body": True})

    def within(self, scope: Scope) -> Scope:
        """Return a scope whose handlers find this writer."""
        return {**scope, _WRITER_KEY: self}


def writer_of(request: Any) -> EventWriter | None:  # noqa: ANN401 - the SDK does not type what a transport attaches
    """Return the writer of a request's response; None if there is none, as over stdio."""
    writer: EventWriter | None = getattr(request, "scope", {}).get(_WRITER_KEY)
    return writer
