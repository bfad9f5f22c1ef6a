"""The exchanges of one server: their tasks, and the tokens by which clients come back to them.

A tool call begins an exchange and is answered when its work is over. Where the work needs input before, the response
holds one of two kinds of resume token:

- A `requestState` goes with questions for the client in the modern era. The client makes the same call again with this
  state and its answers.
- A `continue` or `confirm` argument is for the client's model. It makes a further call: because the client was asked
  as often as one call allows, or to say whether the user agrees where the client has no forms.

An exchange is stopped when its client cancels or closes its request, disconnects, or does not come back in time.

Exchanges are in the memory of one process. A call that resumes one of another replica is passed on to that replica. If
a request is lost on this way, the exchange goes on without one, and the client may repeat it.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from server.conversation.client_exchange import ClientExchange, ConsentQuestion, ExchangeLimits
from server.conversation.client_requests import (
    AttachedRequest,
    Caller,
    ClientRequest,
    OtherReplicas,
    ResumeKind,
    Resumption,
    caller_of,
    input_required,
    named_token,
    needs_consent,
    not_finished,
    resumption_of,
)
from server.conversation.errors import RunEndedError
from server.conversation.lifecycle import ATTACHED, ENDED, OVER, ExchangeState
from server.requests import NOTES, Notes, RequestReason, adopt, note_denied

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from mcp.server.context import ServerRequestContext

    from server.conversation.client_exchange import Work


logger = logging.getLogger(__name__)

_START_AGAIN = "start again with a call without it"


@dataclass(slots=True, eq=False)
class _OpenExchange:
    """An exchange, and the numbers of its responses with questions: of the latest, and of the latest with answers.

    `notes` are those on the request that began it.
    """

    exchange: ClientExchange
    asked: int = 0
    answered: int = 0
    asked_in_call: int = 0
    notes: Notes | None = field(default_factory=NOTES.get)


@dataclass(frozen=True, slots=True)
class _ModelToken:
    """What a `continue` or `confirm` token resumes, the question that it answers, and whether the user agrees by it."""

    entry: _OpenExchange
    question: ConsentQuestion | None = None
    agrees: bool = False


class ExchangeRegistry:
    """Owns the exchanges of one server, their tasks and their resume tokens."""

    def __init__(self, limits: ExchangeLimits | None = None) -> None:
        """Keep to `limits`; work is accepted while `serving` is entered."""
        self.limits = limits or ExchangeLimits()
        self._tasks: TaskGroup | None = None
        self._entries: dict[str, _OpenExchange] = {}
        self._model_tokens: dict[str, _ModelToken] = {}
        self._others: OtherReplicas | None = None

    def join(self, others: OtherReplicas) -> None:
        """Be the registry of one replica among `others`; call this before the first exchange begins."""
        self._others = others

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Accept work within the block, and cancel all of it at the end."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()

    @property
    def is_busy(self) -> bool:
        """Whether any exchange has not ended."""
        return bool(self._entries)

    def stop_all(self, reason: str) -> None:
        """Cancel all work; the attached requests are answered with `reason`."""
        for entry in [*self._entries.values()]:
            entry.exchange.stop(reason)

    def client_disconnected(self) -> None:
        """Stop whatever waits for the only client of the connection, which sends no more messages."""
        for entry in [*self._entries.values()]:
            entry.exchange.client_disconnected()

    async def handle_call(
        self, ctx: ServerRequestContext[Any, Any], arguments: Mapping[str, Any], work: Work
    ) -> dict[str, Any]:
        """Return the result of a tool call: the outcome of its work, or a response that asks for input.

        The call resumes an exchange if the request has a `requestState`, or `arguments` a `continue` or `confirm`;
        otherwise it begins one with `work`. What the work raises is raised.

        Raises:
            RunEndedError: there is nothing to resume, or no work can begin.
        """
        caller = caller_of(ctx)
        request = ClientRequest(ctx, modern=caller.modern)
        resumption = resumption_of(ctx.params or {}, arguments)
        if resumption is None:
            return await self._attend(self._begin(caller, work), request)
        # The handshake era needs no other replica: a session stays at the one that opened it.
        if self._others is not None and caller.modern and resumption.replica not in {"", self._others.name}:
            return await self._others.resume(caller, resumption, request)
        return await self.resume(caller, resumption, request)

    async def resume(self, caller: Caller, resumption: Resumption, request: AttachedRequest) -> dict[str, Any]:
        """Return the response to a request that resumes an exchange of this registry.

        Raises:
            RunEndedError: there is nothing to resume.
        """
        if resumption.kind is ResumeKind.STATE:
            entry = self._resume_by_state(resumption, caller)
        else:
            entry = self._resume_by_model_token(resumption, caller)
        return await self._attend(entry, request)

    async def _attend(self, entry: _OpenExchange, request: AttachedRequest) -> dict[str, Any]:
        try:
            return await self._respond(request, entry)
        finally:
            adopt(entry.notes)

    # The life of an exchange

    def _begin(self, caller: Caller, work: Work) -> _OpenExchange:
        if self._tasks is None:
            raise RunEndedError("the server accepts no runs: it is starting or stopping")
        if len(self._entries) >= self.limits.concurrent:
            raise RunEndedError(f"the server already has {self.limits.concurrent} runs, its limit; try again later")
        self._check_principal(caller)
        exchange = ClientExchange(caller, self.limits)
        entry = self._entries[exchange.id] = _OpenExchange(exchange)
        self._tasks.start_soon(self._perform, entry, work)
        return entry

    def _check_principal(self, caller: Caller) -> None:
        """Refuse a run too many of one user, who would otherwise leave none to the others."""
        most = self.limits.concurrent_per_principal
        if caller.principal is None or not most:
            return
        if sum(entry.exchange.caller.principal == caller.principal for entry in self._entries.values()) >= most:
            note_denied(RequestReason.LIMIT)
            why = "those that wait for their client included; continue or cancel one, or try again later"
            raise RunEndedError(f"you already have {most} runs, the most of one user at a time, {why}")

    async def _perform(self, entry: _OpenExchange, work: Work) -> None:
        exchange = entry.exchange
        try:
            await exchange.perform(work)
            if exchange.was_cancelled:
                logger.info("a run was ended: %s", exchange.stop_reason)
            with anyio.move_on_after(self.limits.resume_seconds):
                await exchange.until_ended()
        finally:
            exchange.expire()
            if exchange.state is ExchangeState.DISCARDED and exchange.error is not None:
                logger.error("a run failed, and its client did not come back for the error", exc_info=exchange.error)
            del self._entries[exchange.id]
            self._revoke_model_tokens(entry)

    def _resume_by_state(self, resumption: Resumption, caller: Caller) -> _OpenExchange:
        """Find the exchange of a `requestState`, and pass the answers on."""
        exchange_id, _, number = resumption.token.partition(".")
        entry = self._entries.get(exchange_id)
        if entry is None or not _is_resumable(entry, caller):
            raise RunEndedError(f"the run of this requestState has ended, or is not on this server; {_START_AGAIN}")
        if entry.exchange.state in ATTACHED:
            raise RunEndedError("another request with this requestState is still in progress")
        awaits_answers = entry.answered < entry.asked
        if awaits_answers and number == str(entry.asked):
            entry.answered = entry.asked
            entry.exchange.answer_questions(resumption.answers)
        elif number != str(entry.answered):
            raise RunEndedError("this requestState was used before; use the one of the latest response")
        # Otherwise the client sends its last answers again: it did not receive the response to them.
        return entry

    def _resume_by_model_token(self, resumption: Resumption, caller: Caller) -> _OpenExchange:
        """Find the exchange of a `continue` or `confirm` token, which is good for one call."""
        token, agrees = self._model_tokens.get(resumption.token), resumption.kind is ResumeKind.CONFIRM
        if token is None or token.agrees != agrees or not _is_resumable(token.entry, caller):
            why = "the token was used, or its run has ended or is not on this server"
            raise RunEndedError(f"no run waits for this {resumption.kind}: {why}; {_START_AGAIN}")
        entry, exchange = token.entry, token.entry.exchange
        if exchange.state in ATTACHED:
            raise RunEndedError("another request for this run is still in progress")
        self._revoke_model_tokens(entry)
        entry.asked_in_call = 0
        if token.question is not None:
            decision = "agrees" if agrees else "declines"
            logger.info("a call says that the user %s", decision)
            exchange.answer_consent(token.question, agreed=agrees)
        return entry

    # The response to a request

    async def _respond(self, request: AttachedRequest, entry: _OpenExchange) -> dict[str, Any]:
        """Attach a request until it has to be answered; if it is cancelled or closed, stop the work."""
        exchange = entry.exchange
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_stop_when_closed, request, exchange)
                with exchange.attached(request):
                    await exchange.until_response_due()
                    question = None if exchange.state in OVER else self._ask_for_input(entry, request.tool)
                tasks.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():
            if not request.is_lost:
                exchange.stop("its client cancelled it")
            raise
        return exchange.result() if question is None else question

    def _ask_for_input(self, entry: _OpenExchange, tool: str) -> dict[str, Any]:
        exchange, seconds = entry.exchange, self.limits.resume_seconds
        if exchange.questions and entry.asked_in_call < self.limits.questions_per_call:
            if entry.answered == entry.asked:
                entry.asked += 1
                entry.asked_in_call += 1
            requests = {key: question.request for key, question in exchange.questions.items()}
            return input_required(requests, self._named(f"{exchange.id}.{entry.asked}"))
        if (question := exchange.consent) is not None:
            yes = self._issue(_ModelToken(entry, question, agrees=True))
            no = self._issue(_ModelToken(entry, question))
            return needs_consent(tool, question.text, yes, no, seconds)
        return not_finished(tool, self._issue(_ModelToken(entry)), seconds)

    def _issue(self, token: _ModelToken) -> str:
        text = secrets.token_urlsafe(32)
        self._model_tokens[text] = token
        return self._named(text)

    def _named(self, token: str) -> str:
        return named_token("" if self._others is None else self._others.name, token)

    def _revoke_model_tokens(self, entry: _OpenExchange) -> None:
        self._model_tokens = {text: token for text, token in self._model_tokens.items() if token.entry is not entry}


def _is_resumable(entry: _OpenExchange, caller: Caller) -> bool:
    return entry.exchange.caller == caller and entry.exchange.state not in ENDED


async def _stop_when_closed(request: AttachedRequest, exchange: ClientExchange) -> None:
    """Stop the work when the client closes its request, because it could not receive the outcome."""
    await request.until_closed()
    exchange.stop("its client closed the request")
