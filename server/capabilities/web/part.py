"""The routes of the page: who asks, what they may see, and the headers that keep a browser from anything else."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio.to_thread
from jinja2 import PackageLoader, PrefixLoader
from mcp.server.transport_security import TransportSecurityMiddleware
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from server.capabilities import CAPABILITIES
from server.capabilities.web.catalog_page import CatalogChoice, CatalogSearch, Order, skill_address, skill_at
from server.capabilities.web.events import OpenPages
from server.capabilities.web.forms import FormError, read_form
from server.capabilities.web.skill_page import shown_file, skill_values, visible_files
from server.capabilities.web.visitors import Visitors
from server.capability import HttpPart, PageParts, PublicAddress, Visit
from server.html.environment import asset, base_style, template_environment
from server.requests import PAGE_METHOD, RequestDecision, RequestReason, RequestRecord, address_of
from server.transport.bodies import record_refusal
from server.wire.params import InvalidRequestError
from skills_core.errors import FileUnavailableError, SkillsError
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request

    from server.access import Principal
    from server.capabilities.web.visitors import Visitor
    from server.capability import HttpContext, PageAction, PageTab
    from server.hosting.host import Host
    from skills_core.skills.skill import Skill

    Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
    PageEndpoint: TypeAlias = Callable[[Request, Visitor], Awaitable[Response]]

logger = logging.getLogger(__name__)

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
_BAD_REQUEST: Final = 400


class WebPage(HttpPart):
    """The page of one server."""

    def __init__(self, host: Host) -> None:
        """Show the skills of `host`, and what other capabilities know of it."""
        self._host = host
        self._visitors = Visitors(host)
        self._search = CatalogSearch()
        self.pages = OpenPages(host)
        """The pages that are open in browsers."""
        self._assets = {
            "page.css": base_style() + asset(_PACKAGE, "page.css"),
            "page.js": asset(_PACKAGE, "page.js"),
        }

    def routes(self, context: HttpContext) -> list[Route]:
        """Return the routes of the page."""
        show = partial(self._shown, TransportSecurityMiddleware(context.security))
        return [
            Route("/", show(self._catalog), methods=["GET"]),
            Route("/page/assets/{name}", self._asset, methods=["GET"]),
            Route("/page/events", show(self._events), methods=["GET"]),
            Route("/page/skill/{key:path}", show(self._skill), methods=["GET"]),
            *(
                Route(f"/page/{tab.key}", show(partial(self._tab, tab)), methods=["GET"])
                for each in self._parts.values()
                for tab in each.tabs
            ),
            *(
                Route(f"/page/do/{action.key}", show(partial(self._act, action)), methods=["POST"])
                for each in self._parts.values()
                for action in each.actions
            ),
        ]

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
    def _templates(self) -> Environment:
        loaders = {name: PackageLoader(f"server.capabilities.{name}") for name in self._parts}
        names: dict[str, Any] = {"skill_address": skill_address, "State": State, "Order": Order}
        for each in self._parts.values():
            names |= each.globals
        return template_environment(PrefixLoader({**loaders, "web": PackageLoader(_PACKAGE)}), names)

    def _shown(self, browsers: TransportSecurityMiddleware, endpoint: PageEndpoint) -> Endpoint:
        """Return the endpoint for known visitors whose requests come from our own pages; others are refused."""

        async def shown(request: Request) -> Response:
            begin = perf_counter()
            refused = await browsers.validate_request(request)
            if refused is not None:
                record_refusal(self._host.records, request.scope, refused.status_code)
                return refused
            visitor = await self._visitors.of(request)
            if visitor is None:
                response = self._page("login.html", None, 401)
            else:
                response = await endpoint(request, visitor)
                self._record(request, visitor.principal, response.status_code, perf_counter() - begin)
            response.headers.update(_HEADERS)
            return response

        return shown

    def _record(self, request: Request, principal: Principal, status: int, seconds: float) -> None:
        records = self._host.records
        if not records.wanted or request.url.path == "/page/events":
            return
        is_good = status < _BAD_REQUEST
        records.emit(
            RequestRecord(
                method=PAGE_METHOD,
                request_id=records.new_id(),
                principal=principal,
                address=address_of(request.scope),
                target=request.url.path[:_MAX_TARGET],
                decision=RequestDecision.ALLOWED if is_good else RequestDecision.INVALID,
                reason=RequestReason.NONE if is_good else RequestReason.INVALID_REQUEST,
                seconds=seconds,
            )
        )

    def _visit(self, request: Request, visitor: Visitor) -> Visit:
        origin = f"{request.url.scheme}://{request.url.netloc}"
        return Visit(
            view=self._host.view_called(visitor.view),
            principal=visitor.principal,
            address=PublicAddress(origin, origin + self._host.settings.http.path),
            is_operator=visitor.is_operator,
            may_change=visitor.may_change,
            query=dict(request.query_params),
        )

    def _page(self, template: str, visitor: Visitor | None, status: int = 200, **values: Any) -> Response:  # noqa: ANN401
        tabs = [tab for each in self._parts.values() for tab in each.tabs if visitor and _sees(visitor, tab)]
        page = self._templates.get_template(template if "/" in template else f"web/{template}")
        return HTMLResponse(page.render(tabs=tabs, visitor=visitor, **values), status)

    async def _catalog(self, request: Request, visitor: Visitor) -> Response:
        choice = CatalogChoice.parse(request.query_params)
        view = self._host.view_called(visitor.view)
        found = await anyio.to_thread.run_sync(self._search.find, view, choice)
        return self._page("catalog.html", visitor, choice=choice, found=found, problems=view.catalog.problems)

    async def _skill(self, request: Request, visitor: Visitor) -> Response:
        visit = self._visit(request, visitor)
        skill = skill_at(visit.view.catalog, request.path_params["key"])
        if skill is None:
            return self._missing(visitor, "There is no such skill, or none that you can see.")
        path = visit.query.get("file")
        if path is not None:
            return await self._file(visitor, visit, skill, path)
        panels = [panel for each in self._parts.values() for panel in each.panels]
        values = await anyio.to_thread.run_sync(skill_values, skill, visit, panels)
        return self._page("skill.html", visitor, visit=visit, **values)

    async def _file(self, visitor: Visitor, visit: Visit, skill: Skill, path: str) -> Response:
        file = visible_files(skill, visit).get(path)
        if file is None or skill.state is not State.ACTIVE:
            return self._missing(visitor, "The skill has no such file, or none that can be shown.")
        try:
            skill, file, raw = await self._host.reader.read(
                skill.file_uri(path), lambda: self._host.view_called(visitor.view).catalog
            )
        except FileUnavailableError as error:
            return self._page("message.html", visitor, 503, title="Not now", message=str(error))
        except InvalidRequestError:
            return self._missing(visitor, "The file is gone.")
        shown = await anyio.to_thread.run_sync(shown_file, skill, file, raw)
        return self._page("file.html", visitor, skill=skill, shown=shown)

    async def _tab(self, tab: PageTab, request: Request, visitor: Visitor) -> Response:
        visit = self._visit(request, visitor)
        values = await anyio.to_thread.run_sync(tab.show, visit) if _sees(visitor, tab) else None
        if values is None:
            return self._missing(visitor, "There is no such page, or none that you can see.")
        # Long traces and diffs take a while.
        render = partial(self._page, self._template_of(tab), visitor, tab=tab, visit=visit, **values)
        return await anyio.to_thread.run_sync(render)

    def _template_of(self, tab: PageTab) -> str:
        name = next(name for name, each in self._parts.items() if tab in each.tabs)
        return f"{name}/{tab.template}"

    async def _act(self, action: PageAction, request: Request, visitor: Visitor) -> Response:
        if not visitor.may_change:
            message = "You cannot change anything here."
            return self._page("message.html", visitor, 403, title="Not allowed", message=message)
        try:
            form = await read_form(request, visitor.form_token)
        except FormError as error:
            return self._page("message.html", visitor, 403, title="Not done", message=str(error))
        back = form.get("back", "/")
        try:
            said = await anyio.to_thread.run_sync(action.perform, form, self._visit(request, visitor))
        except SkillsError as error:
            return self._page("message.html", visitor, 409, title="Not done", message=str(error), back=_own(back))
        return self._page("message.html", visitor, title="Done", message=said, back=_own(back))

    async def _events(self, request: Request, visitor: Visitor) -> Response:
        del request
        if self.pages.are_full:
            return Response(status_code=503, headers={"Retry-After": "5"})
        return StreamingResponse(self.pages.stream(visitor.view), media_type="text/event-stream")

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        content = self._assets.get(name)
        if content is None:
            return Response(status_code=404, headers=_HEADERS)
        return Response(content, media_type=_ASSETS[name], headers={**_HEADERS, "Cache-Control": "no-cache"})

    def _missing(self, visitor: Visitor, message: str) -> Response:
        return self._page("message.html", visitor, 404, title="Not found", message=message)


def _sees(visitor: Visitor, tab: PageTab) -> bool:
    return visitor.is_operator or not tab.operators


def _own(address: str) -> str:
    """Return an address if it is one of this server, else that of the catalog."""
    return address if address.startswith("/") and not address.startswith(("//", "/\\")) else "/"
