"""Requests to the identity provider: bounded in time and size, without redirects, and never with a user's request."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx2

from server.login.access_token import ProviderUnavailableError
from server.remote.address import Address

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Provider"]

logger = logging.getLogger(__name__)

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
        for transport in self._transports.values():
            await transport.aclose()
        self._transports.clear()

    async def _ask(self, method: str, url: str, **content: Any) -> dict[str, Any]:  # noqa: ANN401 - for httpx
        # The texts of errors may repeat what the provider sent, so only their kinds are reported.
        try:
            with anyio.fail_after(self._seconds):
                return await self._answer(method, url, content)
        except TimeoutError:
            fault = "it did not answer in time"
        except httpx2.HTTPError as error:
            fault = type(error).__name__
        except (ValueError, RecursionError):
            fault = "its answer is not a JSON object"
        raise ProviderUnavailableError(f"{Address.parse(url).shown}: {fault}")

    async def _answer(self, method: str, url: str, content: dict[str, Any]) -> dict[str, Any]:
        # Not closed: its connections belong to the transport, which serves the next request.
        client = httpx2.AsyncClient(transport=self._transport(url), timeout=self._seconds, trust_env=False)
        async with client.stream(method, url, headers=_HEADERS, **content) as response:
            if response.status_code != httpx2.codes.OK:
                raise ProviderUnavailableError(f"{Address.parse(url).shown}: HTTP {response.status_code}")
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > _MAX_BYTES:
                    raise ProviderUnavailableError(f"{Address.parse(url).shown}: its answer is too large")
        value = json.loads(body)
        if not isinstance(value, dict):
            raise ValueError  # noqa: TRY004 - as a text that is not JSON
        return value

    def _transport(self, url: str) -> httpx2.AsyncHTTPTransport:
        proxy = Address.parse(url).proxy
        if proxy not in self._transports:
            self._transports[proxy] = httpx2.AsyncHTTPTransport(proxy=proxy)
        return self._transports[proxy]
