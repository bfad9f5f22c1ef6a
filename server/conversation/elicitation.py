"""The client's user, asked during a run: by a form, or by a further tool call if the client has no forms."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import mcp_types as types

from server.conversation.consent_text import MAX_CHOICE, answer_text, consent_text
from server.conversation.errors import ExchangeError
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from server.conversation.client_exchange import ClientExchange
    from skills_core.interaction import User

__all__ = ["ClientUser", "UserByToolCall", "user_of"]

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
