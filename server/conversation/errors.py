"""Errors of exchanges with clients: what the client was asked, and why there is no answer."""

from __future__ import annotations

from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError

MAX_SHOWN = 300
"""Characters of a reason that an error message repeats; clients write some of them."""

_ASKED = {
    "sampling/createMessage": "for an answer of its model",
    "elicitation/create": "to ask its user",
}


class ExchangeError(SkillsError):
    """The client did not answer a question, which `method` names."""

    def __init__(self, method: str, why: str) -> None:
        super().__init__(f"the client was asked {_ASKED[method]}: {one_line(why)[:MAX_SHOWN]}")


class UnusableAnswerError(ExchangeError):
    """The client's answer does not fit the question."""


class RunEndedError(SkillsError):
    """The request cannot start a run, or the run that it wants to resume has ended or is not its own."""
