"""Serve profiles over HTTP: each at a path below the MCP endpoint, or at the endpoint itself by a header.

A request that names a profile is served with it or not at all. What names no profile of the server is answered like any
unknown path, and a session of the handshake era is unknown to requests for another profile than the one that opened it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

from server.access import PROFILE_KEY, ProfileFault

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from server.access import Profiles


PROFILE_HEADER: Final = "skillserve-profile"
"""The header that names a profile."""

NAMED_SESSION_KEY: Final = "skillserve.named_session"
"""The key in an ASGI scope of the session that a request names, where it is replaced by one that does not exist."""

_HEADER: Final = PROFILE_HEADER.encode()
_SESSION: Final = "mcp-session-id"
_ERROR: Final = 400


@dataclass(slots=True)
class _Session:
    """The profile that opened a session, when it was used last, and how many of its requests are in progress."""

    profile: str
    used: float
    running: int = 0


class ProfileSessions:
    """The sessions that profiles opened, as long as they can be used; all others belong to no profile."""

    def __init__(self, idle_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Forget sessions that were idle for so long; `clock` returns seconds and never runs back."""
        self._idle = idle_seconds
        self._clock = clock
        self._sessions: dict[str, _Session] = {}
        self._next_sweep = clock() + idle_seconds

    def __len__(self) -> int:
        """Return how many sessions are remembered."""
        return len(self._sessions)

    def opened(self, session: str, profile: str) -> None:
        """Note that a profile has opened a session."""
        now = self._clock()
        if now >= self._next_sweep:
            self._next_sweep = now + self._idle
            kept = {key: each for key, each in self._sessions.items() if each.running or now < each.used + self._idle}
            self._sessions = kept
        self._sessions[session] = _Session(profile, now)

    def belongs(self, session: str, profile: str | None) -> bool:
        """Tell whether requests for a profile, or for none, may use a session."""
        found = self._sessions.get(session)
        return (None if found is None else found.profile) == profile

    @contextmanager
    def used(self, session: str) -> Iterator[None]:
        """Remember a session while one of its requests is in progress."""
        found = self._sessions.get(session)
        if found is None:
            yield
            return
        found.running += 1
        try:
            yield
        finally:
            found.running -= 1
            found.used = self._clock()

    def ended(self, session: str) -> None:
        """Note that a client has ended a session."""
        self._sessions.pop(session, None)


class ProfileRoutes:
    """ASGI middleware around the whole application, which knows only the endpoint."""

    def __init__(
        self, app: ASGIApp, endpoint: str, profiles: Profiles, sessions: ProfileSessions, taken: Collection[str]
    ) -> None:
        """Serve `profiles` by the `endpoint` of `app`, except at the paths that other routes have `taken`."""
        self._app = app
        self._endpoint = endpoint
        self._base = endpoint.rstrip("/")
        self._profiles = profiles
        self._sessions = sessions
        paths = {f"{self._base}/{name}": name for name in profiles.names}
        self._paths = {path: name for path, name in paths.items() if path not in taken}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        in_path = self._paths.get(_plain_path(scope))
        in_headers = [value.decode("latin-1") for name, value in scope["headers"] if name == _HEADER]
        is_plain = not self._profiles.names and not in_headers
        if is_plain or (in_path is None and scope["path"] != self._endpoint):
            await self._app(scope, receive, send)
            return
        profile = self._profiles.choose(in_path, in_headers)
        match profile:
            case ProfileFault.AMBIGUOUS:
                await _AMBIGUOUS(scope, receive, send)
            case ProfileFault.UNKNOWN:
                # No route has two slashes in a row.
                path = f"{self._base}//{PROFILE_HEADER}"
                await self._app({**scope, "path": path, "raw_path": path.encode()}, receive, send)
            case _:
                inner = {**scope, "path": self._endpoint, "raw_path": self._endpoint.encode(), PROFILE_KEY: profile}
                await self._serve(inner, profile, receive, send)

    async def _serve(self, scope: Scope, profile: str | None, receive: Receive, send: Send) -> None:
        session = Headers(scope=scope).get(_SESSION)
        if session is None:
            await self._app(scope, receive, send if profile is None else self._noting(profile, send))
        elif not self._sessions.belongs(session, profile):
            # A session that cannot exist is answered as one that does not.
            headers = MutableHeaders(raw=[*scope["headers"]])
            headers[_SESSION] = secrets.token_hex(16)
            await self._app({**scope, "headers": headers.raw, NAMED_SESSION_KEY: session}, receive, send)
        else:
            with self._sessions.used(session):
                await self._app(scope, receive, self._ending(session, send) if scope["method"] == "DELETE" else send)

    def _noting(self, profile: str, send: Send) -> Send:
        async def noting(message: Message) -> None:
            if _is_success(message):
                opened = Headers(raw=message.get("headers", [])).get(_SESSION)
                if opened is not None:
                    self._sessions.opened(opened, profile)
            await send(message)

        return noting

    def _ending(self, session: str, send: Send) -> Send:
        async def ending(message: Message) -> None:
            if _is_success(message):
                self._sessions.ended(session)
            await send(message)

        return ending


def _plain_path(scope: Scope) -> str:
    """Return the path of a request; empty if it was encoded, so that no proxy reads it in another way."""
    path: str = scope["path"]
    return path if scope.get("raw_path", path.encode()) == path.encode() else ""


def _is_success(message: Message) -> bool:
    return message["type"] == "http.response.start" and int(message["status"]) < _ERROR


_AMBIGUOUS: Final = JSONResponse(
    {"error": "invalid_request", "error_description": "name one profile: in the path, or in one header"},
    _ERROR,
    {"Cache-Control": "no-store"},
)
