"""Who looks at the page, and what they may see and do there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio

from server.access import LOCAL, Principal
from server.capabilities.login.settings import LoginSettings
from server.capabilities.web.sessions import Session, Sessions, new_session
from server.capabilities.web.settings import WebSettings
from server.hosting.views import COMMON_VIEW, roles_of
from server.protocol.server import sealing_keys
from server.transport.bodies import pause_before_refusal

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Scope

    from server.capabilities.login.login import Login, LoginRefusal
    from server.capabilities.login.token_claims import LoginToken
    from server.hosting.host import Host
    from server.hosting.views import ViewName

_SOON_SECONDS: Final = 30.0
# A token that is refused so soon after it was given would be refused again.

_UNAUTHORIZED: Final = 401

_OF_ANOTHER: Final = (
    "The identity provider gave a token that is not one for this server. The server's log says what is wrong with it;"
    " often, the provider has to be told for which audience it gives tokens to this client."
)


class Visitor(NamedTuple):
    """Who sent a request for the page, and the name of the view with the skills that it sees.

    `is_operator` and `may_change` are as in `Visit`. `form_token` has to come with each form that it sends; without a
    session, a visitor can send none. What happens within `lasting` ends with the session.
    """

    principal: Principal
    view: ViewName
    is_operator: bool = False
    may_change: bool = False
    form_token: str = ""
    lasting: Callable[[], AbstractContextManager[object]] = nullcontext

    @property
    def name(self) -> str:
        """What the visitor is called; empty if it needed no login."""
        return "" if self.principal is LOCAL else self.principal.subject


class Stranger(NamedTuple):
    """Who has to log in: the status of the answer, and what to tell.

    With `may_renew`, the identity provider may know who it is, without asking anything.
    """

    status: int = _UNAUTHORIZED
    message: str = ""
    may_renew: bool = False


class Visitors:
    """Finds out who sends the requests for one page."""

    def __init__(self, host: Host) -> None:
        """Know the visitors of the page of `host`.

        Raises:
            TokenFileError: the file of static tokens cannot be used.
        """
        self._host = host
        self._settings = host.settings.section(LoginSettings)
        self._may_change = host.settings.section(WebSettings).changes
        self.login: Login | None = _login_of(host)
        # The session of an operator without a login ends with the process that made its link.
        self._sessions = Sessions(() if self.login is None else sealing_keys(host.settings).keys)

    async def of(self, request: Request) -> Visitor | Stranger:
        """Return the sender of a request."""
        session = self._sessions.of(request)
        if self.login is None:
            return self._visitor(LOCAL, session)
        if session is None or not session.token:
            return Stranger()
        from server.capabilities.login.login import LoginRefusal

        scope = _with_token(request.scope, session.token)
        token = await self.login.authenticate(scope)
        if isinstance(token, LoginRefusal):
            return _stranger(token, self._settings, session)
        visitor = self._visitor(token.principal, session)
        return visitor._replace(lasting=partial(_lasting, self.login, token, scope, session))

    async def log_in(
        self, request: Request, response: Response, token: str, *, renewable: bool
    ) -> Principal | Stranger:
        """Begin a session with an access token in the browser that gets `response`; return whose it is.

        Raises:
            SessionTooLargeError: the token is too long for a cookie.
        """
        from server.capabilities.login.login import LoginRefusal

        if self.login is None:
            return Stranger()
        found = await self.login.authenticate(_with_token(request.scope, token))
        if isinstance(found, LoginRefusal):
            await pause_before_refusal()
            stranger = _stranger(found, self._settings)
            is_of_provider = renewable and found is LoginRefusal.INVALID
            return stranger._replace(message=_OF_ANOTHER) if is_of_provider else stranger
        self._sessions.begin(new_session(token, renewable=renewable), request, response)
        return found.principal

    def begin_operator(self, request: Request, response: Response) -> None:
        """Begin the session of the server's user in the browser that gets `response`."""
        self._sessions.begin(new_session(), request, response)

    def log_out(self, request: Request, response: Response) -> None:
        """End the session of a request."""
        self._sessions.end(request, response)

    def forget(self, request: Request, response: Response) -> None:
        """Have the browser forget a session that is not valid."""
        self._sessions.forget(request, response)

    def _visitor(self, principal: Principal, session: Session | None) -> Visitor:
        if session is None:
            return Visitor(principal, self._view_of(principal))
        roles = frozenset(self._settings.admin_roles)
        is_operator = not session.token if principal is LOCAL else not roles.isdisjoint(principal.roles)
        may_change = is_operator and self._may_change
        return Visitor(principal, self._view_of(principal), is_operator, may_change, session.form_token)

    def _view_of(self, principal: Principal) -> ViewName:
        if not self._host.views_differ:
            return COMMON_VIEW
        return roles_of(self._host.settings.access).of(principal)


def _login_of(host: Host) -> Login | None:
    if not host.settings.section(LoginSettings).required:
        return None
    from server.capabilities.login.login import ServerLogin

    return host.service(ServerLogin).login


def _with_token(scope: Scope, token: str) -> Scope:
    """Return the scope of a request of a client that has a token, which the login verifies."""
    headers = [header for header in scope["headers"] if header[0].lower() != b"authorization"]
    return {**scope, "headers": [*headers, (b"authorization", b"Bearer " + token.encode("utf-8", "replace"))]}


@contextmanager
def _lasting(login: Login, token: LoginToken, scope: Scope, session: Session) -> Iterator[None]:
    with anyio.move_on_after(session.until - time.time()), login.lasting(token, scope):
        yield


def _stranger(refusal: LoginRefusal, settings: LoginSettings, session: Session | None = None) -> Stranger:
    """Return what to tell the owner of a token that is refused: one of a session, or one that would begin a session."""
    from server.capabilities.login.login import LoginRefusal

    if refusal is LoginRefusal.UNAVAILABLE:
        message = "The identity provider does not answer, so nobody can tell who you are. Try again in a minute."
        return Stranger(503, message)
    if refusal is LoginRefusal.SCOPE:
        scopes = ", ".join(settings.required_scopes)
        return Stranger(403, f"Your access token lacks a scope that this server requires: {scopes}.")
    if session is not None:
        age = time.time() - session.begun
        return Stranger(
            message="Your session has ended. Log in again.", may_renew=session.renewable and age > _SOON_SECONDS
        )
    return Stranger(message="This server does not accept this token; its log says why.")
