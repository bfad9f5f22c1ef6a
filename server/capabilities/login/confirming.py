"""End the responses to opaque tokens that the identity provider no longer confirms."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from server.capabilities.login.access_token import ProviderUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server.capabilities.login.access_token import LoginToken
    from server.capabilities.login.introspection import Introspection

__all__ = ["Confirming"]

_CHECK_SECONDS: Final = 5.0
# Costs nothing while the last answer about a token is fresh.
_AT_ONCE: Final = 16
# Half of the questions that may be open about known tokens; the others are for new requests.


@dataclass(slots=True, eq=False)
class _OpenToken:
    """A token with open responses. Its text is needed for the question, and their requests contain it anyway."""

    text: str
    responses: dict[anyio.CancelScope, LoginToken] = field(default_factory=dict)


class Confirming:
    """Verifies the tokens of open responses again and again."""

    def __init__(self, introspection: Introspection) -> None:
        """Watch no response yet."""
        self._introspection = introspection
        self._tokens: dict[str, _OpenToken] = {}

    @contextmanager
    def ended_by_refusal(self, text: str, token: LoginToken, response: anyio.CancelScope) -> Iterator[None]:
        """Let the provider end a response that is being sent, by refusing its token or changing what it allows."""
        opened = self._tokens.setdefault(text, _OpenToken(text))
        opened.responses[response] = token
        try:
            yield
        finally:
            del opened.responses[response]
            if not opened.responses:
                del self._tokens[text]

    async def run(self) -> None:
        """Verify at intervals until cancelled."""
        while True:
            await anyio.sleep(_CHECK_SECONDS)
            opened = iter([*self._tokens.values()])
            async with anyio.create_task_group() as tasks:
                for _ in range(min(_AT_ONCE, len(self._tokens))):
                    tasks.start_soon(self._check_each, opened)

    async def _check_each(self, tokens: Iterator[_OpenToken]) -> None:
        """Check tokens that no other task takes from the same iterator."""
        for opened in tokens:
            try:
                found = await self._introspection.verify(opened.text)
            except ProviderUnavailableError:
                # Its last answer would have counted for some minutes.
                found = None
            for response, token in opened.responses.items():
                if found is None or _rights(found) != _rights(token):
                    response.cancel()


def _rights(token: LoginToken) -> tuple[object, ...]:
    """Return what a response depends on; a new expiry, for example, is no reason to end it."""
    principal = token.principal
    return principal.subject, principal.client_id, principal.roles, principal.scopes
