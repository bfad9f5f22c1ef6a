"""What handlers note about the request that they are working on, for its record.

The notes belong to the context of the request's task and of the tasks that it starts. Where nothing records requests
there are no notes, and noting does nothing.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from server.access.principal import LOCAL, Principal
from server.requests.records import RequestDecision, RequestReason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from server.requests.records import Use

__all__ = [
    "NOTES",
    "Notes",
    "adopt",
    "note_denied",
    "note_error",
    "note_failed",
    "note_found",
    "note_invalid",
    "note_skill",
    "note_target",
    "note_tool",
    "note_use",
]


class _Skill(Protocol):
    @property
    def settings_key(self) -> str: ...
    @property
    def digest(self) -> str | None: ...


@dataclass(slots=True)
class Notes:
    """The notes on one request. `error` is what a handler turned into a result; `decision` precedes it.

    `target` names what a request is about where its parameters do not tell by themselves. `address` is the network
    address of a client that has not logged in; afterwards, the principal tells who it is.
    """

    request_id: str
    trace_id: str = ""
    principal: Principal = LOCAL
    address: str = ""
    tool: str = ""
    is_own_tool: bool = False
    target: str = ""
    skill: str = ""
    digest: str = ""
    use: Use | None = None
    found: tuple[str, ...] = ()
    decision: RequestDecision | None = None
    reason: str = RequestReason.NONE
    error: Exception | None = None


NOTES: ContextVar[Notes | None] = ContextVar("skillserve_request", default=None)
"""The notes on the request of the current task."""


def note_tool(name: str, *, own: bool) -> None:
    """Note the tool that a request calls, once it is known to exist; `own` tells that no skill declares it."""
    if (notes := NOTES.get()) is not None:
        notes.tool, notes.is_own_tool = name, own


def note_skill(skill: _Skill, use: Use) -> None:
    """Note the skill that a request uses, once it is known that the caller sees it."""
    if (notes := NOTES.get()) is not None:
        notes.skill, notes.digest, notes.use = skill.settings_key, skill.digest or "", use


def note_use(use: Use) -> None:
    """Note what a request does with a skill that is not there any more."""
    if (notes := NOTES.get()) is not None:
        notes.use = use


def note_target(name: str) -> None:
    """Note what a request is about, by a name that its client chose."""
    if (notes := NOTES.get()) is not None:
        notes.target = name


def note_found(keys: Iterable[str]) -> None:
    """Note the skills that a search returned."""
    if (notes := NOTES.get()) is not None:
        notes.found = tuple(keys)


def note_denied(reason: str) -> None:
    """Note that a request is denied, whatever its answer says."""
    if (notes := NOTES.get()) is not None:
        notes.decision, notes.reason = RequestDecision.DENIED, reason


def note_invalid(reason: str) -> None:
    """Note why a request is invalid, in more detail than its error tells, or though its answer does not tell."""
    if (notes := NOTES.get()) is not None:
        notes.decision, notes.reason = RequestDecision.INVALID, reason


def note_failed(reason: str = RequestReason.TOOL_FAILED) -> None:
    """Note that the work of a request failed, whatever its answer says."""
    if (notes := NOTES.get()) is not None:
        notes.decision, notes.reason = RequestDecision.FAILED, reason


def adopt(earlier: Notes | None) -> None:
    """Take over what is noted of an earlier request, whose work the current request continues."""
    notes = NOTES.get()
    if notes is None or earlier is None or notes is earlier:
        return
    notes.skill, notes.digest, notes.use = earlier.skill, earlier.digest, earlier.use
    notes.decision, notes.reason = earlier.decision, earlier.reason


def note_error(error: Exception) -> None:
    """Note an error that is answered by a result."""
    if (notes := NOTES.get()) is not None:
        notes.error = error
