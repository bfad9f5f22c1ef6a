"""Verify access tokens that are JWTs, with the identity provider's public keys (JWKS).

One task fetches the keys, and they are kept while the provider is away.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import anyio
import jwt

from server.access import PrincipalKind
from server.capabilities.login.provider_requests import ProviderUnavailableError, provider_metadata
from server.capabilities.login.refusals import RefusalLog
from server.capabilities.login.settings import is_safe_address
from server.capabilities.login.token_claims import (
    BOUND,
    digest_of,
    is_bound,
    login_token,
    principal_from,
    serves_its_bearer,
)

if TYPE_CHECKING:
    from jwt.types import Options

    from server.capabilities.login.provider_requests import Provider
    from server.capabilities.login.settings import LoginSettings
    from server.capabilities.login.token_claims import LoginToken

logger = logging.getLogger(__name__)

_MAX_KEYS: Final = 64
_FRESH_SECONDS: Final = 600.0
# Keys are fetched again this often, so that a key that the provider withdrew is refused.
_COOLDOWN_SECONDS: Final = 10.0
# An unknown key ID makes the server fetch the keys at most this often, because attackers invent IDs.
_RETRY_SECONDS: Final = 1.0
# After a failure, an unknown key ID makes the server fetch the keys sooner.
_AWAY_SECONDS: Final = 30.0
# After a failure, the keys are fetched again after this time even if no token needs them.
_WAIT_SECONDS: Final = 6.0
_MAX_WAITING: Final = 64
_MAX_VALID: Final = 4096
# Verified tokens that are remembered until they expire or the keys change.
_KINDS: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class SigningKeys:
    """The keys by which tokens may be signed."""

    def __init__(self, settings: LoginSettings, provider: Provider) -> None:
        """Fetch nothing yet; `run` does."""
        self._settings = settings
        self._provider = provider
        self._jwks: tuple[dict[str, Any], ...] = ()
        # Whether the last attempt to fetch them succeeded; None before the first one.
        self._is_current: bool | None = None
        self._parsed: dict[tuple[str | None, str], jwt.PyJWK | None] = {}
        self._wanted = anyio.Event()
        self._fetched = anyio.Event()
        self._last_attempt = float("-inf")
        self._waiting = 0

    async def find(self, key_id: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key with this ID for this algorithm; without an ID, the only key for the algorithm.

        Raises:
            ProviderUnavailableError: the key is unknown, and the provider cannot be asked for its keys now.
        """
        key = self._key(key_id, algorithm)
        cooldown = _COOLDOWN_SECONDS if self._is_current else _RETRY_SECONDS
        if key is None and time.monotonic() - self._last_attempt >= cooldown:
            is_done = await self._wait_for_fetch()
            key = self._key(key_id, algorithm)
            if key is None and not is_done:
                raise ProviderUnavailableError("the provider's keys cannot be fetched in time")
        if key is None and not self._is_current:
            # The provider may have this key by now.
            raise ProviderUnavailableError("the provider's keys cannot be fetched now")
        return key

    @property
    def published(self) -> tuple[dict[str, Any], ...]:
        """The provider's keys; another object once they have changed."""
        return self._jwks

    async def run(self) -> None:
        """Fetch the keys at once, at intervals, and when a token names an unknown key, until cancelled."""
        while True:
            try:
                await self._fetch()
            except ProviderUnavailableError as error:
                level = logging.DEBUG if self._is_current is False else logging.WARNING
                logger.log(level, "the keys of the identity provider cannot be fetched: %s", error)
                self._is_current = False
            else:
                if self._is_current is False:
                    logger.info("the keys of the identity provider are fetched again")
                self._is_current = True
            self._last_attempt = time.monotonic()
            # This also answers the tokens that came meanwhile.
            self._wanted = anyio.Event()
            fetched, self._fetched = self._fetched, anyio.Event()
            fetched.set()
            with anyio.move_on_after(_FRESH_SECONDS if self._is_current else _AWAY_SECONDS):
                await self._wanted.wait()

    async def _wait_for_fetch(self) -> bool:
        """Have the keys fetched; return whether that was done in time."""
        if self._waiting >= _MAX_WAITING:
            return False
        self._waiting += 1
        try:
            with anyio.move_on_after(_WAIT_SECONDS) as waiting:
                fetched = self._fetched
                self._wanted.set()
                await fetched.wait()
        finally:
            self._waiting -= 1
        return not waiting.cancelled_caught

    async def _fetch(self) -> None:
        url = self._settings.jwks_url or await self._discover()
        keys = (await self._provider.get(url)).get("keys")
        if not isinstance(keys, list) or len(keys) > _MAX_KEYS:
            raise ProviderUnavailableError(f"its answer is not a set of at most {_MAX_KEYS} keys")
        jwks = tuple(key for key in keys if isinstance(key, dict))
        if jwks != self._jwks:
            self._jwks, self._parsed = jwks, {}

    async def _discover(self) -> str:
        """Return the address of the keys from the provider's metadata."""
        url = (await provider_metadata(self._provider, self._settings.issuer or "")).get("jwks_uri")
        if not isinstance(url, str) or not is_safe_address(url):
            raise ProviderUnavailableError("its metadata has no usable jwks_uri; set login.jwks_url")
        return url

    def _key(self, key_id: str | None, algorithm: str) -> jwt.PyJWK | None:
        wanted = (key_id, algorithm)
        if wanted in self._parsed:
            return self._parsed[wanted]
        fitting = [key for key in self._jwks if _fits(key, key_id, algorithm)]
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


_TYPES: Final = frozenset({None, "jwt", "at+jwt", "application/at+jwt"})
# Other types are not access tokens, such as logout+jwt and dpop+jwt.

_OPTIONS: Final[Options] = {"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True}

_REASONS: Final[dict[type[Exception], str]] = {
    jwt.ExpiredSignatureError: "it has expired",
    jwt.ImmatureSignatureError: "it is not valid yet",
    jwt.InvalidAudienceError: "it is for another audience than login.audience",
    jwt.InvalidIssuerError: "it is of another issuer than login.issuer",
    jwt.InvalidSignatureError: "its signature is wrong",
}

_FAULTS: Final = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)
# Hostile tokens also contain numbers and structures that the library does not expect.


class _InvalidTokenError(Exception):
    """A token is invalid; the message contains nothing of it. The provider has signed it if it is `genuine`."""

    def __init__(self, message: str, *, genuine: bool = False) -> None:
        super().__init__(message)
        self.genuine = genuine


def looks_like_jwt(text: str) -> bool:
    """Tell whether a token has the three parts of a signed JWT."""
    return text.count(".") == 2  # noqa: PLR2004 - header, claims, signature


class JwtVerifier:
    """Verifies signature, algorithm, issuer, audience and times; the key comes from the provider's set alone."""

    def __init__(self, settings: LoginSettings, keys: SigningKeys, refusals: RefusalLog | None = None) -> None:
        """Accept what `settings` say; refused tokens are logged in `refusals`."""
        self._settings = settings
        self._refusals = refusals or RefusalLog()
        self._algorithms = frozenset(map(str, settings.algorithms))
        self._keys = keys
        self._library = jwt.PyJWT(_OPTIONS)
        self._valid: OrderedDict[bytes, LoginToken] = OrderedDict()
        self._signed_by = keys.published

    def known(self, text: str) -> LoginToken | None:
        """Return the token if it was verified before, by the keys of today, and has not expired."""
        token = self._verified_before.get(digest_of(text))
        is_current = token is not None and time.time() < (token.expires_at or 0) + self._settings.leeway_seconds
        return token if is_current else None

    async def verify(self, text: str) -> LoginToken | None:
        """Return the verified token, None if it is invalid.

        Raises:
            ProviderUnavailableError: its key is unknown, and the provider cannot be asked for its keys now.
        """
        if (known := self.known(text)) is not None:
            return known
        try:
            token = await self._verified(text)
        except _InvalidTokenError as error:
            self._refusals.token(text, str(error), genuine=error.genuine)
            return None
        # It is verified in one step with finding its key, so it is signed by one of the keys of now.
        self._verified_before[digest_of(text)] = token
        if len(self._valid) > _MAX_VALID:
            self._valid.popitem(last=False)
        return token

    @property
    def _verified_before(self) -> OrderedDict[bytes, LoginToken]:
        """The tokens that were verified by the keys of now."""
        if self._signed_by is not self._keys.published:
            self._signed_by = self._keys.published
            self._valid.clear()
        return self._valid

    async def _verified(self, text: str) -> LoginToken:
        try:
            header = jwt.get_unverified_header(text)
        except _FAULTS:
            raise _InvalidTokenError("its header is invalid") from None
        kind, algorithm = header.get("typ"), header.get("alg")
        kind = kind.lower() if isinstance(kind, str) else kind
        # The headers jwk, jku, x5c and x5u, which name a key of the sender's choice, are ignored.
        if not isinstance(kind, str | None) or kind not in _TYPES or "crit" in header:
            raise _InvalidTokenError("it is not an access token")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise _InvalidTokenError("its algorithm is not one of login.algorithms")
        key = await self._keys.find(header.get("kid"), algorithm)
        if key is None:
            raise _InvalidTokenError("the provider has no such key")
        return self._decoded(text, key)

    def _decoded(self, text: str, key: jwt.PyJWK) -> LoginToken:
        try:
            claims = self._library.decode(
                text,
                key,
                algorithms=[key.algorithm_name],
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=self._settings.leeway_seconds,
            )
            principal = principal_from(claims, PrincipalKind.JWT, self._settings)
        except _FAULTS as error:
            # The library checks the signature first.
            genuine = type(error) in _REASONS and not isinstance(error, jwt.InvalidSignatureError)
            raise _InvalidTokenError(_reason(error), genuine=genuine) from None
        if is_bound(claims):
            raise _InvalidTokenError(BOUND, genuine=True)
        if principal is None or not serves_its_bearer(claims):
            raise _InvalidTokenError("it is not an access token of a user or client", genuine=True)
        return login_token(principal, self._settings.issuer or "")


def _reason(error: Exception) -> str:
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"it has no claim {error.claim}"
    return next((reason for kind, reason in _REASONS.items() if isinstance(error, kind)), "its claims are invalid")
