"""The pieces of work that talk with clients: they live in tasks of the server's own, requests come and go.

A call of a tool begins a piece of work and is answered when it is over. In between the client may have to answer: in
the modern era the call's result then holds questions and a sealed state, and the same call comes again with answers
and state. After so many rounds, or where the user has to agree and the client cannot ask, the result is one for the
client's model instead: it says with which argument to call again. A piece of work that nobody comes back for is ended,
as is that of a client that cancels its request, closes it or goes away.
"""

from __future__ import annotations

import logging
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from server.exchange.callers import Caller, caller_of
from server.exchange.client_exchange import ClientExchange
from server.exchange.errors import RunEndedError
from server.exchange.limits import ExchangeLimits
from server.listing.envelope import text_block, tool_result
from server.listing.runs import CONFIRM, CONTINUE
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from anyio.abc import TaskGroup
    from mcp.server.context import ServerRequestContext
    from starlette.requests import Request

    from server.exchange.client_exchange import Work

__all__ = ["Exchanges"]

logger = logging.getLogger(__name__)

_BEGIN_AGAIN = "begin again by a call without it"


@dataclass(slots=True, eq=False)
class _Rounds:
    """How often a piece of work has asked by a result: `open` is the round whose answers are awaited, if one is.

    `told` is set when a request was answered with what the work came to.
    """

    exchange: ClientExchange
    last: int = 0
    in_call: int = 0
    open: int | None = None
    told: anyio.Event = field(default_factory=anyio.Event)


@dataclass(frozen=True, slots=True)
class _Ticket:
    """What the client's model was handed to go on with; `agrees` tells that it stands for consent."""

    rounds: _Rounds
    agrees: bool


class Exchanges:
    """All pieces of work of one server that talk with clients."""

    def __init__(self, limits: ExchangeLimits | None = None) -> None:
        """Keep to `limits`; nothing is done before `serving` is entered."""
        self.limits = limits or ExchangeLimits()
        self._tasks: TaskGroup | None = None
        self._running: dict[str, _Rounds] = {}
        self._tickets: dict[str, _Ticket] = {}

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Let work be done; at the end all of it is cancelled.

        Raises:
            RuntimeError: it is entered already.
        """
        if self._tasks is not None:
            raise RuntimeError("work is being done already")
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()

    @property
    def is_busy(self) -> bool:
        """Whether any work is under way."""
        return bool(self._running)

    def end_all(self, why: str) -> None:
        """Cancel all work; the requests that are there are answered with `why`."""
        for rounds in [*self._running.values()]:
            rounds.exchange.end(why)

    def hang_up(self) -> None:
        """Take note that the only client there is sends nothing any more."""
        for rounds in [*self._running.values()]:
            rounds.exchange.hang_up()

    async def converse(
        self, ctx: ServerRequestContext[Any, Any], arguments: Mapping[str, Any], work: Work
    ) -> dict[str, Any]:
        """Answer a call of a tool by `work`, or by what such a call began before; returns the call's result.

        `arguments` are the call's; with `continue` or `confirm` among them, or with the state of a round, `work` is
        not begun. What it returns is the result in the end, and what it raises is raised.

        Raises:
            RunEndedError: there is nothing to go on with, or nothing more can be begun.
        """
        state = (ctx.params or {}).get("requestState")
        answers = (ctx.params or {}).get("inputResponses") or {}
        if isinstance(state, str):
            rounds = self._returned(state, caller_of(ctx), answers)
        elif ticket := arguments.get(CONFIRM) or arguments.get(CONTINUE):
            rounds = self._resumed(str(ticket), caller_of(ctx), agrees=bool(arguments.get(CONFIRM)))
        else:
            rounds = self._begun(caller_of(ctx), work)
        await self._visit(ctx, rounds.exchange)
        return self._answer(rounds, (ctx.params or {}).get("name", ""))

    def _begun(self, caller: Caller, work: Work) -> _Rounds:
        if self._tasks is None:
            raise RunEndedError("the server is not doing any work")
        if len(self._running) >= self.limits.at_once:
            raise RunEndedError(f"as many runs as there may be ({self.limits.at_once}) are under way; try again later")
        exchange = ClientExchange(caller, self.limits)
        rounds = self._running[exchange.token] = _Rounds(exchange)
        self._tasks.start_soon(self._perform, rounds, work)
        return rounds

    async def _perform(self, rounds: _Rounds, work: Work) -> None:
        exchange = rounds.exchange
        try:
            await exchange.perform(work)
            if exchange.outcome is None and exchange.fault is None:
                logger.info("a run was ended: %s", exchange.why)
            elif not exchange.is_visited:
                # It was over while the client was asked; who comes back with answers is told.
                with anyio.move_on_after(self.limits.parked):
                    await rounds.told.wait()
                if exchange.fault is not None and not rounds.told.is_set():
                    logger.error("a run ended by an error that nobody came back for", exc_info=exchange.fault)
        finally:
            self._running.pop(exchange.token, None)
            self._drop_tickets(rounds)

    def _returned(self, state: str, caller: Caller, answers: Mapping[str, object]) -> _Rounds:
        """Find what the state of a round belongs to, and hand over the answers."""
        token, _, number = state.partition(".")
        rounds = self._running.get(token)
        if rounds is None or rounds.exchange.caller != caller:
            raise RunEndedError(f"the run that this requestState belongs to is over, or not here; {_BEGIN_AGAIN}")
        if rounds.exchange.is_visited:
            raise RunEndedError("another request with this requestState is being answered")
        if number == str(rounds.open):
            rounds.open = None
            rounds.exchange.deliver(answers)
        elif rounds.open is None or number != str(rounds.open - 1):
            raise RunEndedError("this round is over: its answers were given before")
        # Else the answers are here, and the client did not get what came of them: it is told again.
        return rounds

    def _resumed(self, given: str, caller: Caller, *, agrees: bool) -> _Rounds:
        """Find what the client's model was handed to go on with; it can be used once."""
        ticket = self._tickets.get(given)
        if ticket is None or ticket.rounds.exchange.caller != caller or ticket.agrees != agrees:
            what = CONFIRM if agrees else CONTINUE
            raise RunEndedError(f"no run waits for this {what}: it was used, is over, or not here; {_BEGIN_AGAIN}")
        self._drop_tickets(ticket.rounds)
        ticket.rounds.in_call = 0
        if (question := ticket.rounds.exchange.awaits_consent) is not None:
            logger.info("the user %s, says a call: %s", "agrees" if agrees else "does not agree", one_line(question))
        ticket.rounds.exchange.settle(agreed=agrees)
        return ticket.rounds

    async def _visit(self, ctx: ServerRequestContext[Any, Any], exchange: ClientExchange) -> None:
        """Let a request be there until it has to be answered; if it is cancelled or closed, the work is ended."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_end_when_closed, ctx, exchange)
                with exchange.visited(ctx):
                    await exchange.until_turn()
                tasks.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():
            exchange.end("its client cancelled it")
            raise

    def _answer(self, rounds: _Rounds, tool: str) -> dict[str, Any]:
        exchange = rounds.exchange
        if exchange.over:
            rounds.told.set()
        if exchange.fault is not None:
            raise exchange.fault
        if exchange.outcome is not None:
            return exchange.outcome
        if exchange.over:
            raise RunEndedError(f"the run was ended: {exchange.why}")
        if exchange.questions and rounds.in_call < self.limits.rounds:
            return _round(rounds)
        if (question := exchange.awaits_consent) is not None:
            return self._consent_result(rounds, tool, question)
        return self._unfinished_result(rounds, tool)

    def _unfinished_result(self, rounds: _Rounds, tool: str) -> dict[str, Any]:
        ticket = self._ticket(rounds, agrees=False)
        text = (
            "The run has not finished: it asked this client as often as one call may. To go on, call "
            f'{tool} with {{"{CONTINUE}": "{ticket}"}} within {self.limits.parked:g} seconds.'
        )
        structured = {"status": "not_finished", CONTINUE: ticket}
        return {**tool_result([text_block(text)]), "structuredContent": structured}

    def _consent_result(self, rounds: _Rounds, tool: str, question: str) -> dict[str, Any]:
        yes, no = self._ticket(rounds, agrees=True), self._ticket(rounds, agrees=False)
        text = (
            f"The run needs the user's consent. Show the user the following and ask; do not decide it yourself.\n\n"
            f"{question}\n\n"
            f'If the user agrees, call {tool} with {{"{CONFIRM}": "{yes}"}}. If not, call it with '
            f'{{"{CONTINUE}": "{no}"}}. The run waits {self.limits.parked:g} seconds.'
        )
        structured = {"status": "needs_consent", "question": question, CONFIRM: yes, CONTINUE: no}
        return {**tool_result([text_block(text)]), "structuredContent": structured}

    def _ticket(self, rounds: _Rounds, *, agrees: bool) -> str:
        token = secrets.token_urlsafe(32)
        self._tickets[token] = _Ticket(rounds, agrees)
        return token

    def _drop_tickets(self, rounds: _Rounds) -> None:
        self._tickets = {token: ticket for token, ticket in self._tickets.items() if ticket.rounds is not rounds}


def _round(rounds: _Rounds) -> dict[str, Any]:
    """Return the result that asks the client; asked again for the round that is open, it is the same round."""
    if rounds.open is None:
        rounds.last += 1
        rounds.in_call += 1
        rounds.open = rounds.last
    questions = {
        key: question.request.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, question in rounds.exchange.questions.items()
    }
    state = f"{rounds.exchange.token}.{rounds.open}"
    return {"resultType": "input_required", "inputRequests": questions, "requestState": state}


async def _end_when_closed(ctx: ServerRequestContext[Any, Any], exchange: ClientExchange) -> None:
    """End the work when the client closes its request: nobody could be told what came of it."""
    request: Request | None = ctx.request
    if request is None:
        return  # a pipe ends with all that came through it
    # The SDK does not look at the connection where answers are plain JSON.
    while (await request.receive())["type"] != "http.disconnect":
        pass
    exchange.end("its client closed the request")
