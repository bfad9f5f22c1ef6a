"""What can go wrong in the talk with a client: one family, each with what was asked and why there is no answer."""

from __future__ import annotations

from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError

__all__ = [
    "CannotAskError",
    "ClientRefusedError",
    "ClientSilentError",
    "ExchangeError",
    "RunEndedError",
    "UnusableAnswerError",
]

MAX_SHOWN = 300
"""Characters that are told of what a client said."""

_ASKED = {
    "sampling/createMessage": "to let its model answer",
    "elicitation/create": "to ask its user",
    "roots/list": "for its roots",
}


class ExchangeError(SkillsError):
    """The client did not answer what it was asked; `method` names the request."""

    def __init__(self, method: str, why: str) -> None:
        super().__init__(f"the client was asked {_ASKED.get(method, method)}: {one_line(why)[:MAX_SHOWN]}")
        self.method = method


class CannotAskError(ExchangeError):
    """The client cannot be asked this."""


class ClientRefusedError(ExchangeError):
    """The client answered with an error, as where its user said no; `code` is the error's."""

    def __init__(self, method: str, code: int, message: str) -> None:
        super().__init__(method, f"it refused ({code}): {message}")
        self.code = code


class UnusableAnswerError(ExchangeError):
    """What came is no answer to the request."""

    def __init__(self, method: str, why: str) -> None:
        super().__init__(method, f"its answer cannot be used: {why}")


class ClientSilentError(ExchangeError):
    """The client is gone, or did not answer in time."""


class RunEndedError(SkillsError):
    """What a request wants to go on with is not there, or not there for it."""
