"""The result of a verified token: the SDK's access token with its principal, and without the secret."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from server.access import Principal

if TYPE_CHECKING:
    import anyio

    from server.access import PrincipalKind
    from server.capabilities.login.settings import LoginSettings


class LoginToken(AccessToken):
    """An access token of the SDK; `token` is empty, so that nothing after the login can show or pass on the secret."""

    principal: Principal

    @cached_property
    def user(self) -> AuthenticatedUser:
        """What the SDK knows of the sender of the token: one object for all requests."""
        return AuthenticatedUser(self)


OpenResponses: TypeAlias = "dict[anyio.CancelScope, tuple[LoginToken, str]]"
"""The scopes of the responses that are being sent, each with the token of its request and the text of that token."""


def login_token(principal: Principal, issuer: str) -> LoginToken:
    """Return the token of a verified principal.

    The SDK serves a session only for the client, issuer and subject that opened it. The subject includes the roles, so
    that no caller whose roles have changed continues a session, which notifies of what the earlier roles show.
    """
    return LoginToken(
        token="",
        client_id=principal.client_id or "",
        scopes=sorted(principal.scopes),
        expires_at=principal.expires_at,
        subject=json.dumps([principal.subject, *sorted(principal.roles)]),
        claims={"iss": issuer},
        principal=principal,
    )


def digest_of(text: str) -> bytes:
    """Return the SHA-256 of a token, by which it is remembered: no token stays in memory."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


_FOREIGN_TYPES: Final = ("ID", "Refresh", "Offline", "Logout")
# Keycloak names the type of a token in the claim `typ`.
_ACCESS: Final = ("access", "access_token")
# Cognito and Hydra name the type in the claim `token_use`.

BOUND: Final = "it is bound to a key of its client (cnf, as with DPoP or mTLS), and this server cannot check that"
"""Why such a token is refused."""

_MAX_WORDS: Final = 200
_MAX_LENGTH: Final = 256
_MAX_TIME: Final = 2**53


def principal_from(claims: Mapping[str, Any], kind: PrincipalKind, settings: LoginSettings) -> Principal | None:
    """Return the principal of verified claims, None if they name no subject or an impossible expiry."""
    subject = _text(claims.get("sub"))
    expires = claims.get("exp")
    if subject is None or not (expires is None or is_time(expires)):
        return None
    roles = _words(_claim(claims, settings.roles_claim))
    if not roles and settings.default_role is not None:
        roles = frozenset({settings.default_role})
    # Entra calls the scopes `scp`.
    scopes = _words(claims.get("scope")) | _words(claims.get("scp"))
    client = _text(claims.get("client_id")) or _text(claims.get("azp"))
    return Principal(subject, kind, roles, scopes, client, None if expires is None else int(expires))


def is_for(audience: str, claim: object) -> bool:
    """Tell whether a claim `aud` names an audience; an audience that is missing names none."""
    return claim == audience or (isinstance(claim, list) and audience in claim)


def serves_its_bearer(claims: Mapping[str, Any]) -> bool:
    """Tell whether claims are those of an access token that serves its bearer.

    ID tokens are for a client, and refresh tokens for the provider.
    """
    if is_bound(claims) or {"at_hash", "c_hash"} & claims.keys() or claims.get("typ") in _FOREIGN_TYPES:
        return False
    return claims.get("token_use", "access") in _ACCESS


def is_bound(claims: Mapping[str, Any]) -> bool:
    """Tell whether a token is bound to a key of its client (DPoP, mTLS), which each request would have to prove."""
    return "cnf" in claims


def _claim(claims: Mapping[str, Any], path: str) -> object:
    """Return a claim by its name, or by a path with dots into other claims; names may contain dots themselves."""
    if path in claims:
        return claims[path]
    found: object = claims
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _words(value: object) -> frozenset[str]:
    words = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    return frozenset(word for word in words[:_MAX_WORDS] if _text(word) is not None)


def is_time(value: object) -> TypeGuard[float]:
    """Tell whether a claim is a possible time, which `NaN` is not."""
    return isinstance(value, int | float) and 0 <= value < _MAX_TIME


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _MAX_LENGTH and value.isprintable() else None
