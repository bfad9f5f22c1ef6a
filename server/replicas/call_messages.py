"""The messages by which one replica answers a request that another one received, and their form on the channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from server.exchange.resumption import ResumeKind
from server.operation.records import Decision, Use

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Alive", "Closed", "Failure", "Message", "NotedWork", "Progress", "Response", "Resume", "decoded", "encoded"]


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
    decision: Decision | None = None
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
