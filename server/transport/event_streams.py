"""Tracking of open HTTP responses: where events can be written to, and a clean end for all responses.

A client of the handshake era receives notifications on the event stream that its session holds open by GET, one of the
modern era on the answer to `subscriptions/listen`. The SDK opens and ends these responses, and sends on them what it
has to; events are written beside it. When the server stops, it ends each response with a last chunk: a connection that
is cut off is an error for the client and in the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import anyio
from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from server.wire.event_writer import EventWriter

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from server.config.settings.server import OperationSettings

logger = logging.getLogger(__name__)

_LAST_CHUNK_SECONDS = 0.5
# A client that does not read does not take even the last chunk.

_TICK_SECONDS = 0.05

_RESUMES = "last-event-id"
# The header by which a client asks for the events behind one that it has received.

_LISTENS = (b"mcp-method", b"subscriptions/listen")
# The header of the modern era that names the method; the SDK refuses a request that has another one.


RESPONSE_KEY: Final = "skillserve.response"
"""The key in an ASGI scope of the `OpenResponse` to the request."""


@dataclass(eq=False, slots=True)
class OpenResponse:
    """The progress of one response, and the scope of its request; `is_listener` marks the GET stream of a session.

    A layer ends the response by cancelling the scope: a scope of its own would cost each request as much again. If
    nothing has been sent by then, `instead` answers. When the head of the response is sent, `on_start` is called.
    """

    is_listener: bool
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    started: bool = False
    complete: bool = False
    stopped: bool = False
    instead: ASGIApp | None = None
    on_start: Callable[[], None] | None = None

    def stop(self) -> None:
        """End the response because the server stops."""
        self.stopped = True
        self.scope.cancel()

    def note(self, message: Message) -> None:
        """Note the progress that a message makes."""
        if message["type"] == "http.response.start":
            self.started = True
            if self.on_start is not None:
                self.on_start()
        elif message["type"] == "http.response.body":
            self.complete = not message.get("more_body", False)


class EventStreams:
    """ASGI middleware that tracks responses until `end` ends them."""

    def __init__(self, app: ASGIApp, forward: Callable[[str, EventWriter], Coroutine[Any, Any, None]]) -> None:
        """Serve `app`; `forward` is called with a session's id while its event stream is open, to write to it."""
        self._app = app
        self._forward = forward
        self._responses: set[OpenResponse] = set()
        self._closing = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        session = Headers(scope=scope).get("mcp-session-id", "") if scope["method"] == "GET" else ""
        response = OpenResponse(is_listener=session != "")

        async def tracked_send(message: Message) -> None:
            await send(_closing(message) if self._closing else message)
            response.note(message)

        self._responses.add(response)
        scope[RESPONSE_KEY] = response
        try:
            with response.scope:
                if response.is_listener:
                    await self._listen(session, scope, receive, tracked_send)
                elif _LISTENS in scope["headers"]:
                    await self._subscribe(scope, receive, tracked_send)
                else:
                    await self._app(scope, receive, tracked_send)
        finally:
            self._responses.discard(response)
        if not response.complete and not response.started and not response.stopped and response.instead is not None:
            await response.instead(scope, receive, send)
        elif not response.complete:
            await _finish(response, scope, receive, send)

    async def _listen(self, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a GET stream, and forward events to it from its head on."""
        writer = EventWriter(send, Headers(scope=scope).get(_RESUMES, ""))
        async with anyio.create_task_group() as tasks:

            async def announcing_send(message: Message) -> None:
                await send(message)
                if message["type"] == "http.response.start" and _is_stream(message):
                    writer.begin()
                    tasks.start_soon(self._forward, session, writer)

            # Which events the client has missed, `forward` knows. Without a store of events, the SDK would return from
            # a request that names one without an answer.
            headers = [header for header in scope["headers"] if header[0].lower() != _RESUMES.encode()]
            await self._app({**scope, "headers": headers}, receive, announcing_send)
            tasks.cancel_scope.cancel()

    async def _subscribe(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a stream of the modern era; its handler may write to it once it has acknowledged the request."""
        writer = EventWriter(send)

        async def announcing_send(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.body" and not writer.has_begun:
                writer.begin()

        await self._app(writer.within(scope), receive, announcing_send)

    @property
    def running(self) -> int:
        """How many responses are open, those to sessions' GET streams excluded."""
        return sum(not response.is_listener for response in self._responses)

    @property
    def is_closing(self) -> bool:
        """Whether connections end with their next response."""
        return self._closing

    def close_connections(self) -> None:
        """Let each connection end with its next response, so that its client connects anew, maybe to another server."""
        self._closing = True

    async def end(self, seconds: float) -> None:
        """End the sessions' GET streams at once, and all other responses after `seconds`."""
        for response in [*self._responses]:
            if response.is_listener:
                response.stop()
        with anyio.move_on_after(seconds):
            while self._responses:  # noqa: ASYNC110 - once in a server's life
                await anyio.sleep(_TICK_SECONDS)
        for response in [*self._responses]:
            response.stop()


def _closing(message: Message) -> Message:
    if message["type"] != "http.response.start":
        return message
    return {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}


def _is_stream(message: Message) -> bool:
    return Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")


async def _finish(response: OpenResponse, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the end of a response that has none."""
    with anyio.move_on_after(_LAST_CHUNK_SECONDS):
        if response.started:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        elif response.stopped:
            await JSONResponse({"error": "the server is stopping"}, 503)(scope, receive, send)
        else:
            await JSONResponse({"error": "the request was not answered"}, 500)(scope, receive, send)


class Draining:
    """Whether a server drains, and until when."""

    def __init__(self, settings: OperationSettings) -> None:
        """Drain as long as `settings` say, once asked to."""
        self._notice = settings.drain_notice_seconds
        self._bound = max(settings.drain_seconds, settings.drain_notice_seconds)
        self._began: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the server has been asked to stop."""
        return self._began is not None

    def begin(self) -> None:
        """Begin; safe in a signal handler."""
        self._began = self._began if self._began is not None else time.monotonic()

    def is_over(self, running: int) -> bool:
        """Tell whether the server stops now, while `running` requests are being answered."""
        if self._began is None:
            return False
        passed = time.monotonic() - self._began
        if passed < self._notice or (running and passed < self._bound):
            return False
        if running and self._bound:
            logger.warning("%d requests are cancelled: they did not finish in %g seconds", running, self._bound)
        return True
