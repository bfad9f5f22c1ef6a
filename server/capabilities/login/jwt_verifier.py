"""Verify access tokens that are JWTs signed by the identity provider."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import jwt

from server.access import PrincipalKind
from server.capabilities.login.access_token import BOUND, is_bound, login_token, principal_from, serves_its_bearer

if TYPE_CHECKING:
    from jwt.types import Options

    from server.capabilities.login.access_token import LoginToken
    from server.capabilities.login.keys import SigningKeys
    from server.capabilities.login.settings import LoginSettings

__all__ = ["JwtVerifier", "looks_like_jwt"]

logger = logging.getLogger(__name__)

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


class _RefusedError(Exception):
    """A token is invalid."""


def looks_like_jwt(text: str) -> bool:
    """Tell whether a token has the three parts of a signed JWT."""
    return text.count(".") == 2  # noqa: PLR2004 - header, claims, signature


class JwtVerifier:
    """Verifies signature, algorithm, issuer, audience and times; the key comes from the provider's set alone."""

    def __init__(self, settings: LoginSettings, keys: SigningKeys) -> None:
        """Accept what `settings` say."""
        self._settings = settings
        self._algorithms = frozenset(map(str, settings.algorithms))
        self._keys = keys
        self._library = jwt.PyJWT(_OPTIONS)

    async def verify(self, text: str) -> LoginToken | None:
        """Return the verified token, None if it is invalid.

        Raises:
            ProviderUnavailableError: its key is unknown, and the provider cannot be asked for its keys now.
        """
        try:
            return await self._verified(text)
        except _RefusedError as error:
            # Its reason has nothing of the token.
            logger.info("a token is refused: %s", error)
            return None

    async def _verified(self, text: str) -> LoginToken:
        try:
            header = jwt.get_unverified_header(text)
        except _FAULTS:
            raise _RefusedError("its header is invalid") from None
        kind, algorithm = header.get("typ"), header.get("alg")
        kind = kind.lower() if isinstance(kind, str) else kind
        # The headers jwk, jku, x5c and x5u, which name a key of the sender's choice, are ignored.
        if not isinstance(kind, str | None) or kind not in _TYPES or "crit" in header:
            raise _RefusedError("it is not an access token")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise _RefusedError("its algorithm is not one of login.algorithms")
        key = await self._keys.find(header.get("kid"), algorithm)
        if key is None:
            raise _RefusedError("the provider has no such key")
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
            raise _RefusedError(_reason(error)) from None
        if is_bound(claims):
            raise _RefusedError(BOUND)
        if principal is None or not serves_its_bearer(claims):
            raise _RefusedError("it is not an access token of a user or client")
        return login_token(principal, self._settings.issuer or "")


def _reason(error: Exception) -> str:
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"it has no claim {error.claim}"
    return next((reason for kind, reason in _REASONS.items() if isinstance(error, kind)), "its claims are invalid")
