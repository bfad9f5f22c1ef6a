"""Verify access tokens that are JWTs signed by the identity provider."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import jwt

from server.access.principal import PrincipalKind
from server.login.access_token import login_token
from server.login.claims import principal_from

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jwt.types import Options

    from server.config.settings import LoginSettings
    from server.login.access_token import LoginToken
    from server.login.keys import SigningKeys

__all__ = ["JwtVerifier", "looks_like_jwt"]

logger = logging.getLogger(__name__)

_TYPES: Final = frozenset({None, "jwt", "at+jwt", "application/at+jwt"})
# Other types are not access tokens, such as logout+jwt and dpop+jwt.

_FOREIGN_TYPES: Final = ("ID", "Refresh", "Offline", "Logout")
# Keycloak names the type of a token in a claim.

_OPTIONS: Final[Options] = {"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True}

_FAULTS: Final = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)
# Hostile tokens also contain numbers and structures that the library does not expect.


def looks_like_jwt(text: str) -> bool:
    """Tell whether a token has the three parts of a signed JWT."""
    return text.count(".") == 2  # noqa: PLR2004 - header, claims, signature


def _is_bearer(claims: Mapping[str, Any]) -> bool:
    """Tell whether claims are those of an access token that serves its bearer.

    ID tokens are for a client, and refresh tokens for the provider. A token that is bound to a key of its client (DPoP,
    mTLS) would need a proof of that key with each request.
    """
    return not {"at_hash", "c_hash", "cnf"} & claims.keys() and claims.get("typ") not in _FOREIGN_TYPES


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
            ProviderUnavailableError: the provider's keys were never fetched, and cannot be fetched now.
        """
        try:
            header = jwt.get_unverified_header(text)
        except _FAULTS:
            return None
        kind, algorithm = header.get("typ"), header.get("alg")
        kind = kind.lower() if isinstance(kind, str) else kind
        # The headers jwk, jku, x5c and x5u, which name a key of the sender's choice, are ignored.
        if not isinstance(kind, str | None) or kind not in _TYPES or "crit" in header:
            return None
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            return None
        key = await self._keys.find(header.get("kid"), algorithm)
        return None if key is None else self._verified(text, key)

    def _verified(self, text: str, key: jwt.PyJWK) -> LoginToken | None:
        try:
            claims = self._library.decode(
                text,
                key,
                algorithms=[key.algorithm_name],
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=self._settings.leeway_seconds,
            )
            principal = principal_from(claims, PrincipalKind.JWT, self._settings) if _is_bearer(claims) else None
        except _FAULTS as error:
            logger.debug("a JWT is invalid: %s", type(error).__name__)
            return None
        return None if principal is None else login_token(principal, self._settings.issuer or "")
