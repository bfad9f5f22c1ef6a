"""The requests of an exchange: who sent them, what they resume, and the responses that ask for a further one.

Only the same caller may resume an exchange. A resume token of a replica names the replica: `NAME:TOKEN`. A client of
the modern era may bring it to any of them. The tokens of a server on its own have no name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
import mcp_types as types
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import principal_components
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict

from server.access import profile_of
from server.listing.envelope import text_block, tool_result
from server.wire.params import CONFIRM, CONTINUE

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.request_state import RequestStateBoundary
    from starlette.requests import Request

    QuestionRequest = types.CreateMessageRequest | types.ElicitRequest


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

    async def send_question(self, question: QuestionRequest) -> Mapping[str, Any]:
        """Send a request of the server on the stream of this request, and return the answer as it comes.

        Raises:
            MCPError: the client refused, or the connection is closed or cannot carry requests of the server.
            pydantic.ValidationError: the answer is not a result.
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

    async def send_question(self, question: QuestionRequest) -> Mapping[str, Any]:
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


_NAMED: Final = re.compile(r"([0-9a-f]{16}):(.*)", re.DOTALL)
# A model may write anything into a token, and the name becomes part of a channel's.


class ResumeKind(StrEnum):
    """Which kind of token a call brings back."""

    STATE = "requestState"
    """A `requestState`, with the client's answers."""
    CONTINUE = CONTINUE
    """The argument by which the client's model continues the run, without the user's consent."""
    CONFIRM = CONFIRM
    """The argument by which the client's model says that the user agrees."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """A token, the replica that issued it (empty for a server on its own), and the answers that a state comes with."""

    kind: ResumeKind
    replica: str
    token: str
    answers: Mapping[str, object] = field(default_factory=dict)


class OtherReplicas(Protocol):
    """The way to exchanges of other replicas; `name` is that of this one."""

    @property
    def name(self) -> str:
        """The name of this replica: 16 hexadecimal digits."""
        ...

    async def resume(self, caller: Caller, resumption: Resumption, request: AttachedRequest) -> dict[str, Any]:
        """Resume an exchange where it is, and return the response to the request.

        Raises:
            SkillsError: there is nothing to resume, the replica cannot be reached, or the work failed.
        """
        ...


def named_token(replica: str, token: str) -> str:
    """Return a token as clients receive it."""
    return f"{replica}:{token}" if replica else token


def resumption_of(params: Mapping[str, Any], arguments: Mapping[str, Any]) -> Resumption | None:
    """Return what the parameters and `arguments` of a tool call resume, None if the call begins something."""
    state = params.get("requestState")
    if isinstance(state, str):
        return Resumption(ResumeKind.STATE, *_parted(state), params.get("inputResponses") or {})
    for kind in (ResumeKind.CONFIRM, ResumeKind.CONTINUE):
        if token := arguments.get(kind):
            return Resumption(kind, *_parted(str(token)))
    return None


def _parted(text: str) -> tuple[str, str]:
    found = _NAMED.fullmatch(text)
    return ("", text) if found is None else (found[1], found[2])


def input_required(questions: Mapping[str, QuestionRequest], request_state: str) -> dict[str, Any]:
    """Ask the client, which makes the same call again with its answers and the state."""
    requests = {
        key: question.model_dump(by_alias=True, mode="json", exclude_none=True) for key, question in questions.items()
    }
    return {"resultType": "input_required", "inputRequests": requests, "requestState": request_state}


def not_finished(tool: str, token: str, seconds: float) -> dict[str, Any]:
    """Ask the client's model to call again, because the client may not be asked more often in one call."""
    text = (
        "The run has not finished: it has asked this client as many times as one call allows. To continue, call "
        f'{tool} with {{"{CONTINUE}": "{token}"}} within {seconds:g} seconds.'
    )
    structured = {"status": "not_finished", CONTINUE: token}
    return {**tool_result([text_block(text)]), "structuredContent": structured}


def needs_consent(tool: str, question: str, yes: str, no: str, seconds: float) -> dict[str, Any]:
    """Ask the client's model to get the user's consent and to call again with the token for the answer."""
    text = (
        f"The run needs the user's consent. Show the user the following and ask; do not decide it yourself.\n\n"
        f"{question}\n\n"
        f'If the user agrees, call {tool} with {{"{CONFIRM}": "{yes}"}}. If not, call it with '
        f'{{"{CONTINUE}": "{no}"}}. The run waits {seconds:g} seconds.'
    )
    structured = {"status": "needs_consent", "question": question, CONFIRM: yes, CONTINUE: no}
    return {**tool_result([text_block(text)]), "structuredContent": structured}


_REASON = "invalid_request_state"


class SealedState:
    """Seals the state of each `input_required` result, and opens the state of each request.

    It uses the SDK's boundary with the given keys, or with one of this process. The boundary imports a cipher, so it is
    made on first use.
    """

    def __init__(self, audience: str, seconds: float, keys: Sequence[str] = ()) -> None:
        """Seal for `audience`; a state is valid for `seconds`. The first of the keys seals, all of them open."""
        self._keys = [*keys]
        self._audience = audience
        self._seconds = seconds
        self._created: RequestStateBoundary | None = None

    async def seal(self, ctx: ServerRequestContext[Any, Any], result: HandlerResult) -> HandlerResult:
        """Return an `input_required` result with its state sealed."""

        async def answered(_: ServerRequestContext[Any, Any]) -> HandlerResult:
            return result

        return await self._boundary()(ctx, answered)

    async def open(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass on a request that carries a state, with its state open, and seal that of its result.

        Raises:
            MCPError: the state is not one of this request.
        """
        try:
            return await self._boundary()(ctx, call_next)
        except MCPError as error:
            if not isinstance(error.data, dict) or error.data.get("reason") != _REASON:
                raise
            why = "it belongs to another call, another client or another process of this server, or is too old"
            raise MCPError(
                error.code, f"{error.message}: {why}. Start the call again without it.", error.data
            ) from None

    def _boundary(self) -> RequestStateBoundary:
        if self._created is None:
            from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

            if self._keys:
                security = RequestStateSecurity(keys=[*self._keys], ttl=self._seconds)
            else:
                security = RequestStateSecurity.ephemeral(ttl=self._seconds)
            security.bind_principal = lambda ctx: str(caller_of(ctx))
            self._created = RequestStateBoundary(security, default_audience=self._audience)
        return self._created
