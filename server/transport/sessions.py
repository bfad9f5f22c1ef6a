"""Sessions of the handshake era over HTTP: what one holds in memory while nobody uses it, and when it ends.

The SDK serves a session with four tasks, two pairs of streams and ten events, which take 35 KB, until the session ends.
Most clients never end theirs, so nearly all sessions of a server are idle. Here a session that was idle for a moment
falls asleep: its tasks end, and what remains is what its client said about itself. Its next request wakes it: the tasks
begin anew with that. The client notices nothing.

A session ends when its client ends it, or when it was idle for too long (`_Session.seconds`).
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.connection import Connection
from mcp.server.runner import ServerRunner, aclose_shielded
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import DEFAULT_MAX_SESSIONS
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import INTERNAL_ERROR, InitializeRequestParams
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.responses import JSONResponse

from server.access import principal_of_scope
from server.transport.bodies import header_of

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp.shared.dispatcher import DispatchContext
    from mcp.shared.transport_context import TransportContext
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from server.access import Principal
    from server.protocol.server import SkillServer

logger = logging.getLogger(__name__)

AWAKE_SECONDS: Final = 5.0
"""A session falls asleep when it was idle for so long. Waking it takes about a millisecond, so the requests by which a
client begins, and those of one turn of its model, should find it awake."""

UNCONFIRMED_SECONDS: Final = 60.0
"""A session ends after so long whose client has sent nothing after `initialize`. Clients have to confirm the answer at
once, so this one has gone, or only wanted to know whether the server answers."""

SESSION_VERSIONS: Final = frozenset({None, *HANDSHAKE_PROTOCOL_VERSIONS})
"""The versions of the protocol with sessions, and none: a request with one of these that names no session opens one."""

_SESSION: Final = b"mcp-session-id"
_VERSION: Final = b"mcp-protocol-version"
_INITIALIZE: Final = "initialize"
_INITIALIZED: Final = "notifications/initialized"
_ERROR: Final = 400

_MAX_SHARED: Final = 4096
# Longest description of a client, in characters of JSON, that the sessions of equal clients share.


@dataclass(eq=False, slots=True)
class _Service:
    """The tasks of a session that is awake: its way to the SDK, and how many requests and handlers keep it awake."""

    transport: StreamableHTTPServerTransport
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    started: anyio.Event = field(default_factory=anyio.Event)
    users: int = 0

    @contextmanager
    def used(self, seconds: float) -> Iterator[None]:
        """Keep the session awake within this context, and for some seconds after it."""
        self.users += 1
        self.scope.deadline = math.inf
        try:
            yield
        finally:
            self.users -= 1
            if not self.users:
                self.scope.deadline = anyio.current_time() + seconds


@dataclass(eq=False, slots=True)
class _Session:
    """A session that is open: who opened it, what its client is, and what serves it, None while it is asleep.

    `client` are the parameters of `initialize`. A session is `confirmed` when its client has sent anything else.
    """

    id: str
    owner: AuthorizationContext | None
    principal: Principal
    client: InitializeRequestParams | None = None
    version: str = ""
    initialized: bool = False
    confirmed: bool = False
    service: _Service | None = None
    end: asyncio.TimerHandle | None = None

    def seconds(self, idle: float) -> float:
        """Return how long the session may be idle, where others may be for `idle` seconds."""
        return idle if self.confirmed else min(idle, UNCONFIRMED_SECONDS)


class HandshakeSessions:
    """ASGI application for the MCP endpoint that serves the sessions of the handshake era."""

    def __init__(
        self,
        app: ASGIApp,
        server: SkillServer,
        security: TransportSecuritySettings,
        idle_seconds: float,
        *,
        streams: bool,
    ) -> None:
        """Leave requests of the modern era to `app`, the endpoint of the SDK; the other arguments are as it has them.

        A session ends when it was idle for `idle_seconds`.
        """
        self._app = app
        self._server = server
        self._security = security
        self._idle = idle_seconds
        self._awake = min(AWAKE_SECONDS, idle_seconds / 2)
        self._streams = streams
        self._sessions: dict[str, _Session] = {}
        self._tasks: TaskGroup | None = None
        self._context = contextvars.Context()
        self._on_end: list[Callable[[str, Principal], None]] = []

    @property
    def counts(self) -> Mapping[str, int]:
        """How many sessions are open, by whether they are awake."""
        awake = sum(each.service is not None for each in self._sessions.values())
        return {"awake": awake, "asleep": len(self._sessions) - awake}

    def on_end(self, call: Callable[[str, Principal], None]) -> None:
        """Call something with each session that has ended, and the principal that opened it."""
        self._on_end.append(call)

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Serve sessions within this context; all of them end with it."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()
                for session in self._sessions.values():
                    if session.end is not None:
                        session.end.cancel()
                self._sessions.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if header_of(scope, _VERSION) not in SESSION_VERSIONS:
            await self._app(scope, receive, send)
            return
        named = header_of(scope, _SESSION)
        if named is None:
            await self._open(scope, receive, send)
            return
        session = self._sessions.get(named)
        if session is not None and session.owner == _owner_of(scope):
            await self._serve(session, scope, receive, send)
            return
        if session is not None:
            logger.warning("a request for the session of another user is refused: the credential does not match")
        # The SDK answers as for a session that does not exist.
        await self._app(scope, receive, send)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that opens a session; one that is refused leaves none."""
        if len(self._sessions) >= DEFAULT_MAX_SESSIONS:
            logger.warning("a session is refused: %d are open", len(self._sessions))
            error = {"code": INTERNAL_ERROR, "message": "Too many open sessions"}
            await JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 503)(scope, receive, send)
            return
        session = _Session(uuid4().hex, _owner_of(scope), principal_of_scope(scope))
        self._sessions[session.id] = session
        is_open = False

        async def noting(message: Message) -> None:
            nonlocal is_open
            is_open = is_open or (message["type"] == "http.response.start" and message["status"] < _ERROR)
            await send(message)

        try:
            await self._serve(session, scope, receive, noting)
        finally:
            if not is_open:
                await self._discard(session)

    async def _serve(self, session: _Session, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of a session, which is woken for it."""
        service = self._woken(session)
        with service.used(self._awake):
            await service.started.wait()
            await service.transport.handle_request(scope, receive, send)
        if service.transport.is_terminated:
            await self._discard(session)

    def _woken(self, session: _Session) -> _Service:
        service = session.service
        if service is not None and not service.scope.cancel_called:
            return service
        if self._tasks is None:
            raise RuntimeError("sessions are not being served")
        if session.end is not None:
            session.end.cancel()
            session.end = None
        transport = StreamableHTTPServerTransport(
            session.id, is_json_response_enabled=not self._streams, security_settings=self._security
        )
        service = session.service = _Service(transport)
        self._tasks.start_soon(self._run, session, service)
        return service

    async def _run(self, session: _Session, service: _Service) -> None:
        """Serve a session until it falls asleep or ends."""
        has_failed = False
        try:
            async with service.transport.connect() as (read_stream, write_stream):
                # As the SDK does it: a client may send further requests before `initialize` is answered.
                dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
                    read_stream, write_stream, inline_methods=frozenset({_INITIALIZE})
                )
                service.started.set()
                with service.scope:
                    await self._exchange(session, service, dispatcher)
        except Exception:
            has_failed = True
            logger.exception("a session failed")
        finally:
            service.started.set()
            self._left(session, service, has_failed=has_failed)

    async def _exchange(
        self, session: _Session, service: _Service, dispatcher: JSONRPCDispatcher[TransportContext]
    ) -> None:
        """Exchange messages with the client of a session, as it was when the session fell asleep."""
        connection = Connection.for_loop(dispatcher, session_id=session.id)
        if session.client is not None:
            connection.client_params, connection.protocol_version = session.client, session.version
        if session.initialized:
            connection.initialized.set()
        runner = ServerRunner(self._server, connection, {})

        async def on_request(
            context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
        ) -> dict[str, Any]:
            session.confirmed = session.confirmed or method != _INITIALIZE
            with service.used(self._awake):
                result = await runner.on_request(context, method, params)
            if method == _INITIALIZE and connection.client_params is not None:
                session.client, session.version = _shared(connection.client_params), connection.protocol_version
            return result

        async def on_notify(
            context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
        ) -> None:
            session.confirmed = True
            session.initialized = session.initialized or method == _INITIALIZED
            with service.used(self._awake):
                await runner.on_notify(context, method, params)

        try:
            await dispatcher.run(on_request, on_notify)
        finally:
            await aclose_shielded(connection)

    def _left(self, session: _Session, service: _Service, *, has_failed: bool) -> None:
        """Note that a session is not served any longer."""
        is_open = session.id in self._sessions
        if is_open and session.service is not service:
            return  # it was woken meanwhile
        session.service = None
        seconds = session.seconds(self._idle) - self._awake
        if not is_open:
            self._ended(session)
        elif has_failed or seconds <= 0:
            self._expire(session)
        else:
            # In the context of the task, the timer would keep a request of the client in memory.
            loop = asyncio.get_running_loop()
            session.end = loop.call_later(seconds, self._expire, session, context=self._context)

    def _expire(self, session: _Session) -> None:
        """End a session that is asleep."""
        logger.debug("a session ends: its client has not used it")
        self._sessions.pop(session.id, None)
        self._ended(session)

    async def _discard(self, session: _Session) -> None:
        """End a session that may be awake."""
        self._sessions.pop(session.id, None)
        if session.service is None:
            self._ended(session)
        else:
            # What serves the session ends with its streams, and notes that then.
            with anyio.CancelScope(shield=True):
                await session.service.transport.terminate()

    def _ended(self, session: _Session) -> None:
        for call in self._on_end:
            call(session.id, session.principal)


def _owner_of(scope: Scope) -> AuthorizationContext | None:
    """Return what requests of one session have in common where there is a login, as the SDK compares it."""
    user = scope.get("user")
    return authorization_context(user) if isinstance(user, AuthenticatedUser) else None


def _shared(client: InitializeRequestParams) -> InitializeRequestParams:
    """Return what a client said about itself, in one object for the sessions of equal clients."""
    text = client.model_dump_json(by_alias=True, exclude_none=True)
    shared = _parsed(text) if len(text) <= _MAX_SHARED else client
    return shared if shared == client else client


@lru_cache(256)
def _parsed(client: str) -> InitializeRequestParams:
    return InitializeRequestParams.model_validate_json(client, by_name=False)
