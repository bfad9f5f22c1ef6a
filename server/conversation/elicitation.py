"""The client's user, asked during a run: by a form, or by a further tool call if the client has no forms.

Skills and models write the questions. So that a question cannot pass for words of the server, each of its lines begins
with a mark that no line of the server has, and invisible characters are escaped.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from server.conversation.errors import ExchangeError
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    import mcp_types as types

    from server.conversation.client_exchange import ClientExchange
    from skills_core.interaction import User


logger = logging.getLogger(__name__)

_MAX_ANSWER = 4000
_MAX_CHOICES = 50

_ALLOW: dict[str, Any] = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow this", "default": False}},
    "required": ["allow"],
}


class ClientUser:
    """The user, asked by elicitation; without this capability of the client there are no answers."""

    def __init__(self, exchange: ClientExchange, skill: str, *, in_run: bool = True) -> None:
        """Ask on behalf of `skill`, named as the user knows it; `in_run` is false for a tool call outside a run."""
        self._exchange = exchange
        self._skill = skill
        self._in_run = in_run

    async def confirm(self, question: str) -> bool | None:
        """Return whether the user agrees, None if the user cannot be asked or does not answer."""
        answer = await self._elicit(consent_text(self._skill, question, in_run=self._in_run), _ALLOW)
        if answer is None:
            return None
        # Some clients accept any form at a press of Return: only the ticked box is consent.
        return answer.action == "accept" and (answer.content or {}).get("allow") is True

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        """Return the user's answer, one of `choices` if there are any; None without an answer."""
        shown = {one_line(choice)[:MAX_CHOICE]: choice for choice in choices[:_MAX_CHOICES]}
        field: dict[str, Any] = {"type": "string", "title": "Answer"}
        field |= {"enum": [*shown]} if shown else {"maxLength": _MAX_ANSWER}
        form = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
        answer = await self._elicit(answer_text(self._skill, question, in_run=self._in_run), form)
        if answer is None or answer.action != "accept":
            return None
        given = (answer.content or {}).get("answer")
        if not isinstance(given, str):
            return None
        return shown.get(given) if shown else given[:_MAX_ANSWER]

    async def _elicit(self, message: str, form: dict[str, Any]) -> types.ElicitResult | None:
        if not self._exchange.can_elicit:
            return None
        import mcp_types as types  # the command line uses the texts alone, without the SDK

        params = types.ElicitRequestFormParams(message=message, requested_schema=form)
        try:
            return await self._exchange.ask(types.ElicitRequest(params=params))
        except ExchangeError as error:
            logger.warning("%s", error)
            return None


class UserByToolCall:
    """The user of a client without forms, who consents by a further tool call and can answer no other questions.

    A question ends the call with a result for the client's model: what the user has to agree to, and how to call
    again. The run waits for that call, and the consent holds for the waiting tool call alone.
    """

    def __init__(self, exchange: ClientExchange, skill: str) -> None:
        """Ask on behalf of `skill`."""
        self._exchange = exchange
        self._skill = skill

    async def confirm(self, question: str) -> bool | None:
        """Return whether the user agrees, as the client's next call says; None if the run ends before."""
        return await self._exchange.request_consent(consent_text(self._skill, question))

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        """Return None: this client cannot put the question to its user."""
        del question, choices
        return None


def user_of(exchange: ClientExchange, skill: str, *, by_call: bool = True) -> User:
    """Return the client's user; with `by_call`, consent may come by a further tool call.

    The client's model makes that call, so the client is responsible for asking a person.
    """
    return ClientUser(exchange, skill) if exchange.can_elicit or not by_call else UserByToolCall(exchange, skill)


MAX_QUESTION = 4000
"""Characters of a question that are shown; the rest is counted."""

MAX_CHOICE = 100
_MAX_NAME = 100

MARK = "> "
"""The mark before each quoted line."""


def consent_text(skill: str, question: str, *, in_run: bool = True) -> str:
    """Return the text that asks for consent; `question` may have several lines.

    `in_run` is true for a tool call in a run of the skill, false for one that the client's own model makes.
    """
    what = (
        f"what a run of the skill {_name(skill)} wants" if in_run else f"a tool call that uses the skill {_name(skill)}"
    )
    return f"skillserve asks for your consent to {what}:\n{_quoted(question)}"


def answer_text(skill: str, question: str, *, in_run: bool = True) -> str:
    """Return the text that asks for an answer; `question` comes from a model and becomes one line.

    `in_run` is false for a question of the server's own tool, whose name is given for `skill`.
    """
    if not in_run:
        return f"skillserve asks you this for the tool call {_name(skill)}; give no passwords.\n{_quoted(question)}"
    return (
        f"A run of the skill {_name(skill)} asks you this. Your answer goes to the model that performs it; give no "
        f"passwords.\n{_quoted(one_line(question))}"
    )


def _name(skill: str) -> str:
    return one_line(repr(skill[:_MAX_NAME]))


def _quoted(question: str) -> str:
    lines = [MARK + one_line(line) for line in question[:MAX_QUESTION].split("\n") if line.strip()]
    if more := len(question[MAX_QUESTION:]):
        lines.append(f"{more} more characters are not shown.")
    return "\n".join(lines)
