"""The client's user, asked in the middle of a run: by a form, or where the client has none by a further call."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import mcp_types as types

from server.exchange.consent_text import MAX_CHOICE, answer_text, consent_text
from server.exchange.errors import ExchangeError
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from server.exchange.client_exchange import ClientExchange
    from skills_core.run.ports import User

__all__ = ["ClientUser", "UserByCall", "user_of"]

logger = logging.getLogger(__name__)

_MAX_ANSWER = 4000
_MAX_CHOICES = 50

_ALLOW: dict[str, Any] = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow this", "default": False}},
    "required": ["allow"],
}


class ClientUser:
    """The user, asked by elicitation. Where the client cannot do that, nobody can be asked."""

    def __init__(self, exchange: ClientExchange, skill: str, *, in_run: bool = True) -> None:
        """Ask on behalf of `skill`, by the name that the user knows it by, in a run or for a call outside of one."""
        self._exchange = exchange
        self._skill = skill
        self._in_run = in_run

    async def confirm(self, question: str) -> bool | None:
        """Return whether the user agrees, None where nobody can be asked or nobody answers."""
        answer = await self._elicit(consent_text(self._skill, question, in_run=self._in_run), _ALLOW)
        if answer is None:
            return None
        # Some clients accept whatever form there is at a press of Return: only the box itself is consent.
        return answer.action == "accept" and (answer.content or {}).get("allow") is True

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        """Return the user's answer, one of `choices` where there are any; None where there is none."""
        shown = {one_line(choice)[:MAX_CHOICE]: choice for choice in choices[:_MAX_CHOICES]}
        field: dict[str, Any] = {"type": "string", "title": "Answer"}
        field |= {"enum": [*shown]} if shown else {"maxLength": _MAX_ANSWER}
        form = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
        answer = await self._elicit(answer_text(self._skill, question), form)
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


class UserByCall:
    """The user of a client that cannot ask: consent is a further call of the tool, anything else is asked of nobody.

    A question ends the call with a result for the client's model, which says what the user has to agree to and how to
    call again. The run waits for that; what is agreed to is the very call that waits, and nothing else.
    """

    def __init__(self, exchange: ClientExchange, skill: str) -> None:
        """Ask on behalf of `skill`."""
        self._exchange = exchange
        self._skill = skill

    async def confirm(self, question: str) -> bool | None:
        """Return whether the user agrees, as the client's next call says."""
        return await self._exchange.request_consent(consent_text(self._skill, question))

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        """Return None."""
        del question, choices
        return None


def user_of(exchange: ClientExchange, skill: str, *, by_call: bool = True) -> User:
    """Return the user of the client; `by_call` tells that consent may come by a further call of the tool.

    The model of the client makes that call, so it is the client that has to see to it that a person is asked.
    """
    return ClientUser(exchange, skill) if exchange.can_elicit or not by_call else UserByCall(exchange, skill)
