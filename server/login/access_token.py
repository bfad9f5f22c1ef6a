"""The result of a verified token: the SDK's access token with its principal, and without the secret."""

from __future__ import annotations

import json
from typing import Final

from mcp.server.auth.provider import AccessToken

from server.access.principal import Principal  # noqa: TC001 - pydantic reads the annotation

__all__ = ["LoginToken", "ProviderUnavailableError", "login_token"]

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
        """Whether the provider refused this one question, and may well answer others.

        Whoever sends an invented token can bring such an answer about, so no other token may suffer from it.
        """
        return self.status in _CLIENT_ERRORS and self.status not in _NOT_OF_THE_TOKEN


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
