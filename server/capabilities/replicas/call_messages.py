"""The messages by which one replica answers a request that another one received, and their form on the channel."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec
from msgspec import Struct

from server.capabilities.replicas.errors import LinkLostError
from server.capabilities.replicas.link import BEAT_SECONDS
from server.conversation.client_requests import ResumeKind
from server.requests import RequestDecision, Use

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.capabilities.replicas.link import RedisLink

__all__ = [
    "Alive",
    "CallLine",
    "Closed",
    "Failure",
    "Message",
    "NotedWork",
    "Progress",
    "Response",
    "Resume",
    "channel_of",
    "decoded",
    "encoded",
]


class _Message(Struct, frozen=True, kw_only=True, tag_field="kind"):
    """One of the messages about the call with this `id`."""

    id: str


class Resume(_Message, frozen=True, kw_only=True, tag="resume"):
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


class Alive(_Message, frozen=True, kw_only=True, tag="alive"):
    """A sign of life, of either side."""


class Closed(_Message, frozen=True, kw_only=True, tag="closed"):
    """The client has closed or cancelled its request."""


class Progress(_Message, frozen=True, kw_only=True, tag="progress"):
    """Progress of the work, for the client."""

    done: float
    total: float | None
    message: str


class NotedWork(Struct, frozen=True, kw_only=True):
    """What the record of the request has of the work: the skill, its use, and how the work was decided."""

    skill: str = ""
    digest: str = ""
    use: Use | None = None
    decision: RequestDecision | None = None
    reason: str = ""


class Response(_Message, frozen=True, kw_only=True, tag="response"):
    """The result of the request."""

    result: dict[str, Any]
    noted: NotedWork


class Failure(_Message, frozen=True, kw_only=True, tag="failure"):
    """The request failed: with a message for the client, or, without one, for a reason that the sender has logged.

    `run_ended` tells that there is nothing to resume, rather than that something went wrong.
    """

    message: str | None
    run_ended: bool = False
    noted: NotedWork


Message = Resume | Alive | Closed | Progress | Response | Failure


def encoded(message: Message) -> dict[str, Any]:
    """Return the JSON object of a message."""
    found: dict[str, Any] = msgspec.to_builtins(message)
    return found


def decoded(found: Mapping[str, Any]) -> Message | None:
    """Return a message, None for an object that is none, such as one of a later version."""
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
        """Talk with the replica `other` about `call` over `link`."""
        self.call = call
        self._link = link
        self._channel = channel_of(other)
        self._sending, self._receiving = anyio.create_memory_object_stream["Message"](_MAX_WAITING)

    def put(self, message: Message) -> None:
        """Take a message that has come."""
        with suppress(anyio.WouldBlock):
            self._sending.send_nowait(message)

    async def send(self, message: Message) -> None:
        """Send a message.

        Raises:
            LinkLostError: the other replica does not listen, or Redis cannot be reached.
        """
        if not await self._link.publish(self._channel, encoded(message)):
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
            if not isinstance(message, Alive):
                return message

    async def show_life(self) -> None:
        """Send signs of life until cancelled."""
        while True:
            await anyio.sleep(BEAT_SECONDS)
            # The other side notices that they are missing.
            with suppress(LinkLostError):
                await self.send(Alive(id=self.call))

    def close(self) -> None:
        """Drop what was not read."""
        self._sending.close()
        self._receiving.close()
