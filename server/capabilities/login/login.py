"""The login of a server: which verifier a token goes to, and what a request without a valid token gets."""

from __future__ import annotations

import logging
import math
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

import anyio
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from starlette.authentication import AuthCredentials

from server.access import STRANGER, PrincipalKind
from server.capabilities.login.access_token import LoginToken, ProviderUnavailableError
from server.capabilities.login.challenge import Challenges, Refusal
from server.capabilities.login.confirming import Confirming
from server.capabilities.login.introspection import Introspection
from server.capabilities.login.jwt_verifier import JwtVerifier, looks_like_jwt
from server.capabilities.login.keys import SigningKeys
from server.capabilities.login.provider import Provider
from server.capabilities.login.static_tokens import PREFIX, StaticTokens, TokenFile
from server.requests import LOGIN_METHOD, NOTES, Notes, Records, RequestDecision, RequestRecord, address_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from server.capabilities.login.settings import LoginSettings

__all__ = ["Login", "RequireLogin"]

logger = logging.getLogger(__name__)

_MAX_TOKEN: Final = 8192
# Characters; tokens of large organizations have some 2,000.

_MAX_PATH: Final = 200


class Login:
    """Authenticates requests; it implements the SDK's `TokenVerifier`."""

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
        self._provider = provider or Provider()
        self._static = StaticTokens(TokenFile(tokens)) if settings.tokens else None
        self._keys = SigningKeys(settings, self._provider) if settings.issuer is not None else None
        self._jwt = JwtVerifier(settings, self._keys) if self._keys is not None else None
        self._introspection = Introspection(settings, self._provider) if settings.introspection_url else None
        self._confirming = Confirming(self._introspection) if self._introspection is not None else None
        self.challenges = Challenges(settings)

    async def run(self) -> None:
        """Keep keys, static tokens and the tokens of open responses current until cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                if self._keys is not None:
                    tasks.start_soon(self._keys.run)
                if self._static is not None:
                    tasks.start_soon(self._static.run)
                if self._confirming is not None:
                    tasks.start_soon(self._confirming.run)
        finally:
            with anyio.move_on_after(1, shield=True):
                await self._provider.aclose()

    async def verify_token(self, token: str, address: str = "") -> LoginToken | None:
        """Return the verified token, None if it is invalid; `address` is the network address that it comes from.

        Raises:
            ProviderUnavailableError: the identity provider cannot be asked.
        """
        if len(token) > _MAX_TOKEN or not token.isascii():
            return None
        if token.startswith(PREFIX):
            return self._static.verify(token) if self._static is not None else None
        if self._jwt is not None and looks_like_jwt(token):
            return await self._jwt.verify(token)
        return await self._introspection.verify(token, address) if self._introspection is not None else None

    async def authenticate(self, scope: Scope) -> LoginToken | Refusal:
        """Return the token of a request, or why the request is refused."""
        if not self._records.wanted:
            return await self._judged(scope)
        notes = Notes(self._records.new_id(), principal=STRANGER, address=address_of(scope))
        # The lines about a refused login have the id of its record.
        outer = NOTES.set(notes)
        try:
            result = await self._judged(scope)
        finally:
            NOTES.reset(outer)
        if isinstance(result, Refusal):
            self._records.emit(_record(scope, notes, result))
        return result

    async def _judged(self, scope: Scope) -> LoginToken | Refusal:
        result = await self._judge(scope)
        if isinstance(result, Refusal):
            # Clients that log in begin with a request without a token.
            level = logging.DEBUG if result is Refusal.MISSING else logging.INFO
            logger.log(level, "login refused: %s", result)
        return result

    async def _judge(self, scope: Scope) -> LoginToken | Refusal:
        text = _text(scope)
        if isinstance(text, Refusal):
            return text
        try:
            token = await self.verify_token(text, address_of(scope))
        except ProviderUnavailableError:
            return Refusal.UNAVAILABLE
        if token is None:
            return Refusal.INVALID
        # Static tokens have roles instead of scopes.
        if token.principal.kind is not PrincipalKind.TOKEN and not self._scopes <= token.principal.scopes:
            return Refusal.SCOPE
        return token

    @contextmanager
    def lasting(self, token: LoginToken, request: Scope) -> Iterator[anyio.CancelScope]:
        """End what happens inside when the token of a request expires or is revoked; yield the scope."""
        with anyio.move_on_after(self._seconds_left(token)) as scope, self._ended_by_revocation(token, request, scope):
            yield scope

    def _ended_by_revocation(
        self, token: LoginToken, request: Scope, response: anyio.CancelScope
    ) -> AbstractContextManager[None]:
        """Return a context in which a revocation ends a response; a JWT cannot be revoked."""
        if token.principal.kind is PrincipalKind.TOKEN and self._static is not None:
            return self._static.ended_by_revocation(token, response)
        text = _text(request)
        if token.principal.kind is not PrincipalKind.OPAQUE or self._confirming is None or isinstance(text, Refusal):
            return nullcontext()
        return self._confirming.ended_by_refusal(text, token, response)

    def _seconds_left(self, token: LoginToken) -> float:
        if token.expires_at is None:
            return math.inf
        # The clock of another machine may differ; static tokens are this server's.
        leeway = 0 if token.principal.kind is PrincipalKind.TOKEN else self._settings.leeway_seconds
        return max(0.0, token.expires_at + leeway - time.time())


def _record(scope: Scope, notes: Notes, refusal: Refusal) -> RequestRecord:
    return RequestRecord(
        method=LOGIN_METHOD,
        request_id=notes.request_id,
        principal=notes.principal,
        address=notes.address,
        target=str(scope["path"])[:_MAX_PATH],
        decision=RequestDecision.FAILED if refusal is Refusal.UNAVAILABLE else RequestDecision.DENIED,
        reason=f"login_{refusal}",
    )


def _text(scope: Scope) -> str | Refusal:
    """Return the text of the token of a request."""
    headers = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    if not headers:
        return Refusal.MISSING
    scheme, _, given = headers[0].decode("latin-1").partition(" ")
    text: str = given.strip(" \t")
    if len(headers) > 1 or scheme.lower() != "bearer" or not text or " " in text or "," in text:
        return Refusal.MALFORMED
    return text


class RequireLogin:
    """ASGI middleware that serves requests with a valid token only, and leaves their principal to the SDK.

    The token itself goes no further: what is served sees no `Authorization` header. A response, such as a stream of
    notifications, ends when the token expires or is revoked; that a provider revokes a JWT is not known here.
    """

    def __init__(self, app: ASGIApp, login: Login) -> None:
        """Serve `app` to those who log in."""
        self._app = AuthContextMiddleware(app)
        self._login = login

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        token = await self._login.authenticate(scope)
        if isinstance(token, Refusal):
            await self._login.challenges.response(token)(scope, receive, send)
            return
        headers = [header for header in scope["headers"] if header[0].lower() != b"authorization"]
        user, credentials = AuthenticatedUser(token), AuthCredentials(token.scopes)
        has_begun = False

        async def noting(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        with self._login.lasting(token, scope) as ended:
            await self._app({**scope, "headers": headers, "user": user, "auth": credentials}, receive, noting)
        if ended.cancelled_caught and not has_begun:
            # The token may be as good as before, but the provider is away.
            refusal = await self._login.authenticate(scope)
            refusal = refusal if isinstance(refusal, Refusal) else Refusal.INVALID
            await self._login.challenges.response(refusal)(scope, receive, send)
