"""Errors of exchanges with clients: what the client was asked, and why there is no answer."""

from __future__ import annotations

from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError

MAX_SHOWN = 300
"""Characters of a reason that an error message repeats; clients write some of them."""

_ASKED = {
    "sampling/createMessage": "for an answer of its model",
    "elicitation/create": "to ask its user",
    "roots/list": "for its roots",
}


class ExchangeError(SkillsError):
    """The client did not answer a question; `method` names the request."""

    def __init__(self, method: str, why: str) -> None:
        super().__init__(f"the client was asked {_ASKED.get(method, method)}: {one_line(why)[:MAX_SHOWN]}")
        self.method = method


class CannotAskError(ExchangeError):
    """The client lacks the capability, or its connection cannot carry the question."""


class ClientRefusedError(ExchangeError):
    """The client answered with an error, for example because its user declined; `code` is the error's code."""

    def __init__(self, method: str, code: int, message: str) -> None:
        super().__init__(method, f"it refused ({code}): {message}")
        self.code = code


class UnusableAnswerError(ExchangeError):
    """The client's answer does not fit the question."""

    def __init__(self, method: str, why: str) -> None:
        super().__init__(method, f"its answer cannot be used: {why}")


class ClientSilentError(ExchangeError):
    """The client is gone, or did not answer in time."""


class RunEndedError(SkillsError):
    """The request cannot start a run, or the run that it wants to resume has ended or is not its own."""
