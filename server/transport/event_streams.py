"""The responses that are under way over HTTP: which sessions can be told something, and a clean end for all.

A session of the handshake era is told of changes on the event stream that it holds open by GET. The SDK drops what is
sent while there is none, so the notifications wait until the stream stands. When the server stops, streams are ended
by their last chunk: one that is cut off is an error to the client, and one more in the log.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
from starlette.datastructures import Headers
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["EventStreams"]

_LAST_CHUNK_SECONDS = 0.5
# A client that does not read cannot be sent even the end.

_TICK_SECONDS = 0.05


@dataclass(eq=False, slots=True)
class _Response:
    """One response: how far it is, and the scope that its request runs in."""

    standing: bool
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    started: bool = False
    complete: bool = False

    def note(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
        elif message["type"] == "http.response.body":
            self.complete = not message.get("more_body", False)


class EventStreams:
    """ASGI middleware that follows responses; `end` ends them."""

    def __init__(self, app: ASGIApp, reachable: Callable[[str], AbstractContextManager[None]]) -> None:
        """Serve `app`; `reachable` is entered with a session's id while its event stream stands."""
        self._app = app
        self._reachable = reachable
        self._responses: set[_Response] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        session = Headers(scope=scope).get("mcp-session-id", "")
        response = _Response(standing=scope["method"] == "GET" and session != "")
        with ExitStack() as stack:

            async def followed(message: Message) -> None:
                await send(message)
                response.note(message)
                if message["type"] == "http.response.start" and response.standing and _is_stream(message):
                    # The SDK registers the stream in a task that it started before this one began to send.
                    await anyio.lowlevel.checkpoint()
                    stack.enter_context(self._reachable(session))

            with self._followed(response), response.scope:
                await self._app(scope, receive, followed)
        if not response.complete:
            await _finish(response, scope, receive, send)

    @contextmanager
    def _followed(self, response: _Response) -> Iterator[None]:
        self._responses.add(response)
        try:
            yield
        finally:
            self._responses.discard(response)

    async def end(self, seconds: float) -> None:
        """End the standing streams at once, and all other responses when they have had so many seconds."""
        for response in [*self._responses]:
            if response.standing:
                response.scope.cancel()
        with anyio.move_on_after(seconds):
            while self._responses:  # noqa: ASYNC110 - it comes once in a server's life
                await anyio.sleep(_TICK_SECONDS)
        for response in [*self._responses]:
            response.scope.cancel()


def _is_stream(message: Message) -> bool:
    return Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")


async def _finish(response: _Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the end of a response that was left without one."""
    with anyio.move_on_after(_LAST_CHUNK_SECONDS):
        if response.started:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await JSONResponse({"error": "the server is stopping"}, 503)(scope, receive, send)
