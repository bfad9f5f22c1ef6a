"""Calls that reach another replica than the one that has their exchange.

Requests of the modern era are independent of each other, so a proxy may send an answer of a client to any replica. The
replica that receives it passes the call on to the one that asked, whose name is in the resume token, and returns the
response. That replica treats the call like a request of its own: if the client closes it, the work is stopped. If the
replicas lose each other, the work goes on, and the client may make the same call again.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp_types as types
import msgspec
from mcp.shared.exceptions import NoBackChannelError
from msgspec import Struct
from pydantic import ValidationError

from server.capabilities.replicas.link import BEAT_SECONDS, LinkLostError
from server.conversation.client_requests import Caller, ResumeKind, Resumption
from server.conversation.errors import RunEndedError
from server.requests import NOTES, Notes, RequestDecision, Use, adopt
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from server.capabilities.replicas.link import RedisLink
    from server.conversation.client_requests import AttachedRequest, QuestionRequest
    from server.conversation.registry import ExchangeRegistry

logger = logging.getLogger(__name__)


class _Message(Struct, frozen=True, kw_only=True, tag_field="kind"):
    """One of the messages about the call with this `id`."""

    id: str


class ResumeMessage(_Message, frozen=True, kw_only=True, tag="resume"):
    """A request that resumes an exchange of the receiver; the answer goes to `sender`.

    `principal` and `profile` identify the caller, who is of the modern era. `token` is of the kind `resumes`, and
    `answers` come with a `requestState`. `capabilities` are those that the client declares.
    """

    sender: str
    principal: str | None
    profile: str | None
    resumes: ResumeKind
    token: str
    answers: dict[str, Any]
    tool: str
    capabilities: dict[str, Any]


class AliveMessage(_Message, frozen=True, kw_only=True, tag="alive"):
    """A sign of life, of either side."""


class ClosedMessage(_Message, frozen=True, kw_only=True, tag="closed"):
    """The client has closed or cancelled its request."""


class ProgressMessage(_Message, frozen=True, kw_only=True, tag="progress"):
    """Progress of the work, for the client."""

    done: float
    total: float | None
    message: str


class NotedWork(Struct, frozen=True, kw_only=True):
    """The part of the request's record that the work determines: the skill, its use, and the decision."""

    skill: str = ""
    digest: str = ""
    use: Use | None = None
    decision: RequestDecision | None = None
    reason: str = ""


class ResponseMessage(_Message, frozen=True, kw_only=True, tag="response"):
    """The result of the request."""

    result: dict[str, Any]
    noted: NotedWork


class FailureMessage(_Message, frozen=True, kw_only=True, tag="failure"):
    """The request failed: with a message for the client, or, without one, for a reason that the sender has logged.

    `run_ended` tells that there is nothing to resume, rather than that something went wrong.
    """

    message: str | None
    run_ended: bool = False
    noted: NotedWork


Message = ResumeMessage | AliveMessage | ClosedMessage | ProgressMessage | ResponseMessage | FailureMessage


def decoded(found: Mapping[str, Any]) -> Message | None:
    """Return the message of a JSON object; None for anything else, such as a message of a later version."""
    try:
        message: Message = msgspec.convert({**found}, Message)
    except msgspec.ValidationError:
        return None
    return message


_SILENT_SECONDS: Final = 5.0
_MAX_WAITING: Final = 1000
# Messages that wait to be read; a replica that sends more has failed, and is silent from then on.


def channel_of(replica: str) -> str:
    """Return the channel on which a replica receives the messages of calls."""
    return f"calls:{replica}"


class CallLine:
    """The messages of one call with another replica."""

    def __init__(self, link: RedisLink, other: str, call: str) -> None:
        """Exchange messages with the replica `other` about `call` over `link`."""
        self.call = call
        self._link = link
        self._channel = channel_of(other)
        self._sending, self._receiving = anyio.create_memory_object_stream["Message"](_MAX_WAITING)

    def put(self, message: Message) -> None:
        """Add a message that was received."""
        with suppress(anyio.WouldBlock):
            self._sending.send_nowait(message)

    async def send(self, message: Message) -> None:
        """Send a message.

        Raises:
            LinkLostError: the other replica does not listen, or Redis cannot be reached.
        """
        if not await self._link.publish(self._channel, msgspec.to_builtins(message)):
            raise LinkLostError("the other replica has ended, or cannot reach Redis now")

    async def receive(self) -> Message:
        """Return the next message that is not a mere sign of life.

        Raises:
            LinkLostError: the other replica has been silent for too long.
        """
        while True:
            try:
                with anyio.fail_after(_SILENT_SECONDS):
                    message = await self._receiving.receive()
            except TimeoutError:
                raise LinkLostError("the other replica is silent") from None
            if not isinstance(message, AliveMessage):
                return message

    async def show_life(self) -> None:
        """Send signs of life until cancelled."""
        while True:
            await anyio.sleep(BEAT_SECONDS)
            # The other side notices that they are missing.
            with suppress(LinkLostError):
                await self.send(AliveMessage(id=self.call))

    def close(self) -> None:
        """Drop the messages that were not read."""
        self._sending.close()
        self._receiving.close()


_MAX_RESULT: Final = 4_000_000
# Characters of a result; Redis closes the connections of listeners that cannot keep up with more.

_MAX_REMEMBERED: Final = 10_000
# Calls that were answered. One that comes again was repeated by another user of the Redis.

_FAREWELL_SECONDS: Final = 1.0


class ForwardedCallError(SkillsError):
    """A call that another replica has to answer has no result there."""


class CallForwarding:
    """Passes calls on to other replicas, and answers those that they pass on."""

    def __init__(self, link: RedisLink, name: str, exchanges: ExchangeRegistry) -> None:
        """Be the replica `name` on `link`, whose exchanges are in `exchanges`."""
        self.name = name
        self._link = link
        self._exchanges = exchanges
        self._lines: dict[str, CallLine] = {}
        self._answered: OrderedDict[str, None] = OrderedDict()
        self._tasks: TaskGroup | None = None
        self.running = 0
        """How many calls of other replicas are being answered."""
        link.listen(channel_of(name), self._on_message)

    async def run(self) -> None:
        """Answer calls of other replicas until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    def _on_message(self, found: Mapping[str, Any]) -> None:
        message = decoded(found)
        if message is None:
            return
        if not isinstance(message, ResumeMessage):
            if line := self._lines.get(message.id):
                line.put(message)
        elif self._tasks is not None and message.id not in self._answered:
            self._answered[message.id] = None
            if len(self._answered) > _MAX_REMEMBERED:
                self._answered.popitem(last=False)
            self._tasks.start_soon(self._answer, message)

    @contextmanager
    def _line(self, other: str, call: str) -> Iterator[CallLine]:
        line = self._lines[call] = CallLine(self._link, other, call)
        try:
            yield line
        finally:
            del self._lines[call]
            line.close()

    # Calls that this replica passes on

    async def resume(self, caller: Caller, resumption: Resumption, request: AttachedRequest) -> dict[str, Any]:
        """Resume an exchange of another replica, and return the response to the request.

        Raises:
            ForwardedCallError: the other replica cannot be reached, or answers with an error.
        """
        answer: ResponseMessage | FailureMessage | None = None
        with self._line(resumption.replica, secrets.token_hex(16)) as line:
            try:
                await line.send(_resume(line.call, self.name, caller, resumption, request))
                answer = await self._await_answer(line, request)
            except LinkLostError as error:
                # Not a warning: a client may make names of replicas up.
                logger.info("a call was not passed on to the replica that its token names: %s", error)
            except anyio.get_cancelled_exc_class():
                await _say_closed(line)
                raise
        if answer is None:
            why = f"the run of this {resumption.kind} has ended, or its server cannot be reached now"
            raise ForwardedCallError(f"{why}; try the same call again, or start again with a call without it")
        adopt(_notes(answer.noted))
        if isinstance(answer, ResponseMessage):
            return answer.result
        if answer.message is None:
            raise RuntimeError("the replica that has the run of this call failed; its log says why")
        raise (RunEndedError if answer.run_ended else ForwardedCallError)(answer.message)

    async def _await_answer(self, line: CallLine, request: AttachedRequest) -> ResponseMessage | FailureMessage | None:
        """Return the answer of the other replica, None if it is silent."""
        answer = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(line.show_life)
            tasks.start_soon(_say_when_closed, line, request)
            try:
                while answer is None:
                    message = await line.receive()
                    if isinstance(message, ProgressMessage):
                        await request.report_progress(message.done, message.total, message.message)
                    elif isinstance(message, ResponseMessage | FailureMessage):
                        answer = message
            except LinkLostError as error:
                logger.warning("a call that was passed on is not answered: %s", error)
            tasks.cancel_scope.cancel()
        return answer

    # Calls that other replicas pass on

    async def _answer(self, call: ResumeMessage) -> None:
        self.running += 1
        # The task has a context of its own, where the exchange leaves what it notes for the record of the request.
        notes = Notes(call.id)
        NOTES.set(notes)
        try:
            with self._line(call.sender, call.id) as line:
                request, answer = _ForwardedRequest(call, line), None
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(line.show_life)
                    tasks.start_soon(request.follow, tasks.cancel_scope)
                    answer = await self._response(call, request, notes)
                    tasks.cancel_scope.cancel()
                if answer is not None:
                    await line.send(answer)
        except LinkLostError as error:
            logger.warning("a response did not reach the replica that waits for it: %s", error)
        finally:
            self.running -= 1

    async def _response(
        self, call: ResumeMessage, request: AttachedRequest, notes: Notes
    ) -> ResponseMessage | FailureMessage:
        caller = Caller(modern=True, principal=call.principal, profile=call.profile)
        resumption = Resumption(call.resumes, self.name, call.token, call.answers)
        try:
            result = await self._exchanges.resume(caller, resumption, request)
        except SkillsError as error:
            run_ended = isinstance(error, RunEndedError)
            return FailureMessage(id=call.id, message=str(error), run_ended=run_ended, noted=_noted(notes))
        except Exception:
            logger.exception("a run failed whose client is at another replica")
            return FailureMessage(id=call.id, message=None, noted=_noted(notes))
        if len(json.dumps(result)) > _MAX_RESULT:
            message = f"the result has more than {_MAX_RESULT:,} characters, too many to pass on to another replica"
            return FailureMessage(id=call.id, message=message, noted=_noted(notes))
        return ResponseMessage(id=call.id, result=result, noted=_noted(notes))


class _ForwardedRequest:
    """A request that another replica received and passed on."""

    def __init__(self, call: ResumeMessage, line: CallLine) -> None:
        self.tool = call.tool
        self.capabilities = _capabilities(call.capabilities)
        self.is_lost = False
        self._line = line
        self._closed = anyio.Event()

    async def follow(self, scope: anyio.CancelScope) -> None:
        """Listen until the client closes its request; if the other replica is silent, cancel `scope`."""
        try:
            while not isinstance(await self._line.receive(), ClosedMessage):
                pass
        except LinkLostError as error:
            logger.warning("a run goes on without the request of its client, which another replica has: %s", error)
            self.is_lost = True
            scope.cancel()
        else:
            self._closed.set()

    async def report_progress(self, done: float, total: float | None, message: str) -> None:
        """Pass progress on."""
        with suppress(LinkLostError):
            await self._line.send(ProgressMessage(id=self._line.call, done=done, total=total, message=message))

    async def send_question(self, question: QuestionRequest) -> Mapping[str, Any]:
        """Refuse: in the modern era, questions are in responses."""
        raise NoBackChannelError(question.method)

    async def until_closed(self) -> None:
        """Wait until the client can no longer receive the response."""
        await self._closed.wait()


def _resume(call: str, sender: str, caller: Caller, resumption: Resumption, request: AttachedRequest) -> ResumeMessage:
    return ResumeMessage(
        id=call,
        sender=sender,
        principal=caller.principal,
        profile=caller.profile,
        resumes=resumption.kind,
        token=resumption.token,
        answers={**resumption.answers},
        tool=request.tool,
        capabilities=request.capabilities.model_dump(by_alias=True, mode="json", exclude_none=True),
    )


def _capabilities(found: Mapping[str, Any]) -> types.ClientCapabilities:
    try:
        return types.ClientCapabilities.model_validate(found)
    except ValidationError:
        return types.ClientCapabilities()


async def _say_when_closed(line: CallLine, request: AttachedRequest) -> None:
    await request.until_closed()
    await _say_closed(line)


async def _say_closed(line: CallLine) -> None:
    """Tell the other replica that the client has closed its request, even if this task is being cancelled."""
    with anyio.CancelScope(shield=True), anyio.move_on_after(_FAREWELL_SECONDS), suppress(LinkLostError):
        await line.send(ClosedMessage(id=line.call))


def _noted(notes: Notes) -> NotedWork:
    return NotedWork(
        skill=notes.skill, digest=notes.digest, use=notes.use, decision=notes.decision, reason=str(notes.reason)
    )


def _notes(noted: NotedWork) -> Notes:
    return Notes(
        "", skill=noted.skill, digest=noted.digest, use=noted.use, decision=noted.decision, reason=noted.reason
    )
