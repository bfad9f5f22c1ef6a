"""Requests to the identity provider: bounded in time and size, without redirects, and never with a user's request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from server.wire.address import Address, AddressError
from server.wire.http_client import HttpCallError, HttpCalls
from skills_core.diagnostics import Reason

_SECONDS: Final = 5.0
_MAX_BYTES: Final = 512 * 1024
_HEADERS: Final = {"Accept": "application/json, application/*+json"}
_CLIENT_ERRORS: Final = range(400, 500)
_NOT_OF_THE_TOKEN: Final = (401, 407, 408)
# The provider or a proxy refuses the server's own credentials, or has waited too long for its request.


class ProviderUnavailableError(Exception):
    """The identity provider cannot be asked, so the token is neither valid nor invalid.

    `status` is that of the provider's answer, None if there was none.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status

    @property
    def answered(self) -> bool:
        """Whether the provider refused this one question, and may still answer others.

        An invented token can cause such an answer, so it must not affect other tokens.
        """
        return self.status in _CLIENT_ERRORS and self.status not in _NOT_OF_THE_TOKEN


class Provider:
    """Asks one identity provider."""

    def __init__(self) -> None:
        """Open no connection yet."""
        self._calls = HttpCalls(_SECONDS, _MAX_BYTES)

    async def get(self, url: str) -> dict[str, Any]:
        """Return the JSON object at an address.

        Raises:
            ProviderUnavailableError: there is no such answer in time.
        """
        return await self._ask("GET", url)

    async def post(self, url: str, form: Mapping[str, str], client: tuple[str, str] | None) -> dict[str, Any]:
        """Post a form and return the JSON object of the answer; `client` is a name and its secret, if it has one.

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


async def provider_metadata(provider: Provider, issuer: str) -> dict[str, Any]:
    """Return the metadata of an identity provider (OpenID Connect Discovery, RFC 8414).

    Raises:
        ProviderUnavailableError: it has none, cannot be asked, or its metadata is that of another issuer.
    """
    fault: ProviderUnavailableError | None = None
    for address in _places_of_metadata(issuer):
        try:
            found = await provider.get(address)
        except ProviderUnavailableError as error:
            fault = fault or error
            continue
        if found.get("issuer") != issuer:
            raise ProviderUnavailableError("its metadata names another issuer; correct login.issuer")
        return found
    raise fault or ProviderUnavailableError("it has no metadata")


def _places_of_metadata(issuer: str) -> Iterable[str]:
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    of_oauth = "/.well-known/oauth-authorization-server"
    base = issuer.rstrip("/")
    # RFC 8414 puts the path of an issuer behind; many providers do as OpenID Connect does.
    inserted = f"{parts.scheme}://{parts.netloc}{of_oauth}{path}"
    return dict.fromkeys((f"{base}/.well-known/openid-configuration", base + of_oauth, inserted))


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
