"""Principals: on whose behalf a request is made."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

__all__ = [
    "ADMIN_ROLE",
    "LOCAL",
    "METRICS_ROLE",
    "STRANGER",
    "Principal",
    "PrincipalKind",
    "principal_of",
    "principal_of_scope",
]


ADMIN_ROLE = "admin"
"""The role of the admin token; `login.admin_roles` says which roles may use the admin routes."""

METRICS_ROLE = "metrics"
"""The role that may read the metrics, and nothing more of the operator's routes."""


class PrincipalKind(StrEnum):
    """How a principal proved who it is."""

    LOCAL = "local"
    """Not at all: the client of stdio, or any client of a server without login."""
    TOKEN = "token"  # noqa: S105 - the name of a kind
    """By a static token of `skillserve token`."""
    JWT = "jwt"
    """By a token that the identity provider signed."""
    OPAQUE = "opaque"
    """By a token that the identity provider confirmed by introspection."""
    NONE = ""
    """Not at all, at a server that requires a login."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The user or service behind a request; it contains no secret, so it may be logged.

    `subject` is unique for one kind and issuer only. `client_id` is the OAuth client that the token was issued to.
    `expires_at` is in seconds since 1970, None for a token that does not expire.
    """

    subject: str
    kind: PrincipalKind
    roles: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    client_id: str | None = None
    expires_at: int | None = None


LOCAL = Principal("local", PrincipalKind.LOCAL)
"""The principal of stdio, and of every request to a server without login."""

STRANGER = Principal("", PrincipalKind.NONE)
"""The sender of a request whose login is not accepted yet, or is refused."""


def principal_of(ctx: ServerRequestContext[Any, Any]) -> Principal:
    """Return the principal of a request in either protocol era.

    The token of the HTTP request decides, not the token that opened the session.
    """
    return principal_of_scope(getattr(ctx.request, "scope", None))


def principal_of_scope(scope: object) -> Principal:
    """Return the principal that the login middleware left in an ASGI scope, `LOCAL` if there is none."""
    user = scope.get("user") if isinstance(scope, dict) else None
    principal = getattr(getattr(user, "access_token", None), "principal", None)
    return principal if isinstance(principal, Principal) else LOCAL
