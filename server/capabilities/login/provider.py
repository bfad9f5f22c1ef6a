"""Requests to the identity provider: bounded in time and size, without redirects, and never with a user's request.

The senders of tokens take turns: no sender of invented tokens takes the turns of others.
"""

from __future__ import annotations

import ipaddress
import json
import time
from collections import Counter, OrderedDict
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx2

from server.capabilities.login.access_token import ProviderUnavailableError
from server.capabilities.remote.address import Address, AddressError

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
_HEADERS: Final = {"Accept": "application/json, application/*+json", "Accept-Encoding": "identity"}


class Provider:
    """The HTTP client of one identity provider."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        """Open no connection yet; a request ends after `seconds`."""
        self._seconds = seconds
        self._transports: dict[str | None, httpx2.AsyncHTTPTransport] = {}

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
        return await self._ask("POST", url, data=dict(form), auth=httpx2.BasicAuth(*client))

    async def aclose(self) -> None:
        """Close the connections."""
        while self._transports:
            _, transport = self._transports.popitem()
            with suppress(Exception):
                await transport.aclose()

    async def _ask(self, method: str, url: str, **content: Any) -> dict[str, Any]:  # noqa: ANN401 - for httpx
        try:
            address = Address.parse(url)
        except AddressError:
            raise ProviderUnavailableError("an address of the provider is not a URL") from None
        try:
            with anyio.fail_after(self._seconds):
                body = await self._answer(method, address, content)
        except ProviderUnavailableError:
            raise
        except TimeoutError:
            fault = "it did not answer in time"
        except Exception as error:  # noqa: BLE001 - the proxy, the certificates and the answer fail in many ways
            # The texts of errors may repeat what the provider sent, or a proxy's password.
            fault = type(error).__name__
        else:
            value = _object(body)
            if value is not None:
                return value
            fault = "its answer is not a JSON object"
        raise ProviderUnavailableError(f"{address.shown}: {fault}")

    async def _answer(self, method: str, address: Address, content: dict[str, Any]) -> bytes:
        # Not closed: its connections belong to the transport, which serves the next request.
        client = httpx2.AsyncClient(transport=self._transport(address.proxy), timeout=self._seconds, trust_env=False)
        async with client.stream(method, address.url, headers=_HEADERS, **content) as response:
            if response.status_code != httpx2.codes.OK:
                message = f"{address.shown}: HTTP {response.status_code}"
                raise ProviderUnavailableError(message, status=response.status_code)
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > _MAX_BYTES:
                    raise ProviderUnavailableError(f"{address.shown}: its answer is too large")
        return bytes(body)

    def _transport(self, proxy: str | None) -> httpx2.AsyncHTTPTransport:
        if proxy not in self._transports:
            self._transports[proxy] = httpx2.AsyncHTTPTransport(proxy=proxy)
        return self._transports[proxy]


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
