"""The routes of the page: who asks, what they may see, and the headers that keep a browser from anything else."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import anyio
import anyio.to_thread
from jinja2 import PackageLoader, PrefixLoader
from mcp.server.transport_security import TransportSecurityMiddleware
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from server.capabilities import CAPABILITIES
from server.capabilities.web.catalog_page import CatalogChoice, Order, SkillList, skill_address, skill_at
from server.capabilities.web.events import OpenPages
from server.capabilities.web.forms import PageFormError, is_part_elsewhere, own_address, read_form
from server.capabilities.web.login_pages import LoginPages
from server.capabilities.web.settings import LINK_PATH
from server.capabilities.web.skill_page import below_sources, shown_file, skill_values, visible_files
from server.capabilities.web.visitors import Stranger, Visitors
from server.capability import HttpPart, PageParts, Visit
from server.html.asset_files import asset, base_style
from server.html.environment import template_environment
from server.requests import ADMIN_METHOD, PAGE_METHOD, RequestDecision, RequestReason, RequestRecord, address_of
from server.transport.bodies import record_refusal
from server.transport.greeting import public_address
from server.transport.listening import local_origin
from server.wire.params import InvalidRequestError
from skills_core.errors import FileUnavailableError, SkillsError
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from server.access import Principal
    from server.capabilities.web.login_pages import Endpoint
    from server.capabilities.web.visitors import Visitor
    from server.capability import HttpContext, PageAction, PageTab
    from server.hosting.host import Host
    from skills_core.skills.skill import Skill

    PageEndpoint: TypeAlias = Callable[[Request, Visitor], Awaitable[Response]]

logger = logging.getLogger(__name__)

MAX_AT_ONCE: Final = 2
"""Pages that are made at a time. They take seconds in the worst case, and clients' requests need worker threads too."""

MAX_WAITING: Final = 100
"""Requests for pages that wait for their turn; further ones are told to come again."""

_PACKAGE: Final = "server.capabilities.web"

_POLICY: Final = "; ".join(
    (
        *("default-src 'none'", "style-src 'self'", "script-src 'self'", "img-src 'self' data:", "connect-src 'self'"),
        *("form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"),
    )
)

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # Without an own origin in the referrer, a browser would send `Origin: null` with a form.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_ASSETS: Final = {"page.css": "text/css", "page.js": "text/javascript"}
_MAX_TARGET: Final = 200
_OUTCOMES: Final = {
    403: (RequestDecision.DENIED, RequestReason.ROLE),
    503: (RequestDecision.FAILED, RequestReason.UNAVAILABLE),
}
_BAD_REQUEST: Final = 400
_UNAVAILABLE: Final = 503
_OF_OPERATORS: Final = ("/page/do/", "/page/enter")

_Made = TypeVar("_Made")


class _TooBusyError(Exception):
    """As many requests for pages wait as may wait."""


class WebPage(HttpPart):
    """The page of one server."""

    def __init__(self, host: Host) -> None:
        """Show the skills of `host`, and what other capabilities know of it."""
        self._host = host
        self._visitors = Visitors(host)
        self._login = LoginPages(host, self._visitors, self._page, self._record)
        self._port = host.settings.http.port
        self._browsers: TransportSecurityMiddleware
        self._search = SkillList()
        self._turns = anyio.CapacityLimiter(MAX_AT_ONCE)
        self._asked_for = 0
        self._preparing = anyio.Lock()
        self._is_prepared = False
        self.pages = OpenPages(host)
        """The pages that are open in browsers."""
        self._assets = {
            "page.css": base_style() + asset(_PACKAGE, "page.css"),
            "page.js": asset(_PACKAGE, "page.js"),
        }

    def routes(self, context: HttpContext) -> list[Route]:
        """Return the routes of the page."""
        self._browsers = TransportSecurityMiddleware(context.security)
        show = self._shown
        return [
            *self._login.routes(self._guarded),
            Route("/", show(self._catalog), methods=["GET"]),
            Route("/page/assets/{name}", self._asset, methods=["GET"]),
            Route("/page/events", show(self._events), methods=["GET"]),
            Route("/page/skill/{key:path}", show(self._skill), methods=["GET"]),
            Route("/page/{key}", show(self._tab), methods=["GET"]),
            Route("/page/do/{key}", show(self._act), methods=["POST"]),
        ]

    def local_routes(self) -> list[Route]:
        """Return the route by which the server's user gets an address to open."""
        return [Route(LINK_PATH, self._link, methods=["POST"])]

    @contextmanager
    def around(self, port: int | None) -> Iterator[None]:
        """Know the port that links lead to."""
        self._port = port or self._port
        yield

    def drain(self) -> None:
        """End the streams of open pages."""
        self.pages.close()

    def close(self) -> None:
        """End the streams of open pages."""
        self.pages.close()

    @cached_property
    def _parts(self) -> Mapping[str, PageParts]:
        """What each capability adds to the page, by its name."""
        return {each.name: each.page(self._host) for each in CAPABILITIES if each.page is not None}

    @cached_property
    def _tabs(self) -> Mapping[str, PageTab]:
        return {tab.key: tab for each in self._parts.values() for tab in each.tabs}

    @cached_property
    def _actions(self) -> Mapping[str, PageAction]:
        return {action.key: action for each in self._parts.values() for action in each.actions}

    @cached_property
    def _templates(self) -> Environment:
        loaders = {name: PackageLoader(f"server.capabilities.{name}") for name in self._parts}
        names: dict[str, Any] = {
            "below_sources": below_sources,
            "skill_address": skill_address,
            "State": State,
            "Order": Order,
        }
        for each in self._parts.values():
            names |= each.globals
        return template_environment(PrefixLoader({**loaders, "web": PackageLoader(_PACKAGE)}), names)

    def _guarded(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint for requests to a name of this server; those of other sites are refused."""

        async def guarded(request: Request) -> Response:
            refused = await self._browsers.validate_request(request)
            if refused is None and is_part_elsewhere(request):
                refused = Response(status_code=403, headers=_HEADERS)
            if refused is not None:
                record_refusal(self._host.records, request.scope, refused.status_code)
                return refused
            async with self._preparing:
                if not self._is_prepared:
                    # The first visit imports what the pages are made with, so that starts need not.
                    await anyio.to_thread.run_sync(lambda: self._templates)
                    self._is_prepared = True
            response = await endpoint(request)
            response.headers.update(_HEADERS)
            return response

        return guarded

    def _shown(self, endpoint: PageEndpoint) -> Endpoint:
        """Return the endpoint for known visitors; others are asked to log in."""

        async def shown(request: Request) -> Response:
            begin = perf_counter()
            visitor = await self._visitors.of(request)
            if isinstance(visitor, Stranger):
                return self._login.ask(request, visitor)
            try:
                response = await endpoint(request, visitor)
            except _TooBusyError:
                message = "Too many pages are asked for at the moment. Try again in a few seconds."
                response = self._page("web/message.html", visitor, _UNAVAILABLE, title="Not now", message=message)
                response.headers["Retry-After"] = "5"
            self._record(request, visitor.principal, response.status_code, perf_counter() - begin)
            return response

        return self._guarded(shown)

    def _record(self, request: Request, principal: Principal, status: int, seconds: float = 0.0) -> None:
        records, path = self._host.records, request.url.path
        if not records.wanted or path == "/page/events":
            return
        usual = RequestDecision.INVALID, RequestReason.INVALID_REQUEST
        good = RequestDecision.ALLOWED, RequestReason.NONE
        decision, reason = good if status < _BAD_REQUEST else _OUTCOMES.get(status, usual)
        records.emit(
            RequestRecord(
                method=ADMIN_METHOD if path.startswith(_OF_OPERATORS) else PAGE_METHOD,
                request_id=records.new_id(),
                principal=principal,
                address=address_of(request.scope),
                target=path[:_MAX_TARGET],
                decision=decision,
                reason=reason,
                seconds=seconds,
            )
        )

    async def _link(self, _: Request) -> Response:
        """Answer the server's user on the admin socket: an address, which works once where nobody has to log in."""
        origin = local_origin(self._host.settings.http, self._port)
        code = self._login.links.new_code() if self._visitors.login is None else ""
        return JSONResponse({"url": f"{origin}/page/enter?code={code}" if code else f"{origin}/"})

    def _visit(self, request: Request, visitor: Visitor) -> Visit:
        return Visit(
            view=self._host.view_called(visitor.view),
            principal=visitor.principal,
            address=public_address(self._host.settings, self._browsers, request.scope),
            is_operator=visitor.is_operator,
            may_change=visitor.may_change,
            query=dict(request.query_params),
        )

    def _page(self, template: str, visitor: Visitor | None, status: int = 200, **values: Any) -> Response:  # noqa: ANN401
        tabs = [tab for tab in self._tabs.values() if visitor and _sees(visitor, tab)]
        page = self._templates.get_template(template)
        return HTMLResponse(page.render(tabs=tabs, visitor=visitor, **values), status)

    async def _in_turn(self, make: Callable[[], _Made]) -> _Made:
        """Return what `make` returns, which runs in a worker thread of the few that pages have."""
        if self._asked_for >= MAX_AT_ONCE + MAX_WAITING:
            raise _TooBusyError
        self._asked_for += 1
        try:
            return await anyio.to_thread.run_sync(make, limiter=self._turns)
        finally:
            self._asked_for -= 1

    async def _catalog(self, request: Request, visitor: Visitor) -> Response:
        choice = CatalogChoice.parse(request.query_params)
        view = self._host.view_called(visitor.view)

        def make() -> Response:
            found = self._search.find(view, choice)
            progress = self._host.library.progress
            values: dict[str, Any] = {"choice": choice, "found": found, "catalog": view.catalog, "progress": progress}
            return self._page("web/catalog.html", visitor, **values)

        return await self._in_turn(make)

    async def _skill(self, request: Request, visitor: Visitor) -> Response:
        try:
            return await self._host.with_bodies(lambda: self._skill_page(request, visitor))
        except (FileUnavailableError, InvalidRequestError) as error:
            return self._page("web/message.html", visitor, _UNAVAILABLE, title="Not now", message=str(error))

    async def _skill_page(self, request: Request, visitor: Visitor) -> Response:
        visit = self._visit(request, visitor)
        skill = skill_at(visit.view.catalog, request.path_params["key"])
        if skill is None:
            return self._missing(visitor, "There is no such skill, or none that you can see.")
        path = visit.query.get("file")
        if path is not None:
            return await self._file(visitor, visit, skill, path)
        panels = [panel for each in self._parts.values() for panel in each.panels]
        return await self._in_turn(
            lambda: self._page("web/skill.html", visitor, visit=visit, **skill_values(skill, visit, panels))
        )

    async def _file(self, visitor: Visitor, visit: Visit, skill: Skill, path: str) -> Response:
        file = visible_files(skill, visit).get(path)
        if file is None or skill.state is not State.ACTIVE:
            return self._missing(visitor, "The skill has no such file, or none that can be shown.")
        try:
            skill, file, raw = await self._host.reader.read(
                skill.file_uri(path), lambda: self._host.view_called(visitor.view).catalog
            )
        except FileUnavailableError as error:
            return self._page("web/message.html", visitor, _UNAVAILABLE, title="Not now", message=str(error))
        except InvalidRequestError:
            return self._missing(visitor, "The file is gone.")
        return await self._in_turn(
            lambda: self._page("web/file.html", visitor, skill=skill, shown=shown_file(skill, file, raw))
        )

    async def _tab(self, request: Request, visitor: Visitor) -> Response:
        visit, tab = self._visit(request, visitor), self._tabs.get(request.path_params["key"])

        def make() -> Response:
            values = tab.show(visit) if tab is not None and _sees(visitor, tab) else None
            if tab is None or values is None:
                return self._missing(visitor, "There is no such page, or none that you can see.")
            return self._page(tab.template, visitor, tab=tab, visit=visit, **values)

        return await self._in_turn(make)

    async def _act(self, request: Request, visitor: Visitor) -> Response:
        action = self._actions.get(request.path_params["key"])
        if action is None:
            return self._missing(visitor, "There is no such action.")
        if not visitor.may_change:
            message = "You cannot change anything here."
            return self._page("web/message.html", visitor, 403, title="Not allowed", message=message)
        try:
            form = await read_form(request, visitor.form_token)
        except PageFormError as error:
            return self._page("web/message.html", visitor, _BAD_REQUEST, title="Not done", message=str(error))
        back = own_address(form.get("back", "/"))
        try:
            said = await self._in_turn(partial(action.perform, form, self._visit(request, visitor)))
        except SkillsError as error:
            return self._page("web/message.html", visitor, 409, title="Not done", message=str(error), back=back)
        return self._page("web/message.html", visitor, title="Done", message=said, back=back)

    async def _events(self, request: Request, visitor: Visitor) -> Response:
        kinds = frozenset(filter(None, request.query_params.get("of", "").split(" ")))
        is_of_activity = kinds and visitor.is_operator
        stream = self.pages.stream_of_activity(kinds) if is_of_activity else self.pages.stream(visitor.view)
        return _SessionStream(stream, self.pages, visitor)

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        content = self._assets.get(name)
        if content is None:
            return Response(status_code=404, headers=_HEADERS)
        return Response(content, media_type=_ASSETS[name], headers={**_HEADERS, "Cache-Control": "no-cache"})

    def _missing(self, visitor: Visitor, message: str) -> Response:
        return self._page("web/message.html", visitor, 404, title="Not found", message=message)


def _sees(visitor: Visitor, tab: PageTab) -> bool:
    return visitor.is_operator or not tab.operators


class _SessionStream(StreamingResponse):
    """A stream of events that ends with the session of its visitor, or a refusal if there are too many."""

    def __init__(self, events: AsyncIterator[bytes], pages: OpenPages, visitor: Visitor) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._pages, self._lasting = pages, visitor.lasting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._pages.stream_begun() as has_room, self._lasting():
            if has_room:
                await super().__call__(scope, receive, send)
            else:
                await Response(status_code=503, headers={**_HEADERS, "Retry-After": "5"})(scope, receive, send)
