"""One exchange: the work of a tool call, the questions it asks its client, and the requests that bring the answers.

In the handshake era a question is a request of the server on the client's connection. In the modern era it goes out in
the response to the client's request, and the client's next request brings the answer. The work is the same for both:
it waits in a task of the server while the client's requests attach and detach. `lifecycle` has the states.
"""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError, NoBackChannelError
from pydantic import BaseModel, ValidationError

from server.conversation.errors import ExchangeError, RunEndedError, UnusableAnswerError
from server.conversation.lifecycle import ENDED, OVER, Event, ExchangeState, next_state
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from server.conversation.client_requests import AttachedRequest, Caller, QuestionRequest
    from skills_core.interaction import Progress

    Answer = types.CreateMessageResultWithTools | types.ElicitResult
    Work = Callable[["ClientExchange"], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ExchangeLimits:
    """Limits of the exchanges of one server."""

    resume_seconds: float = 600.0
    """How long an exchange waits for its client's next request before it is stopped."""
    answer_seconds: float = 600.0
    """How long a connected client has to answer a question; people have to read it."""
    gather_seconds: float = 0.02
    """How long a response waits for further questions, because parallel tool calls ask at about the same time."""
    questions_per_call: int = 8
    """Responses with questions in one tool call. The SDKs' clients give up after ten."""
    concurrent: int = 64
    """Exchanges at a time, including those that wait for their client."""
    concurrent_per_principal: int = 0
    """The same for each user of a login. With 0, only the limit of the server counts."""


_MAX_MESSAGE = 200
# Characters of a progress message.

_PROGRESS_SECONDS = 1.0
# A client that does not read its progress notifications misses them.

_ANSWERS: dict[str, type[BaseModel]] = {
    "sampling/createMessage": types.CreateMessageResultWithTools,
    "elicitation/create": types.ElicitResult,
}


@dataclass(slots=True, eq=False)
class Question:
    """A question that the client receives in the response to its request."""

    request: QuestionRequest
    closed: anyio.Event = field(default_factory=anyio.Event)
    answer: object = None


@dataclass(slots=True, eq=False)
class ConsentQuestion:
    """A question to the user that a further call of the tool answers; `agreed` is None without an answer."""

    text: str
    closed: anyio.Event = field(default_factory=anyio.Event)
    agreed: bool | None = None


class ClientExchange:
    """The work of one tool call and its client; `state` is where it is in its life.

    The work calls `ask`, `request_consent` and `report`; the registry attaches requests, passes answers on and stops
    the work. `consent` is the question that waits for a further call.
    """

    def __init__(self, caller: Caller, limits: ExchangeLimits) -> None:
        """Prepare an exchange with `caller`; `perform` does its work."""
        self.caller = caller
        self.id = secrets.token_urlsafe(32)
        self.questions: dict[str, Question] = {}
        self.error: Exception | None = None
        self.stop_reason = ""
        self._outcome: dict[str, Any] | None = None
        self.state = ExchangeState.UNATTENDED
        self._moved = anyio.Event()
        self._limits = limits
        self._scope = anyio.CancelScope()
        self._request: AttachedRequest | None = None
        self._capabilities = types.ClientCapabilities()
        self._client_is_gone = False
        self._in_flight = 0
        self._numbers = itertools.count(1)
        self.consent: ConsentQuestion | None = None
        self._consent_turn = anyio.Lock()

    def _move(self, event: Event) -> None:
        self.state = next_state(self.state, event)
        self._moved.set()
        self._moved = anyio.Event()

    # For the work

    @property
    def can_sample(self) -> bool:
        """Whether the client offers its model."""
        return self._capabilities.sampling is not None

    @property
    def can_sample_with_tools(self) -> bool:
        """Whether the client offers its model with tools."""
        return self._capabilities.sampling is not None and self._capabilities.sampling.tools is not None

    @property
    def can_elicit(self) -> bool:
        """Whether the client can show its user a form."""
        declared = self._capabilities.elicitation
        # A client that names no mode means forms, the only mode of older revisions.
        return declared is not None and (declared.form is not None or declared.url is None)

    @overload
    async def ask(self, request: types.CreateMessageRequest) -> types.CreateMessageResultWithTools: ...

    @overload
    async def ask(self, request: types.ElicitRequest) -> types.ElicitResult: ...

    async def ask(self, request: QuestionRequest) -> Answer:
        """Return the client's answer.

        Raises:
            UnusableAnswerError: the answer does not fit the question.
            ExchangeError: the client cannot be asked, refused, is gone, or did not answer in time.
        """
        self._check(request)
        raw = await (self._ask_by_response(request) if self.caller.modern else self._ask_by_request(request))
        try:
            answer: Any = _ANSWERS[request.method].model_validate(raw, by_name=False)
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the whole"
            why = f"its answer cannot be used: {where}: {error.errors()[0]['msg']}"
            raise UnusableAnswerError(request.method, why) from None
        found: Answer = answer
        return found

    async def request_consent(self, question: str) -> bool | None:
        """Return whether the user agrees, as a further call of the tool says; None if the exchange ends before."""
        async with self._consent_turn:
            if self.state in OVER:
                return None
            self.consent = consent = ConsentQuestion(question)
            self._update_state()
            try:
                await consent.closed.wait()
            finally:
                self.consent = None
                self._update_state()
            return consent.agreed

    async def report(self, progress: Progress) -> None:
        """Send a progress notification if a request is attached that asked for it."""
        if self._request is None:
            return
        total = None if progress.total is None else float(progress.total)
        with anyio.move_on_after(_PROGRESS_SECONDS):
            message = one_line(progress.message)[:_MAX_MESSAGE]
            await self._request.report_progress(float(progress.done), total, message)

    # For the registry: the work as a whole

    async def perform(self, work: Work) -> None:
        """Do the work and keep its outcome or its error; raise nothing but cancellation from outside."""
        try:
            with self._scope:
                self._outcome = await work(self)
        except Exception as error:  # noqa: BLE001 - `result` raises it for the request that waits for the outcome
            self.error = error
        finally:
            if self.was_cancelled:
                by_deadline = self._scope.cancelled_caught
                self.stop("its client did not come back in time" if by_deadline else "the server is stopping")
                self._move(Event.CANCELLED)
            else:
                self._move(Event.FINISH)
            self._close_questions()

    def stop(self, reason: str) -> None:
        """Cancel the work unless it is over; the client learns the first `reason`."""
        if self.state not in OVER:
            self.stop_reason = self.stop_reason or reason
            self._move(Event.STOP)
            self._scope.cancel()

    def client_disconnected(self) -> None:
        """Stop the work if it waits for the client, and let later questions fail."""
        self._client_is_gone = True
        if self.state is not ExchangeState.WORKING or self._in_flight:
            self.stop("the client is gone")

    def expire(self) -> None:
        """Discard an outcome that no request has come for."""
        if self.state is ExchangeState.UNCLAIMED:
            self._move(Event.EXPIRE)

    @property
    def was_cancelled(self) -> bool:
        """Whether the work, once it is over, has neither an outcome nor an error."""
        return self._outcome is None and self.error is None

    def result(self) -> dict[str, Any]:
        """Return the outcome of work that is over.

        Raises:
            RunEndedError: the work was cancelled.
            Exception: whatever the work raised.
        """
        if self.error is not None:
            raise self.error
        if self._outcome is None:
            raise RunEndedError(f"the run was ended: {self.stop_reason}")
        return self._outcome

    async def until_ended(self) -> None:
        """Wait until a request was answered with the outcome, or the outcome was discarded."""
        while self.state not in ENDED:
            await self._moved.wait()

    # For the registry: the client's requests

    @contextmanager
    def attached(self, request: AttachedRequest) -> Generator[None]:
        """Attach a request for the length of the block; then the deadline for the next request begins."""
        self._move(Event.ATTACH)
        self._request = request
        self._capabilities = request.capabilities
        self._scope.deadline = math.inf
        try:
            yield
        finally:
            self._request = None
            self._scope.deadline = anyio.current_time() + self._limits.resume_seconds
            self._move(Event.DETACH)

    async def until_response_due(self) -> None:
        """Wait until the attached request has to be answered: the work is over or needs input."""
        while self.state is not ExchangeState.FINISHED:
            if self.state is not ExchangeState.ASKING:
                await self._moved.wait()
                continue
            if self.questions:
                await anyio.sleep(self._limits.gather_seconds)
            if self.state is ExchangeState.ASKING:
                return

    def answer_questions(self, answers: Mapping[str, object]) -> None:
        """Pass the client's answers to the questions they belong to; ignore all others."""
        for key, answer in answers.items():
            if question := self.questions.pop(key, None):
                question.answer = answer
                question.closed.set()
        self._update_state()

    def answer_consent(self, question: ConsentQuestion, *, agreed: bool) -> None:
        """Pass the user's decision to the work, unless it has withdrawn this very question."""
        if self.consent is question:
            question.agreed = agreed
            question.closed.set()
            self.consent = None
            self._update_state()

    # How questions reach the client

    def _update_state(self) -> None:
        """Move to where the open questions say; a request on the client's connection is answered there."""
        if self.state not in OVER:
            consent_is_due = self.consent is not None and not self._in_flight
            self._move(Event.ASK if self.questions or consent_is_due else Event.PROCEED)

    def _close_questions(self) -> None:
        """Release callers outside the work's task that still wait for an answer."""
        for question in self.questions.values():
            question.closed.set()
        if self.consent is not None:
            self.consent.closed.set()

    def _check(self, request: QuestionRequest) -> None:
        if not (self.can_elicit if isinstance(request, types.ElicitRequest) else self.can_sample):
            why = "it did not declare this capability, or its connection cannot carry requests of the server"
            raise ExchangeError(request.method, why)
        if self._client_is_gone:
            raise ExchangeError(request.method, "the client is gone")
        self._check_open(request.method)

    def _check_open(self, method: str) -> None:
        if self.state in OVER:
            raise ExchangeError(method, "the call that could ask it is over")

    async def _ask_by_response(self, request: QuestionRequest) -> object:
        key, question = f"q{next(self._numbers)}", Question(request)
        self.questions[key] = question
        self._update_state()
        try:
            await question.closed.wait()
            if key in self.questions:
                self._check_open(request.method)
        finally:
            self.questions.pop(key, None)
            self._update_state()
        return question.answer

    async def _ask_by_request(self, request: QuestionRequest) -> object:
        method = request.method
        while self._request is None:
            self._check_open(method)
            await self._moved.wait()
        attached = self._request
        self._in_flight += 1
        self._update_state()
        try:
            with anyio.fail_after(self._limits.answer_seconds):
                return await attached.send_question(request)
        except NoBackChannelError:
            raise ExchangeError(method, "its connection cannot carry requests of the server") from None
        except TimeoutError:
            raise ExchangeError(method, f"no answer within {self._limits.answer_seconds:g} seconds") from None
        except ValidationError:
            raise UnusableAnswerError(method, "its answer cannot be used: it is not a result of this request") from None
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                raise ExchangeError(method, "the client is gone") from None
            raise ExchangeError(method, f"it refused ({error.code}): {error.message}") from None
        finally:
            self._in_flight -= 1
            self._update_state()
