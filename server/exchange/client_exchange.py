"""A piece of work's way to its client: what it asks in the middle of a tool call, and how the answers come back.

In the handshake era a question is a request of the server on the client's connection. In the modern one it is left
here, goes out as the result of the client's request, and is answered by the next one. The work does not see the
difference: it waits in a task of the server's own, while requests of the client come and go.
"""

from __future__ import annotations

import itertools
import math
import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel, ConfigDict, ValidationError

from server.exchange.errors import (
    CannotAskError,
    ClientRefusedError,
    ClientSilentError,
    UnusableAnswerError,
)
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Mapping

    from mcp.server.context import ServerRequestContext

    from server.exchange.callers import Caller
    from server.exchange.limits import ExchangeLimits
    from skills_core.run.ports import Progress

    Request = types.CreateMessageRequest | types.ElicitRequest | types.ListRootsRequest
    Answer = types.CreateMessageResultWithTools | types.ElicitResult | types.ListRootsResult
    Work = Callable[["ClientExchange"], Awaitable[dict[str, Any]]]

__all__ = ["ClientExchange", "Question"]

_MAX_MESSAGE = 200
# Characters of a progress message.

_TELL_SECONDS = 1.0
# A client that does not read what it is told of progress misses it.

_ANSWERS: dict[str, type[BaseModel]] = {
    "sampling/createMessage": types.CreateMessageResultWithTools,
    "elicitation/create": types.ElicitResult,
    "roots/list": types.ListRootsResult,
}


class _Raw(BaseModel):
    """An answer as it came."""

    model_config = ConfigDict(extra="allow")


@dataclass(slots=True, eq=False)
class Question:
    """Something that the client is asked by the result of its request."""

    request: Request
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: object = None


@dataclass(slots=True, eq=False)
class _Consent:
    """Something that the user agrees to by a further call of the tool, or not."""

    question: str
    settled: anyio.Event = field(default_factory=anyio.Event)
    agreed: bool = False


class ClientExchange:
    """The way to one client for one piece of work.

    The work asks, waits for consent and reports; whoever answers the client's requests lets them visit.
    """

    def __init__(self, caller: Caller, limits: ExchangeLimits) -> None:
        """Be there for `caller`."""
        self.caller = caller
        self.token = secrets.token_urlsafe(32)
        self.outcome: dict[str, Any] | None = None
        self.fault: Exception | None = None
        self.over = False
        self.why = ""
        self.questions: dict[str, Question] = {}
        self._limits = limits
        self._scope = anyio.CancelScope()
        self._visit: ServerRequestContext[Any, Any] | None = None
        self._arrived = anyio.Event()
        self._turn = anyio.Event()
        self._sent = 0
        self._gone = False
        self._numbers = itertools.count(1)
        self._consent: _Consent | None = None
        self._consenting = anyio.Lock()
        self._capabilities = types.ClientCapabilities()

    # What the work does

    @property
    def can_sample(self) -> bool:
        """Whether the client lets its model answer."""
        return self._capabilities.sampling is not None

    @property
    def can_sample_with_tools(self) -> bool:
        """Whether the client lets its model call tools when it answers."""
        return self._capabilities.sampling is not None and self._capabilities.sampling.tools is not None

    @property
    def can_elicit(self) -> bool:
        """Whether the client asks its user to fill in a form."""
        declared = self._capabilities.elicitation
        # A client that names no mode means forms, as before there were others.
        return declared is not None and (declared.form is not None or declared.url is None)

    @overload
    async def ask(self, request: types.CreateMessageRequest) -> types.CreateMessageResultWithTools: ...

    @overload
    async def ask(self, request: types.ElicitRequest) -> types.ElicitResult: ...

    @overload
    async def ask(self, request: types.ListRootsRequest) -> types.ListRootsResult: ...

    async def ask(self, request: Request) -> Answer:
        """Return the client's answer.

        Raises:
            CannotAskError: the client did not declare that it can be asked this, or there is no way to it.
            ClientRefusedError: it answered with an error.
            UnusableAnswerError: what it answered is no answer to this.
            ClientSilentError: it is gone, or did not answer in time.
        """
        self._check(request)
        raw = await (self._leave(request) if self.caller.modern else self._send(request))
        try:
            answer: Any = _ANSWERS[request.method].model_validate(raw, by_name=False)
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the whole"
            raise UnusableAnswerError(request.method, f"{where}: {error.errors()[0]['msg']}") from None
        found: Answer = answer
        return found

    async def consent(self, question: str) -> bool:
        """Return whether the user agrees, which the client says by a further call of the tool."""
        async with self._consenting:
            self._consent = consent = _Consent(question)
            self._turn.set()
            try:
                await consent.settled.wait()
            finally:
                self._consent = None
            return consent.agreed

    async def report(self, progress: Progress) -> None:
        """Tell the client how far the work has come, if a request of it is there and asked for it."""
        if self._visit is None:
            return
        total = None if progress.total is None else float(progress.total)
        with anyio.move_on_after(_TELL_SECONDS):
            message = one_line(progress.message)[:_MAX_MESSAGE]
            await self._visit.session.report_progress(float(progress.done), total, message)

    # What whoever answers the client's requests does

    async def perform(self, work: Work) -> None:
        """Do the work, and note what it came to. Nothing is raised."""
        try:
            with self._scope:
                self.outcome = await work(self)
            if self._scope.cancelled_caught and not self.why:
                self.why = "nobody came back for it in time"
        except Exception as error:  # noqa: BLE001 - it is raised for the request that waits for the outcome
            self.fault = error
        finally:
            self.over = True
            self._turn.set()

    def end(self, why: str) -> None:
        """Cancel the work; the first `why` is what its client is told."""
        self.why = self.why or why
        self._scope.cancel()

    def hang_up(self) -> None:
        """Take note that the client will answer nothing any more."""
        self._gone = True
        if self.questions or self._sent or self._consent or not self.is_visited:
            self.end("the client is gone")

    @property
    def is_visited(self) -> bool:
        """Whether a request of the client is there."""
        return self._visit is not None

    @property
    def awaits_consent(self) -> str | None:
        """What the user is to agree to by a further call, None where there is nothing."""
        return self._consent.question if self._consent is not None else None

    @contextmanager
    def visited(self, ctx: ServerRequestContext[Any, Any]) -> Generator[None]:
        """Let a request be there; without one, the work is ended after a while."""
        self._visit = ctx
        reachable = self.caller.modern or ctx.session.can_send_request
        declared = ctx.session.client_capabilities if reachable else None
        self._capabilities = declared or types.ClientCapabilities()
        self._scope.deadline = math.inf
        self._arrived.set()
        try:
            yield
        finally:
            self._visit = None
            self._arrived = anyio.Event()
            self._scope.deadline = anyio.current_time() + self._limits.parked

    async def until_turn(self) -> None:
        """Wait until the request that is there has to be answered: the work is over, or cannot go on otherwise."""
        while not self.over:
            if self.questions:
                await anyio.sleep(self._limits.gather)
                if self.questions:
                    return
            elif self._consent is not None and not self._sent:
                return
            else:
                self._turn = anyio.Event()
                await self._turn.wait()

    def deliver(self, answers: Mapping[str, object]) -> None:
        """Hand over answers to what was asked; what was not asked is ignored."""
        for key, answer in answers.items():
            if question := self.questions.pop(key, None):
                question.answer = answer
                question.answered.set()

    def settle(self, *, agreed: bool) -> None:
        """Record what the user has decided."""
        if self._consent is not None:
            self._consent.agreed = agreed
            self._consent.settled.set()
            self._consent = None

    def _check(self, request: Request) -> None:
        declared = {
            "sampling/createMessage": self.can_sample,
            "elicitation/create": self.can_elicit,
            "roots/list": self._capabilities.roots is not None,
        }
        if not declared[request.method]:
            raise CannotAskError(request.method, "it did not declare that it can, or there is no way to it")
        if self._gone:
            raise ClientSilentError(request.method, "the client is gone")

    async def _leave(self, request: Request) -> object:
        key, question = f"q{next(self._numbers)}", Question(request)
        self.questions[key] = question
        self._turn.set()
        try:
            await question.answered.wait()
        finally:
            self.questions.pop(key, None)
        return question.answer

    async def _send(self, request: Request) -> object:
        while self._visit is None:
            await self._arrived.wait()
        visit, method = self._visit, request.method
        self._sent += 1
        try:
            # The request that is there says on which stream a question goes.
            where = ServerMessageMetadata(related_request_id=visit.request_id)
            with anyio.fail_after(self._limits.answer):
                answer = await visit.session.send_request(request, _Raw, metadata=where)
            return answer.model_dump()
        except NoBackChannelError:
            raise CannotAskError(method, "its connection has no way for requests of the server") from None
        except TimeoutError:
            raise ClientSilentError(method, f"no answer within {self._limits.answer:g} seconds") from None
        except ValidationError:
            raise UnusableAnswerError(method, "it is no result of this request") from None
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                raise ClientSilentError(method, "the client is gone") from None
            raise ClientRefusedError(method, error.code, error.message) from None
        finally:
            self._sent -= 1
            self._turn.set()
