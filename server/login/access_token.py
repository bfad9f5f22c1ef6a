"""The result of a verified token: the SDK's access token with its principal, and without the secret."""

from __future__ import annotations

import json

from mcp.server.auth.provider import AccessToken

from server.access.principal import Principal  # noqa: TC001 - pydantic reads the annotation

__all__ = ["LoginToken", "ProviderUnavailableError", "login_token"]


class ProviderUnavailableError(Exception):
    """The identity provider cannot be asked, so the token is neither valid nor invalid.

    `answered` is true if the provider refused this one question, and may well answer others.
    """

    def __init__(self, message: str, *, answered: bool = False) -> None:
        super().__init__(message)
        self.answered = answered


class LoginToken(AccessToken):
    """An access token of the SDK; `token` is empty, so that nothing after the login can show or pass on the secret."""

    principal: Principal


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
