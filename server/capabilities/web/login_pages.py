"""The routes by which sessions begin and end: with a token, at the identity provider, or by a link of the operator."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from server.access import LOCAL, STRANGER, Principal
from server.capabilities.login.settings import LoginSettings
from server.capabilities.web.forms import PageFormError, own_address, read_form
from server.capabilities.web.operator_links import OperatorLinks
from server.capabilities.web.provider_login import CALLBACK, ProviderLogin, ProviderLoginError
from server.capabilities.web.sessions import SessionTooLargeError
from server.capabilities.web.settings import WebSettings
from server.capabilities.web.visitors import Stranger
from server.protocol.server import sealing_keys
from server.transport.bodies import pause_before_refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from server.capabilities.web.visitors import Visitor, Visitors
    from server.hosting.host import Host

    Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

    class Render(Protocol):
        """Makes a page of a template."""

        def __call__(self, template: str, visitor: Visitor | None, status: int = 200, **values: object) -> Response:
            """Return the page."""

    class RecordRequest(Protocol):
        """Records a request."""

        def __call__(self, request: Request, principal: Principal, status: int, seconds: float = 0.0) -> None:
            """Record that a request of a principal was answered with a status."""


START: Final = "/page/login/start"
_FORM: Final = "/page/login"
_SEE_OTHER: Final = 303
_BAD_REQUEST: Final = 400
_FORBIDDEN: Final = 403
_UNAVAILABLE: Final = 503


class LoginPages:
    """The login of the page of one server."""

    def __init__(self, host: Host, visitors: Visitors, render: Render, record: RecordRequest) -> None:
        """Begin the sessions of `visitors`; `render` makes pages, and `record` records requests."""
        login, web = host.settings.section(LoginSettings), host.settings.section(WebSettings)
        self._visitors = visitors
        self._render, self._record = render, record
        self._accepts_tokens = login.tokens
        self.links = OperatorLinks()
        self._provider: ProviderLogin | None = None
        if visitors.login is not None and login.issuer is not None and web.client_id is not None:
            keys = sealing_keys(host.settings).keys
            self._provider = ProviderLogin(login, web, visitors.login.provider, keys)

    def routes(self, guarded: Callable[[Endpoint], Endpoint]) -> list[Route]:
        """Return the routes; `guarded` refuses what a page of another site sends."""
        routes = [Route("/page/logout", guarded(self._log_out), methods=["POST"])]
        if self._visitors.login is None:
            return [*routes, Route("/page/enter", guarded(self._enter), methods=["GET"])]
        routes.append(Route(_FORM, guarded(self._form), methods=["GET"]))
        if self._accepts_tokens:
            routes.append(Route(_FORM, guarded(self._log_in), methods=["POST"]))
        if (provider := self._provider) is not None:
            routes.append(Route(START, guarded(partial(self._start, provider)), methods=["GET"]))
            routes.append(Route(CALLBACK, guarded(partial(self._callback, provider)), methods=["GET"]))
        return routes

    def ask(self, request: Request, stranger: Stranger) -> Response:
        """Return the answer to a stranger: the page of the login, or a way to the provider that asks for nothing."""
        mode = request.headers.get("sec-fetch-mode")
        address = request.scope["raw_path"] + (b"?" if request.scope["query_string"] else b"")
        back = (address + request.scope["query_string"]).decode("latin-1") if request.method == "GET" else "/"
        if stranger.may_renew and self._provider is not None and request.method == "GET" and mode == "navigate":
            return RedirectResponse(self._start_address("", back), _SEE_OTHER)
        response = self._page(back, stranger)
        is_over = stranger.message and not stranger.may_renew and stranger.status != _UNAVAILABLE
        if mode in {None, "navigate"} and is_over:
            self._visitors.forget(request, response)
        return response

    def _page(self, back: str, stranger: Stranger) -> Response:
        provider = self._provider
        response = self._render(
            "web/login.html",
            None,
            stranger.status,
            message=stranger.message,
            back=own_address(back),
            accepts_tokens=self._accepts_tokens,
            provider="" if provider is None else provider.name,
            start="" if provider is None else self._start_address(provider.origin, back),
        )
        if stranger.status == _UNAVAILABLE:
            response.headers["Retry-After"] = "30"
        return response

    def _start_address(self, origin: str, back: str) -> str:
        return f"{origin}{START}?{urlencode({'back': own_address(back)})}"

    async def _form(self, request: Request) -> Response:
        back = own_address(request.query_params.get("back", "/"))
        visitor = await self._visitors.of(request)
        return self._page(back, Stranger(200)) if isinstance(visitor, Stranger) else RedirectResponse(back, _SEE_OTHER)

    async def _log_in(self, request: Request) -> Response:
        try:
            form = await read_form(request, None)
        except PageFormError as error:
            self._record(request, STRANGER, _BAD_REQUEST)
            return self._page("/", Stranger(_BAD_REQUEST, str(error)))
        back = own_address(form.get("back", "/"))
        return await self._begun(request, form.get("token", "").strip(), back, renewable=False)

    async def _start(self, provider: ProviderLogin, request: Request) -> Response:
        back = own_address(request.query_params.get("back", "/"))
        try:
            target, suffix, value = await provider.begin(back)
        except ProviderLoginError as error:
            return self._page(back, Stranger(error.status, str(error)))
        response = RedirectResponse(target, _SEE_OTHER)
        provider.keep(request, response, suffix, value)
        return response

    async def _callback(self, provider: ProviderLogin, request: Request) -> Response:
        try:
            token, back = await provider.finish(request)
            response = await self._begun(request, token, back, renewable=True)
        except ProviderLoginError as error:
            self._record(request, STRANGER, error.status)
            response = self._page("/", Stranger(error.status, str(error)))
        provider.forget(request, response)
        return response

    async def _begun(self, request: Request, token: str, back: str, *, renewable: bool) -> Response:
        """Return the answer to the owner of an access token: its session, or why there is none."""
        response: Response = RedirectResponse(back, _SEE_OTHER)
        try:
            found = await self._visitors.log_in(request, response, token, renewable=renewable)
        except SessionTooLargeError as error:
            found = Stranger(_FORBIDDEN, str(error))
        if isinstance(found, Stranger):
            return self._page(back, found)
        self._record(request, found, _SEE_OTHER)
        return response

    async def _log_out(self, request: Request) -> Response:
        visitor = await self._visitors.of(request)
        response = RedirectResponse("/", _SEE_OTHER)
        if isinstance(visitor, Stranger):
            # Its session is over, or the identity provider does not say whose it is.
            self._visitors.log_out(request, response)
            return response
        try:
            await read_form(request, visitor.form_token)
        except PageFormError as error:
            self._record(request, visitor.principal, _BAD_REQUEST)
            return self._render("web/message.html", visitor, _BAD_REQUEST, title="Not done", message=str(error))
        self._visitors.log_out(request, response)
        self._record(request, visitor.principal, _SEE_OTHER)
        return response

    async def _enter(self, request: Request) -> Response:
        if request.method == "HEAD":
            # Whoever looks where a link leads does not use it.
            return Response()
        response = RedirectResponse("/", _SEE_OTHER)
        if not self.links.redeem(request.query_params.get("code", "")):
            await pause_before_refusal()
            self._record(request, LOCAL, _FORBIDDEN)
            message = "This link was used before, or is older than a minute. Run `skillserve page` again."
            return self._render("web/message.html", None, _FORBIDDEN, title="Not open", message=message)
        self._visitors.begin_operator(request, response)
        self._record(request, LOCAL, _SEE_OTHER)
        return response
