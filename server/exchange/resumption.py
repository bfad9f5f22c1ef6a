"""What a call brings back to resume an exchange, and where that exchange is.

A resume token of a replica names the replica: `NAME:TOKEN`. A client of the modern era may bring it to any of them. The
tokens of a server on its own have no name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

from server.wire.arguments import CONFIRM, CONTINUE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.exchange.attached_request import AttachedRequest
    from server.exchange.callers import Caller

__all__ = ["OtherReplicas", "ResumeKind", "Resumption", "named_token", "resumption_of"]

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
