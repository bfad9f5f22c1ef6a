"""The routes of the index and of the downloads: at the root, below the MCP endpoint, and below each profile.

Installers look below the address that they are given. What is published needs no login. Requests that name a foreign
host or come from a foreign origin are refused, as at the MCP endpoint.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from mcp.server.transport_security import TransportSecurityMiddleware
from msgspec import structs
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from server.access import LOCAL, STRANGER, Profiles
from server.capabilities.publish.publication import Archives, ChangingError, Publication
from server.capability import HttpPart
from server.limits.principal_limits import LimitExceededError, PrincipalLimits
from server.requests import (
    DOWNLOAD_METHOD,
    LIMIT_METHOD,
    RequestDecision,
    RequestReason,
    RequestRecord,
    Use,
    address_of,
)
from server.transport.bodies import record_refusal
from server.transport.listening import requires_login
from server.wire.params import InvalidRequestError
from skills_core.errors import FileUnavailableError

if TYPE_CHECKING:
    from starlette.requests import Request

    from server.capabilities.publish.publication import Download
    from server.capability import HttpContext
    from server.hosting.host import Host
    from skills_core.skills.skill import Skill

    Found: TypeAlias = Callable[[Request], Awaitable[Download | None]]

FOLDER: Final = "/.well-known/agent-skills"
"""The path of the index and of the downloads, below an address."""

_SAFE: Final = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'"}
_CHUNK: Final = 65_536
_MAX_PATH: Final = 200


class Publishing(HttpPart):
    """The published skills of one server."""

    def __init__(self, host: Host, roles: frozenset[str]) -> None:
        """Publish the skills of `host` that callers with these roles see."""
        self._host = host
        self._roles = roles
        self._needs_login = requires_login(host.settings)
        limits = host.settings.limits
        self._limits = PrincipalLimits(limits.requests_per_second, limits.burst, limits.concurrent_requests)

    def routes(self, context: HttpContext) -> list[Route]:
        """Return the routes; those below a profile have the skills of its roles alone."""
        access = self._host.settings.access
        profiles, archives = Profiles(access.profiles), Archives()
        endpoint = self._host.settings.http.path.rstrip("/")
        bases: dict[str, str | None] = {"": None, endpoint: None}
        bases |= {f"{endpoint}/{name}": name for name in profiles.names}
        views = {each: profiles.narrowed(self._roles, each) for each in bases.values()}
        if not self._host.views_differ:
            views = dict.fromkeys(views, self._roles)
        publications = {view: Publication(self._host, view, archives) for view in views.values()}
        browsers = TransportSecurityMiddleware(context.security)
        return [
            route for base, name in bases.items() for route in self._routes(base, publications[views[name]], browsers)
        ]

    def _routes(self, base: str, published: Publication, browsers: TransportSecurityMiddleware) -> list[Route]:
        def answered(found: Found, media_type: str) -> Callable[[Request], Awaitable[Response]]:
            async def answer(request: Request) -> Response:
                refused = await browsers.validate_request(request)
                if refused is None:
                    return await self._limited(request, found, media_type)
                record_refusal(self._host.records, request.scope, refused.status_code)
                return refused

            return answer

        async def index(_: Request) -> Download | None:
            return await published.index()

        async def skill_md(request: Request) -> Download | None:
            return await published.skill_md(request.path_params["name"])

        async def archive(request: Request) -> Download | None:
            return await published.archive(request.path_params["name"])

        folder = base + FOLDER
        return [
            Route(f"{folder}/index.json", answered(index, "application/json")),
            Route(f"{folder}/{{name}}/SKILL.md", answered(skill_md, "text/markdown; charset=utf-8")),
            Route(f"{folder}/{{name}}.tar.gz", answered(archive, "application/gzip")),
        ]

    async def _limited(self, request: Request, found: Found, media_type: str) -> Response:
        """Answer within the limits of an address; without a login they are those of all clients, which have none."""
        if not self._needs_login:
            return await self._answer(request, found, media_type)
        try:
            with self._limits.admitted((DOWNLOAD_METHOD, address_of(request.scope))):
                return await self._answer(request, found, media_type)
        except LimitExceededError as error:
            self._record(request)
            return _refusal(str(error), 429, error.seconds)

    async def _answer(self, request: Request, found: Found, media_type: str) -> Response:
        try:
            download = await found(request)
        except ChangingError as error:
            return _refusal(str(error), 503)
        except FileUnavailableError:
            return _refusal("a file cannot be read at present; try again later", 503)
        except InvalidRequestError:
            download = None
        if download is None:
            return _refusal("nothing is published at this path; see index.json", 404, None)
        tag = f'"{download.digest}"'
        headers = {**_SAFE, "Cache-Control": "no-cache", "ETag": tag}
        if _has(tag, request):
            return Response(status_code=304, headers=headers)
        if request.method == "GET" and download.skill is not None:
            self._record(request, download.skill)
        headers |= {"Content-Length": str(len(download.raw)), "Content-Type": media_type}
        return StreamingResponse(_parts(download.raw), headers=headers)

    def _record(self, request: Request, skill: Skill | None = None) -> None:
        """Record the download of a skill, or without one that a limit refused the request."""
        records = self._host.records
        if not records.wanted:
            return
        record = RequestRecord(
            method=LIMIT_METHOD,
            request_id=records.new_id(),
            principal=STRANGER if self._needs_login else LOCAL,
            address=address_of(request.scope),
            target=request.url.path[:_MAX_PATH],
            decision=RequestDecision.DENIED,
            reason=RequestReason.LIMIT,
        )
        if skill is not None:
            record = structs.replace(
                record,
                method=DOWNLOAD_METHOD,
                skill=skill.settings_key,
                digest=skill.digest or "",
                use=Use.READ,
                decision=RequestDecision.ALLOWED,
                reason=RequestReason.NONE,
            )
        records.emit(record)


async def _parts(raw: bytes) -> AsyncIterator[bytes]:
    """Yield bytes in parts, so that a client which reads slowly costs no copy of what it has not read."""
    for start in range(0, len(raw), _CHUNK):
        yield raw[start : start + _CHUNK]


def _has(tag: str, request: Request) -> bool:
    """Tell whether the client has what the tag stands for (`If-None-Match`, RFC 9110)."""
    given = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    return tag in given or given == ["*"]


def _refusal(message: str, status: int, seconds: float | None = 1.0) -> Response:
    headers = {**_SAFE, "Cache-Control": "no-store"}
    if seconds is not None:
        headers["Retry-After"] = str(max(1, math.ceil(seconds)))
    return PlainTextResponse(f"{message}\n", status, headers)
