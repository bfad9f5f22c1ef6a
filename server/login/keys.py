"""The provider's public keys (JWKS): cached, fetched by one task, and kept while the provider is away."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

import anyio
import jwt

from server.config.settings import is_safe_address
from server.login.access_token import ProviderUnavailableError

if TYPE_CHECKING:
    from server.config.settings import LoginSettings
    from server.login.provider import Provider

__all__ = ["SigningKeys"]

logger = logging.getLogger(__name__)

_MAX_KEYS: Final = 64
_FRESH_SECONDS: Final = 600.0
# Keys are fetched again this often, so that a key that the provider withdrew is refused.
_COOLDOWN_SECONDS: Final = 10.0
# An unknown key ID makes the server fetch the keys at most this often, because attackers invent IDs.
_RETRY_SECONDS: Final = 1.0
# Until the first keys are there, they are fetched again sooner.
_WAIT_SECONDS: Final = 6.0
_MAX_WAITING: Final = 64
_KINDS: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_PATHS: Final = ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server")


class SigningKeys:
    """The keys by which tokens may be signed."""

    def __init__(self, settings: LoginSettings, provider: Provider, cooldown: float = _COOLDOWN_SECONDS) -> None:
        """Fetch nothing yet; `run` does."""
        self._settings = settings
        self._provider = provider
        self._cooldown = cooldown
        self._jwks: tuple[dict[str, Any], ...] | None = None
        self._parsed: dict[tuple[str | None, str], jwt.PyJWK | None] = {}
        self._wanted = anyio.Event()
        self._fetched = anyio.Event()
        self._last_attempt = float("-inf")
        self._waiting = 0

    async def find(self, key_id: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key with this ID for this algorithm; without an ID, the only key for the algorithm.

        Raises:
            ProviderUnavailableError: the keys were never fetched, and cannot be fetched now.
        """
        key = self._key(key_id, algorithm)
        cooldown = min(self._cooldown, _RETRY_SECONDS) if self._jwks is None else self._cooldown
        if key is None and time.monotonic() - self._last_attempt >= cooldown:
            await self._wait_for_fetch()
            key = self._key(key_id, algorithm)
        if key is None and self._jwks is None:
            raise ProviderUnavailableError("the provider's keys are not known yet")
        return key

    async def run(self) -> None:
        """Fetch the keys at once, at intervals, and when a token names an unknown key, until cancelled."""
        while True:
            await self._fetch()
            self._last_attempt = time.monotonic()
            # Wishes that came meanwhile are fulfilled.
            self._wanted = anyio.Event()
            fetched, self._fetched = self._fetched, anyio.Event()
            fetched.set()
            with anyio.move_on_after(_FRESH_SECONDS):
                await self._wanted.wait()

    async def _wait_for_fetch(self) -> None:
        if self._waiting >= _MAX_WAITING:
            return
        self._waiting += 1
        try:
            with anyio.move_on_after(_WAIT_SECONDS):
                fetched = self._fetched
                self._wanted.set()
                await fetched.wait()
        finally:
            self._waiting -= 1

    async def _fetch(self) -> None:
        try:
            url = self._settings.jwks_url or await self._discover()
            keys = (await self._provider.get(url)).get("keys")
        except ProviderUnavailableError as error:
            logger.warning("the keys of the identity provider cannot be fetched: %s", error)
            return
        if not isinstance(keys, list) or len(keys) > _MAX_KEYS:
            logger.warning("the identity provider's answer is not a set of at most %d keys", _MAX_KEYS)
            return
        jwks = tuple(key for key in keys if isinstance(key, dict))
        if jwks != self._jwks:
            self._jwks, self._parsed = jwks, {}

    async def _discover(self) -> str:
        """Return the address of the keys from the provider's metadata, which must be that of the issuer."""
        issuer = self._settings.issuer or ""
        fault: ProviderUnavailableError | None = None
        for path in _PATHS:
            try:
                found = await self._provider.get(issuer.rstrip("/") + path)
            except ProviderUnavailableError as error:
                fault = error
                continue
            url = found.get("jwks_uri")
            if found.get("issuer") != issuer:
                raise ProviderUnavailableError("its metadata names another issuer; correct login.issuer")
            if not isinstance(url, str) or not is_safe_address(url):
                raise ProviderUnavailableError("its metadata has no usable jwks_uri; set login.jwks_url")
            return url
        raise fault or ProviderUnavailableError("it has no metadata")

    def _key(self, key_id: str | None, algorithm: str) -> jwt.PyJWK | None:
        wanted = (key_id, algorithm)
        if wanted in self._parsed:
            return self._parsed[wanted]
        fitting = [key for key in self._jwks or () if _fits(key, key_id, algorithm)]
        if not fitting or (key_id is None and len(fitting) > 1):
            return None
        # Only IDs of real keys get an entry, so attackers cannot make it grow.
        self._parsed[wanted] = _parse(fitting[0], algorithm)
        return self._parsed[wanted]


def _fits(key: dict[str, Any], key_id: str | None, algorithm: str) -> bool:
    operations = key.get("key_ops")
    return (
        key.get("kty") == _KINDS.get(algorithm[:2])
        and (key_id is None or key.get("kid") == key_id)
        and key.get("alg", algorithm) == algorithm
        and key.get("use", "sig") == "sig"
        and (operations is None or (isinstance(operations, list) and "verify" in operations))
    )


def _parse(key: dict[str, Any], algorithm: str) -> jwt.PyJWK | None:
    # A private key in the set, which would be the provider's mistake, is used for its public part only.
    public = {name: value for name, value in key.items() if name not in {"d", "p", "q", "dp", "dq", "qi", "oth", "k"}}
    try:
        return jwt.PyJWK(public, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
        logger.warning("a key of the identity provider is invalid")
        return None
