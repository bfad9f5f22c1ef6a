"""The login of a server: which verifier a token goes to, and what a request without a valid token gets.

A refusal has a `WWW-Authenticate` header and points to the protected-resource metadata (RFC 9728).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio
from mcp.server.auth.middleware.auth_context import auth_context_var
from starlette.responses import JSONResponse
from starlette.routing import Route

from server.access import STRANGER, PrincipalKind
from server.capabilities.login.introspection import Introspection
from server.capabilities.login.jwt_verifier import JwtVerifier, SigningKeys, looks_like_jwt
from server.capabilities.login.provider_requests import Provider, ProviderUnavailableError
from server.capabilities.login.refusals import RefusalLog
from server.capabilities.login.settings import LoginSettings
from server.capabilities.login.static_tokens import PREFIX, StaticTokens, TokenFile
from server.capabilities.login.token_claims import LoginToken
from server.capability import Authentication
from server.config.machine import tokens_file
from server.requests import LOGIN_METHOD, NOTES, Notes, Records, RequestDecision, RequestRecord, address_of
from server.transport.event_streams import RESPONSE_KEY, OpenResponse

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from server.capabilities.login.token_claims import LoginToken, OpenResponses
    from server.hosting.host import Host

logger = logging.getLogger(__name__)

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


class LoginRefusal(StrEnum):
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
_ANSWERS: Final[dict[LoginRefusal, tuple[int, str, str]]] = {
    LoginRefusal.MISSING: (401, "", "log in: send an access token in the Authorization header"),
    LoginRefusal.MALFORMED: (400, "invalid_request", "send one header Authorization: Bearer TOKEN"),
    LoginRefusal.INVALID: (401, "invalid_token", "the access token is invalid or expired, or meant for another server"),
    LoginRefusal.SCOPE: (403, "insufficient_scope", "the access token lacks a required scope"),
    LoginRefusal.ROLE: (403, "access_denied", "the roles of the access token do not allow this"),
    LoginRefusal.UNAVAILABLE: (
        503,
        "temporarily_unavailable",
        "the identity provider does not answer; try again later",
    ),
}


class Challenges:
    """The answers of one server, which are the same in both protocol eras."""

    def __init__(self, settings: LoginSettings) -> None:
        """Describe the login of `settings`; without an issuer there is no metadata."""
        self._settings = settings
        self._responses = {refusal: self._response(refusal) for refusal in LoginRefusal}

    def response(self, refusal: LoginRefusal) -> JSONResponse:
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

    def _response(self, refusal: LoginRefusal) -> JSONResponse:
        status, code, description = _ANSWERS[refusal]
        headers = {"Cache-Control": "no-store"}
        if refusal is LoginRefusal.UNAVAILABLE:
            headers["Retry-After"] = "5"
        elif refusal is not LoginRefusal.ROLE:
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


_MAX_TOKEN: Final = 8192
# Characters; tokens of large organizations have some 2,000.

_MAX_PATH: Final = 200

_HEADER: Final = b"authorization"


class Login:
    """Authenticates requests."""

    def __init__(
        self, settings: LoginSettings, tokens: Path, provider: Provider | None = None, records: Records | None = None
    ) -> None:
        """Verify tokens as `settings` say; `tokens` is the file of static tokens, `provider` the identity provider.

        Refused requests are recorded in `records`.

        Raises:
            TokenFileError: the file of static tokens cannot be used.
        """
        self._settings = settings
        self._records = records or Records()
        self._scopes = frozenset(settings.required_scopes)
        self.provider = provider or Provider()
        """Asks the identity provider, until `run` ends."""
        self.open: OpenResponses = {}
        """The responses that end with their tokens."""
        self._refusals = refusals = RefusalLog()
        self._static = StaticTokens(TokenFile(tokens), refusals, self.open) if settings.tokens else None
        self._keys = SigningKeys(settings, self.provider) if settings.issuer is not None else None
        self._jwt = JwtVerifier(settings, self._keys, refusals) if self._keys is not None else None
        has_introspection = settings.introspection_url is not None
        self._introspection = Introspection(settings, self.provider, refusals, self.open) if has_introspection else None
        self.challenges = Challenges(settings)

    async def run(self) -> None:
        """Keep keys, static tokens and the tokens of open responses current until cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                for each in (self._keys, self._static, self._introspection):
                    if each is not None:
                        tasks.start_soon(each.run)
        finally:
            with anyio.move_on_after(1, shield=True):
                await self.provider.aclose()

    async def verify_token(self, token: str, address: str = "") -> LoginToken | None:
        """Return the verified token, None if it is invalid; `address` is the network address that it comes from.

        Raises:
            ProviderUnavailableError: the identity provider cannot be asked.
        """
        verifier = self._verifier_of(token)
        if isinstance(verifier, StaticTokens):
            return await verifier.current(token)
        if isinstance(verifier, JwtVerifier):
            return await verifier.verify(token)
        if isinstance(verifier, Introspection):
            return await verifier.verify(token, address)
        self._refusals.token(token, verifier)
        return None

    def _verifier_of(self, token: str) -> StaticTokens | JwtVerifier | Introspection | str:
        """Return what verifies a token with this text, or why nothing does."""
        if len(token) > _MAX_TOKEN or not token.isascii():
            return f"it is longer than {_MAX_TOKEN} characters" if token.isascii() else "it is not ASCII"
        if token.startswith(PREFIX):
            return self._static or "it is one of `skillserve token`, and login.tokens is off"
        if self._jwt is not None and looks_like_jwt(token):
            return self._jwt
        if self._introspection is not None:
            return self._introspection
        if self._jwt is not None:
            return "it is not a JWT, and login.introspection_url is not set"
        return f"it does not begin with {PREFIX} as those of `skillserve token`, and login.issuer is not set"

    async def authenticate(self, scope: Scope) -> LoginToken | LoginRefusal:
        """Return the token of a request, or why the request is refused."""
        if not self._records.wanted:
            return await self._logged(scope)
        notes = Notes(self._records.new_id(), principal=STRANGER, address=address_of(scope))
        # The lines about a refused login have the id of its record.
        outer = NOTES.set(notes)
        try:
            result = await self._logged(scope)
        finally:
            NOTES.reset(outer)
        if isinstance(result, LoginRefusal):
            self._records.emit(_record(scope, notes, result))
        return result

    def known(self, text: str) -> LoginToken | None:
        """Return the token with this text if it is known to be valid, and sufficient, without asking anybody."""
        verifier = self._verifier_of(text)
        token = None if isinstance(verifier, str) else verifier.known(text)
        return token if token is not None and self._has_scopes(token) else None

    def _has_scopes(self, token: LoginToken) -> bool:
        # Static tokens have roles instead of scopes.
        return not self._scopes or token.principal.kind is PrincipalKind.TOKEN or self._scopes <= token.principal.scopes

    async def _logged(self, scope: Scope) -> LoginToken | LoginRefusal:
        result = await self._verify(scope)
        if result is LoginRefusal.MISSING:
            # Clients that log in begin with a request without a token.
            logger.debug("login refused: %s", result)
        elif result is LoginRefusal.MALFORMED or result is LoginRefusal.UNAVAILABLE:
            self._refusals.request(_ANSWERS[result][2])
        return result

    async def _verify(self, scope: Scope) -> LoginToken | LoginRefusal:
        text = _text(scope)
        if not text:
            is_given = any(name == _HEADER for name, _ in scope["headers"])
            return LoginRefusal.MALFORMED if is_given else LoginRefusal.MISSING
        try:
            token = await self.verify_token(text, address_of(scope))
        except ProviderUnavailableError:
            return LoginRefusal.UNAVAILABLE
        if token is None:
            return LoginRefusal.INVALID
        if not self._has_scopes(token):
            missing = " ".join(sorted(self._scopes - token.principal.scopes))
            self._refusals.request(
                f"the token lacks a scope of login.required_scopes: {missing}", sender=token.principal.subject
            )
            return LoginRefusal.SCOPE
        return token

    @contextmanager
    def lasting(self, token: LoginToken, request: Scope) -> Iterator[anyio.CancelScope]:
        """End what happens inside when the token of a request expires or is revoked; yield the scope."""
        with anyio.CancelScope() as scope:
            self.end_with(token, _text(request), scope)
            try:
                yield scope
            finally:
                del self.open[scope]

    def end_with(self, token: LoginToken, text: str, response: anyio.CancelScope) -> None:
        """Let the end of a token with this text end a response, until that is deleted from `open`."""
        if token.expires_at is not None:
            response.deadline = anyio.current_time() + self._seconds_left(token)
        self.open[response] = token, text

    def _seconds_left(self, token: LoginToken) -> float:
        if token.expires_at is None:
            return math.inf
        # The clock of another machine may differ; static tokens are this server's.
        leeway = 0 if token.principal.kind is PrincipalKind.TOKEN else self._settings.leeway_seconds
        return max(0.0, token.expires_at + leeway - time.time())


def _record(scope: Scope, notes: Notes, refusal: LoginRefusal) -> RequestRecord:
    return RequestRecord(
        method=LOGIN_METHOD,
        request_id=notes.request_id,
        principal=notes.principal,
        address=notes.address,
        target=str(scope["path"])[:_MAX_PATH],
        decision=RequestDecision.FAILED if refusal is LoginRefusal.UNAVAILABLE else RequestDecision.DENIED,
        reason=f"login_{refusal}",
    )


def _text(scope: Scope) -> str:
    """Return the text of the bearer token of a request, empty if it does not have exactly one."""
    headers = [value for name, value in scope["headers"] if name == _HEADER]
    scheme, _, given = headers[0].decode("latin-1").partition(" ") if len(headers) == 1 else ("", "", "")
    text: str = given.strip(" \t")
    return text if scheme.lower() == "bearer" and " " not in text and "," not in text else ""


class RequireLogin:
    """ASGI middleware within `EventStreams` that serves requests with a valid token, and tells the SDK their principal.

    The token itself is not passed on: `app` receives no `Authorization` header. A response, such as a stream of
    notifications, ends when the token expires or is revoked; that a provider revokes a JWT is not known here.
    """

    def __init__(self, app: ASGIApp, login: Login) -> None:
        """Serve `app` to those who log in."""
        self._app = app
        self._login = login

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        login, text = self._login, _text(scope)
        token = (login.known(text) if text else None) or await login.authenticate(scope)
        if isinstance(token, LoginRefusal):
            await login.challenges.response(token)(scope, receive, send)
            return
        user = token.user
        headers = [header for header in scope["headers"] if header[0] != _HEADER]
        response: OpenResponse = scope[RESPONSE_KEY]
        response.instead = self._refuse
        login.end_with(token, text, response.scope)
        outer = auth_context_var.set(user)
        try:
            await self._app({**scope, "headers": headers, "user": user}, receive, send)
        finally:
            auth_context_var.reset(outer)
            del login.open[response.scope]

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request whose token has ended before its answer began."""
        # The token may be as good as before, but the provider is away.
        refusal = await self._login.authenticate(scope)
        refusal = refusal if isinstance(refusal, LoginRefusal) else LoginRefusal.INVALID
        await self._login.challenges.response(refusal)(scope, receive, send)


class ServerLogin(Authentication):
    """The login of one server over HTTP."""

    def __init__(self, host: Host) -> None:
        """Verify tokens as the settings of `host` say.

        Raises:
            TokenFileError: the file of static tokens cannot be used.
        """
        self.login = Login(host.settings.section(LoginSettings), tokens_file(), records=host.records)

    def routes(self, path: str, profiles: Sequence[str]) -> list[Route]:
        """Return the routes of the metadata by which clients find the identity provider."""
        return self.login.challenges.routes(path, tuple(profiles))

    def layer(self, app: ASGIApp) -> ASGIApp:
        """Return the application for requests with a valid token."""
        return RequireLogin(app, self.login)

    async def run(self) -> None:
        """Keep what is known of tokens and keys current, until cancelled."""
        await self.login.run()
