"""The requests that an exchange is attached to, of this server or passed on by another replica, and who sent them.

Only the same caller may resume an exchange.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import mcp_types as types
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import principal_components
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict

from server.access.roles import profile_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.context import ServerRequestContext
    from starlette.requests import Request

    Question = types.CreateMessageRequest | types.ElicitRequest | types.ListRootsRequest


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request.

    `modern` is the protocol era, `session` the session id of the handshake era over HTTP, `principal` the user of a
    login, and `profile` the one that the request was sent to. Only their resume tokens, which cannot be guessed,
    distinguish clients with equal values.
    """

    modern: bool
    session: str | None = None
    principal: str | None = None
    profile: str | None = None

    def __str__(self) -> str:
        """Return a text that is equal only for equal callers."""
        profile = () if self.profile is None else (self.profile,)
        return json.dumps([self.modern, self.session, self.principal, *profile])


def caller_of(ctx: ServerRequestContext[Any, Any]) -> Caller:
    """Return the caller of a request."""
    token = get_access_token()
    principal = None if token is None else json.dumps(principal_components(token))
    return Caller(ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS, session_of(ctx), principal, profile_of(ctx))


def session_of(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Return the session id of a request over HTTP; the modern era has none."""
    if ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
        return None
    session: str | None = getattr(ctx.request, "headers", {}).get("mcp-session-id")
    return session


class _RawAnswer(BaseModel):
    """An answer before validation."""

    model_config = ConfigDict(extra="allow")


class AttachedRequest(Protocol):
    """What an exchange uses of the request that waits for its response."""

    @property
    def tool(self) -> str:
        """The tool that the request calls."""
        ...

    @property
    def capabilities(self) -> types.ClientCapabilities:
        """What the client can be asked; nothing if the request's connection cannot carry questions."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether the connection to the client broke on the way, so that the client may repeat the request."""
        ...

    async def report_progress(self, done: float, total: float | None, message: str) -> None:
        """Notify the client of progress if its request asks for that."""
        ...

    async def send_question(self, question: Question) -> Mapping[str, Any]:
        """Send a request of the server on the stream of this request, and return the answer as it comes.

        Raises:
            MCPError: the client refused, or the connection is closed or cannot carry requests of the server.
            pydantic.ValidationError: the answer is no result.
        """
        ...

    async def until_closed(self) -> None:
        """Wait until the client can no longer receive the response."""
        ...


class ClientRequest:
    """A request that this server received itself."""

    is_lost = False

    def __init__(self, ctx: ServerRequestContext[Any, Any], *, modern: bool) -> None:
        """Take a request of the `modern` era or the handshake era."""
        self._ctx = ctx
        self._modern = modern

    @property
    def tool(self) -> str:
        """The tool that the request calls."""
        name: str = (self._ctx.params or {}).get("name", "")
        return name

    @property
    def capabilities(self) -> types.ClientCapabilities:
        """What the client declares, if it can be asked at all."""
        reachable = self._modern or self._ctx.session.can_send_request
        declared = self._ctx.session.client_capabilities if reachable else None
        return declared or types.ClientCapabilities()

    async def report_progress(self, done: float, total: float | None, message: str) -> None:
        """Notify the client of progress if its request asks for that."""
        await self._ctx.session.report_progress(done, total, message)

    async def send_question(self, question: Question) -> Mapping[str, Any]:
        """Send a request of the server; the handshake era alone knows these."""
        # The attached request says on which stream the question goes.
        where = ServerMessageMetadata(related_request_id=self._ctx.request_id)
        answer = await self._ctx.session.send_request(question, _RawAnswer, metadata=where)
        return answer.model_dump()

    async def until_closed(self) -> None:
        """Wait until the client closes its HTTP request; over stdio the connection is closed as a whole."""
        request: Request | None = self._ctx.request
        if request is None:
            await anyio.sleep_forever()
            return
        # The SDK does not watch the connection of a plain JSON response.
        while (await request.receive())["type"] != "http.disconnect":
            pass
