"""Exchanges without a transport: clients that send any requests they like, and work that does what it is told."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.shared.exceptions import MCPError

from server.conversation.client_exchange import ClientExchange, ExchangeLimits
from server.conversation.errors import ExchangeError, RunEndedError
from server.conversation.lifecycle import ATTACHED, MOVES, OVER
from server.conversation.registry import ExchangeRegistry
from server.wire.params import CONFIRM, CONTINUE
from tests.server.sessions import Era

CALLERS = 2
SETTLED = 30
VERSIONS = {"modern": "2026-07-28", "handshake": "2025-11-25"}


class WorkFailedError(Exception):
    """What simulated work raises; `number` is the work's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(eq=False)
class Token:
    """A resume token that a client received: which arguments and parameters it comes back with."""

    work: int
    arguments: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    question: str = ""


@dataclass(eq=False)
class Call:
    """A request of a client: whose it is, what it resumes, and how it ended."""

    caller: int
    token: Token | None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    closed: anyio.Event = field(default_factory=anyio.Event)
    ended: bool = False

    headers: Any = None

    async def receive(self) -> dict[str, str]:
        """Wait as an HTTP request does, until the client closes it."""
        await self.closed.wait()
        return {"type": "http.disconnect"}


@dataclass(eq=False)
class Context:
    """As much of a request's context as exchanges read; it is its own session."""

    params: dict[str, Any]
    request: Call
    protocol_version: str
    connection: Simulation
    request_id: int = 1
    can_send_request: bool = True
    client_capabilities: types.ClientCapabilities = field(
        default_factory=lambda: types.ClientCapabilities(sampling=types.SamplingCapability())
    )

    @property
    def session(self) -> Context:
        return self

    async def send_request(self, request: types.CreateMessageRequest, model: Any, metadata: Any) -> Any:
        """Send a question in the handshake era, and wait until the client answers it or not."""
        del metadata
        answered = anyio.Event()
        self.connection.questions.append(answered)
        await answered.wait()
        if self.connection.refuses:
            raise MCPError(-1, "declined")
        return model.model_validate(answer_to(request.model_dump(by_alias=True)))


@dataclass(eq=False)
class SimulatedWork:
    """The work of one call, which does what `do` names; `begun_by` is its caller."""

    number: int
    begun_by: int
    simulation: Simulation
    exchange: ClientExchange | None = None
    consented: dict[str, bool | None] = field(default_factory=dict)
    ended: bool = False

    def __post_init__(self) -> None:
        self._commands: deque[str] = deque()
        self._given = anyio.Event()
        self._scopes: list[anyio.CancelScope] = []
        self._asked = 0
        self._lingers = False

    async def __call__(self, exchange: ClientExchange) -> dict[str, Any]:
        self.exchange = exchange
        last = ""
        try:
            async with anyio.create_task_group() as tasks:
                try:
                    last = await self._obey(tasks)
                except anyio.get_cancelled_exc_class():
                    with anyio.CancelScope(shield=self._lingers):
                        last = await self._obey(tasks)
                    if last == "end":
                        raise
                tasks.cancel_scope.cancel()
        finally:
            self.ended = True
        if last == "fail":
            raise WorkFailedError(self.number)
        return {"of": self.number}

    async def _obey(self, tasks: TaskGroup) -> str:
        """Do as commands say, until one says how to end: `end` means in the way that it would end anyway."""
        while True:
            while not self._commands:
                self._given = anyio.Event()
                await self._given.wait()
            command = self._commands.popleft()
            if command in {"finish", "fail", "end"}:
                return command
            if command == "linger":
                self._lingers = True
            if command == "withdraw" and self._scopes:
                self._scopes.pop().cancel()
            if command in {"ask", "consent"}:
                self._asked += 1
                tasks.start_soon(self._ask, command, f"{self.number}:{self._asked}")
            if command == "ask from outside":
                # As a recorded run does, which goes on in a task of its own.
                self._asked += 1
                self.simulation.tasks.start_soon(self._ask, "ask", f"{self.number}:{self._asked}")

    def do(self, what: str) -> None:
        self._commands.append(what)
        self._given.set()

    async def _ask(self, how: str, question: str) -> None:
        assert self.exchange is not None
        with anyio.CancelScope() as scope:
            self._scopes.append(scope)
            if how == "consent":
                self.consented[question] = await self.exchange.request_consent(question)
                return
            message = types.SamplingMessage(role="user", content=types.TextContent(text=question))
            params = types.CreateMessageRequestParams(messages=[message], max_tokens=1)
            try:
                answer = await self.exchange.ask(types.CreateMessageRequest(params=params))
            except ExchangeError:
                return
            assert answer.content_as_list == [types.TextContent(text=question)]


def answer_to(question: Any) -> dict[str, Any]:
    """Return an answer that repeats the question."""
    return {"role": "assistant", "model": "m", "content": question["params"]["messages"][0]["content"]}


class Simulation:
    """A registry, its clients and their work; `check` holds what must be true at any time."""

    def __init__(self, tasks: TaskGroup, era: Era, *, keeps: bool) -> None:
        limits = ExchangeLimits(
            resume_seconds=math.inf if keeps else 0,
            answer_seconds=math.inf,
            gather_seconds=0,
            questions_per_call=2,
            concurrent=4,
        )
        self.registry = ExchangeRegistry(limits)
        self.questions: list[anyio.Event] = []
        self.refuses = False
        self.works: list[SimulatedWork] = []
        self.calls: list[Call] = []
        self.tokens: list[Token] = []
        self.problems: list[object] = []
        self.tasks = tasks
        self._era = era

    def call(self, caller: int, token: Token | None = None) -> None:
        """Send a request that begins work, or that comes back with a token."""
        call = Call(caller, token, headers={"mcp-session-id": str(caller)})
        self.calls.append(call)
        self.tasks.start_soon(self._request, call)

    async def _request(self, call: Call) -> None:
        user = AccessToken(token="t", client_id="app", scopes=[], subject=str(call.caller))  # noqa: S106 - made up
        auth_context_var.set(AuthenticatedUser(user))
        work = SimulatedWork(len(self.works), call.caller, self)
        if call.token is None:
            self.works.append(work)
        params = {"name": "run_skill", **(call.token.params if call.token else {})}
        context: Any = Context(params, call, VERSIONS[self._era], self)
        with call.scope:
            try:
                arguments = call.token.arguments if call.token else {}
                result = await self.registry.handle_call(context, arguments, work)
            except RunEndedError:
                pass
            except WorkFailedError as error:
                self._hold(call, error.number)
            except Exception as error:  # noqa: BLE001 - `check` raises it
                self.problems.append(error)
            else:
                self._receive(call, work.number if call.token is None else call.token.work, result)
        call.ended = True

    def _receive(self, call: Call, number: int, result: dict[str, Any]) -> None:
        """Note what a client learns from a response: the outcome, or tokens to come back with."""
        self._hold(call, result.get("of", number))
        if "inputRequests" in result:
            answers = {key: answer_to(question) for key, question in result["inputRequests"].items()}
            params = {"requestState": result["requestState"], "inputResponses": answers}
            self.tokens.append(Token(number, params=params))
        for name in (CONFIRM, CONTINUE):
            if value := result.get("structuredContent", {}).get(name):
                question = result["structuredContent"].get("question", "")
                self.tokens.append(Token(number, {name: value}, question=question))

    def _hold(self, call: Call, number: int) -> None:
        """Hold that a caller learns only of work that it began, and only of what it came back to."""
        if self.works[number].begun_by != call.caller or (call.token is not None and call.token.work != number):
            self.problems.append((call, number))

    async def settle(self, turns: int = SETTLED) -> None:
        """Let every task go on for some turns of the event loop; after `SETTLED` turns each of them waits."""
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()

    def release(self) -> None:
        """Let work end that resists its cancellation, and answer all questions on connections."""
        for work in self.works:
            work.do("end")
        for question in self.questions:
            question.set()

    def check(self) -> None:
        assert not self.problems, self.problems
        for work in self.works:
            if work.exchange is not None:
                assert work.exchange.state in MOVES
                assert work.ended == (work.exchange.state in OVER)
                waiting = [call for call in self.calls if not call.ended and self._waits_for(call, work)]
                assert len(waiting) <= 1
                assert bool(waiting) == (work.exchange.state in ATTACHED)
        used = [call.token for call in self.calls if call.token is not None]
        confirmed = {token.question for token in used if CONFIRM in token.arguments}
        given = {question for work in self.works for question, agreed in work.consented.items() if agreed}
        assert given <= confirmed

    def _waits_for(self, call: Call, work: SimulatedWork) -> bool:
        if call.token is not None:
            return call.token.work == work.number
        begun = [each for each in self.calls if each.token is None]
        return begun.index(call) == work.number


def pick(many: list[Any], number: int) -> Any:
    """Return one of many, of which small numbers mean the latest."""
    return many[-1 - number % len(many)]


def actions() -> dict[str, Callable[[Simulation, int], object]]:
    """Return all that may happen, by name; the number says to which of the calls, tokens or pieces of work."""

    def on(attribute: str, act: Callable[[Any], object]) -> Callable[[Simulation, int], object]:
        return lambda simulation, number: act(pick(many, number)) if (many := getattr(simulation, attribute)) else None

    def work(what: str) -> Callable[[Simulation, int], object]:
        return on("works", lambda work: work.do(what))

    def come_back(simulation: Simulation, number: int) -> None:
        if simulation.tokens:
            token = pick(simulation.tokens, number)
            simulation.call(simulation.works[token.work].begun_by, token)

    def come_back_without_answers(simulation: Simulation, number: int) -> None:
        if simulation.tokens:
            token = pick(simulation.tokens, number)
            token = replace(token, params={**token.params, "inputResponses": {}})
            simulation.call(simulation.works[token.work].begun_by, token)

    def come_back_as_any_caller(simulation: Simulation, number: int) -> None:
        if simulation.tokens:
            simulation.call(number % CALLERS, pick(simulation.tokens, number // CALLERS))

    def refuse(simulation: Simulation, number: int) -> None:
        simulation.refuses = bool(number % 2)

    return {
        "begin": lambda simulation, number: simulation.call(number % CALLERS),
        "come back": come_back,
        "come back without answers": come_back_without_answers,
        "come back as any caller": come_back_as_any_caller,
        "cancel": on("calls", lambda call: call.scope.cancel()),
        "close": on("calls", lambda call: call.closed.set()),
        "answer on the connection": on("questions", lambda question: question.set()),
        "refuse": refuse,
        "disconnect": lambda simulation, _: simulation.registry.client_disconnected(),
        "stop all": lambda simulation, _: simulation.registry.stop_all("the test stops all"),
        **{
            f"work: {what}": work(what)
            for what in ("ask", "ask from outside", "consent", "withdraw", "linger", "finish", "fail", "end")
        },
    }
