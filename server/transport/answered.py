"""What the SDK's server says again, because it was said before the server was loaded: it is dropped, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import mcp_types as types

from server.protocol.early_answers import ACKNOWLEDGED

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Answered"]

_STREAM_KEY = "io.modelcontextprotocol/subscriptionId"


class Answered:
    """The requests that are answered and the streams that are acknowledged, as far as the server has not said so."""

    def __init__(self, silent: Iterable[str] = (), streams: Iterable[str | int] = ()) -> None:
        """Begin with the ids of requests and streams."""
        self._silent = set(silent)
        self._streams = set(streams)
        self._all_said = anyio.Event()
        self._check()

    def covers(self, message: types.JSONRPCMessage) -> bool:
        """Return whether the client has this message already; it counts as said from here on."""
        if isinstance(message, types.JSONRPCResponse):
            known = message.id in self._silent
            self._silent -= {message.id}
        elif isinstance(message, types.JSONRPCNotification) and message.method == ACKNOWLEDGED:
            stream = (message.params or {}).get("_meta", {}).get(_STREAM_KEY)
            known = stream in self._streams
            self._streams.discard(stream)
        else:
            return False
        self._check()
        return known

    def cancel(self, number: object) -> None:
        """Expect no acknowledgement of a stream that the client has cancelled, so that it may use the id again."""
        if isinstance(number, str | int):
            self._streams.discard(number)
            self._check()

    async def wait(self) -> None:
        """Wait until the server has processed all that was answered before."""
        await self._all_said.wait()

    def _check(self) -> None:
        if not self._silent and not self._streams:
            self._all_said.set()
