"""Requests to the identity provider: bounded in time and size, without redirects, and never with a user's request.

The senders of tokens take turns: no sender of invented tokens takes the turns of others.
"""

from __future__ import annotations

import ipaddress
import json
import time
from collections import Counter, OrderedDict
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.login.access_token import ProviderUnavailableError
from server.capabilities.remote.address import Address, AddressError
from server.capabilities.remote.http_call import HttpCallError, HttpCalls
from skills_core.diagnostics import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "KNOWN",
    "Provider",
    "Turns",
    "sender_of",
]


_SECONDS: Final = 5.0
_MAX_BYTES: Final = 512 * 1024
_HEADERS: Final = {"Accept": "application/json, application/*+json"}


class Provider:
    """Asks one identity provider."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        """Open no connection yet; a request ends after `seconds`."""
        self._calls = HttpCalls(seconds, _MAX_BYTES)

    async def get(self, url: str) -> dict[str, Any]:
        """Return the JSON object at an address.

        Raises:
            ProviderUnavailableError: there is no such answer in time.
        """
        return await self._ask("GET", url)

    async def post(self, url: str, form: Mapping[str, str], client: tuple[str, str]) -> dict[str, Any]:
        """Post a form as `client`, a name and its secret, and return the JSON object of the answer.

        Raises:
            ProviderUnavailableError: there is no such answer in time.
        """
        return await self._ask("POST", url, form, client)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._calls.aclose()

    async def _ask(
        self, method: str, url: str, form: Mapping[str, str] | None = None, client: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        try:
            address = Address.parse(url)
        except AddressError:
            raise ProviderUnavailableError("an address of the provider is not a URL") from None
        try:
            answer = await self._calls.send(
                method, address, proxy=address.proxy, headers=_HEADERS, form=form, user=client
            )
        except HttpCallError as error:
            raise ProviderUnavailableError(f"{address.shown}: {_fault(error)}") from None
        if answer.status != HTTPStatus.OK:
            raise ProviderUnavailableError(f"{address.shown}: HTTP {answer.status}", status=answer.status)
        value = _object(answer.body)
        if value is None:
            raise ProviderUnavailableError(f"{address.shown}: its answer is not a JSON object")
        return value


def _fault(error: HttpCallError) -> str:
    if error.reason is Reason.TIMED_OUT:
        return "it did not answer in time"
    if error.reason is Reason.TOO_LARGE:
        return "its answer is too large"
    return error.error_type or "its answer cannot be used"


def _object(body: bytes) -> dict[str, Any] | None:
    """Return the JSON object of an answer, None if it is anything else."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


KNOWN: Final = "known"
"""The sender of all tokens that were valid when the provider was last asked about them. No address is called so."""

_MAX_KNOWN: Final = 32
_MAX_OTHERS: Final = 64
# Together they are fewer than the 100 connections of a client of httpx, so that keys can be fetched beside them.
_AWAY_SECONDS: Final = 2.0
# The provider is not asked again so soon after it failed.
_MAX_AWAY: Final = 1024
_IPV6_NETWORK: Final = 2**128 - 2**64


class Turns:
    """Counts open questions by their sender, and lets a failed one hold up its own sender only."""

    def __init__(self) -> None:
        """Let everyone ask."""
        self._open: Counter[str] = Counter()
        self._away: OrderedDict[str, float] = OrderedDict()

    @contextmanager
    def taken(self, sender: str) -> Iterator[None]:
        """Count the question that is asked inside.

        Raises:
            ProviderUnavailableError: the sender may not ask now.
        """
        if time.monotonic() < self._away.get(sender, float("-inf")) or not self._has_room(sender):
            raise ProviderUnavailableError("the provider cannot be asked about the token now")
        self._open[sender] += 1
        try:
            yield
        except ProviderUnavailableError as error:
            if not error.answered:
                self._hold_up(sender)
            raise
        finally:
            self._open[sender] -= 1
            if not self._open[sender]:
                del self._open[sender]

    def _has_room(self, sender: str) -> bool:
        if sender == KNOWN:
            return self._open[KNOWN] < _MAX_KNOWN
        # A sender has at most as many turns as it leaves to others: the first one half of them, the next one a quarter.
        others = self._open.total() - self._open[KNOWN]
        return self._open[sender] < _MAX_OTHERS - others

    def _hold_up(self, sender: str) -> None:
        self._away[sender] = time.monotonic() + _AWAY_SECONDS
        self._away.move_to_end(sender)
        while len(self._away) > _MAX_AWAY:
            self._away.popitem(last=False)


def sender_of(address: str) -> str:
    """Return the sender at a network address: IPv6 gives a whole network to each customer."""
    try:
        found = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    return str(found.ipv4_mapped or ipaddress.IPv6Address(int(found) & _IPV6_NETWORK))
