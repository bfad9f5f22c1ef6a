"""What clients learn of the login: the protected-resource metadata (RFC 9728), and refusals with `WWW-Authenticate`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from server.capabilities.login.settings import LoginSettings

__all__ = ["Challenges", "Refusal"]

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


class Refusal(StrEnum):
    """Why a request is refused."""

    MISSING = "missing"
    """It has no token."""
    MALFORMED = "malformed"
    """Its `Authorization` header does not contain one bearer token."""
    INVALID = "invalid"
    """Its token is unknown, expired, or meant for another server."""
    SCOPE = "scope"
    """Its token lacks a required scope."""
    ROLE = "role"
    """The roles of its token do not allow the action."""
    UNAVAILABLE = "unavailable"
    """The identity provider cannot be asked about the token."""


# The status, the error code of RFC 6750, and the description. A request without a token gets no error code there.
_ANSWERS: Final[dict[Refusal, tuple[int, str, str]]] = {
    Refusal.MISSING: (401, "", "log in: send an access token in the Authorization header"),
    Refusal.MALFORMED: (400, "invalid_request", "send one header Authorization: Bearer TOKEN"),
    Refusal.INVALID: (401, "invalid_token", "the access token is invalid or expired, or meant for another server"),
    Refusal.SCOPE: (403, "insufficient_scope", "the access token lacks a required scope"),
    Refusal.ROLE: (403, "access_denied", "the roles of the access token do not allow this"),
    Refusal.UNAVAILABLE: (503, "temporarily_unavailable", "the identity provider does not answer; try again later"),
}


class Challenges:
    """The answers of one server, which are the same in both protocol eras."""

    def __init__(self, settings: LoginSettings) -> None:
        """Describe the login of `settings`; without an issuer there is no metadata."""
        self._settings = settings
        self._responses = {refusal: self._response(refusal) for refusal in Refusal}

    def response(self, refusal: Refusal) -> JSONResponse:
        """Return the answer to a refused request."""
        return self._responses[refusal]

    def routes(self, path: str, profiles: Sequence[str] = ()) -> list[Route]:
        """Return the routes of the metadata: at the root, for the public address, and for `path` behind a proxy.

        Clients look for it below the address of a profile too. Its resource is always the endpoint, to which the paths
        of `profiles` belong, so that one audience serves for all.
        """
        settings = self._settings
        if settings.issuer is None:
            return []
        document = {
            "resource": settings.endpoint,
            "authorization_servers": [settings.issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": "skillserve",
            **({"scopes_supported": [*settings.requested_scopes]} if settings.requested_scopes else {}),
        }
        headers = {"Cache-Control": "max-age=3600", "Access-Control-Allow-Origin": "*"}

        async def metadata(_: Request) -> JSONResponse:
            return JSONResponse(document, headers=headers)

        public = urlsplit(settings.endpoint).path
        endpoints = dict.fromkeys(each.rstrip("/") for each in (public, path))
        below = [f"{each}/{name}" for each in endpoints for name in profiles]
        paths = dict.fromkeys(_WELL_KNOWN + each for each in ("", *endpoints, *below))
        return [Route(each, metadata, methods=["GET"]) for each in paths]

    def _response(self, refusal: Refusal) -> JSONResponse:
        status, code, description = _ANSWERS[refusal]
        headers = {"Cache-Control": "no-store"}
        if refusal is Refusal.UNAVAILABLE:
            headers["Retry-After"] = "5"
        elif refusal is not Refusal.ROLE:
            # Of a challenge, clients conclude that another token of this user would do.
            headers["WWW-Authenticate"] = self._challenge(code, description)
        return JSONResponse({"error": code or "unauthorized", "error_description": description}, status, headers)

    def _challenge(self, code: str, description: str) -> str:
        parts = {"error": code, "error_description": description} if code else {}
        if self._settings.requested_scopes:
            parts["scope"] = " ".join(self._settings.requested_scopes)
        if self._settings.issuer is not None:
            address = urlsplit(self._settings.endpoint)
            path = _WELL_KNOWN + address.path.rstrip("/")
            parts["resource_metadata"] = f"{address.scheme}://{address.netloc}{path}"
        parts = parts or {"realm": "skillserve"}
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items())
