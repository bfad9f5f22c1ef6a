"""Requests to the identity provider: bounded in time and size, without redirects, and never with a user's request."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx2

from server.login.access_token import ProviderUnavailableError
from server.remote.address import Address, AddressError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Provider"]

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
