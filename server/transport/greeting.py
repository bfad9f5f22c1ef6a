"""Tell people who open a server with curl, or in a browser where it has no page, how to connect a client to it.

The text is the same for everybody, whatever skills there are. It repeats nothing of the request but a name of the host
that has been checked.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Final

from mcp.server.transport_security import TransportSecurityMiddleware
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from server.access import PROFILE_KEY
from server.capabilities import CAPABILITIES
from server.capability import PublicAddress
from server.transport.bodies import record_refusal
from server.transport.client_commands import TOKEN_HEADER, terminal_commands
from server.transport.listening import checks_host, requires_login

if TYPE_CHECKING:
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from server.config.settings.model import Settings
    from server.hosting.host import Host

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'",
    "X-Content-Type-Options": "nosniff",
}
_HOST: Final = re.compile(r"(?:[a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?", re.IGNORECASE)
_OF_CLIENTS: Final = ("text/event-stream", "application/json")
_OF_PEOPLE: Final = ("text/html", "text/plain", "text/*", "*/*")
_USUAL_PORTS: Final = {"http": 80, "https": 443}

_UNAUTHORIZED: Final = 401
_NOT_ACCEPTABLE: Final = 406


class Greeting:
    """The text of one server, and where it is shown."""

    def __init__(self, host: Host, security: TransportSecuritySettings) -> None:
        """Tell of the server of `host`; requests that `security` refuses get no text."""
        self._settings = host.settings
        self._records = host.records
        self._browsers = TransportSecurityMiddleware(security)
        self._needs_login = requires_login(host.settings)

    async def at_root(self, request: Request) -> Response:
        """Answer a request for the root of the server."""
        return await self._response(request, 200)

    def beside(self, endpoint: ASGIApp) -> ASGIApp:
        """Return the application of the MCP endpoint, which answers people with the text instead of an error.

        The status stays what it is for clients: no client that follows the protocol asks for the page of an endpoint.
        Where a login is required, so does the challenge.
        """

        async def greeting(scope: Scope, receive: Receive, send: Send) -> None:
            if not _is_by_people(scope):
                await endpoint(scope, receive, send)
            elif self._needs_login:
                await endpoint(scope, receive, self._with_text(scope, send))
            else:
                response = await self._response(Request(scope), _NOT_ACCEPTABLE)
                await response(scope, receive, send)

        return greeting

    def instead_of(self, page: ASGIApp) -> ASGIApp:
        """Return the application of a page at the root; tools that do not ask for HTML, such as curl, get the text."""

        async def chosen(scope: Scope, receive: Receive, send: Send) -> None:
            if "text/html" in Headers(scope=scope).get("accept", ""):
                await page(scope, receive, send)
            else:
                response = await self._response(Request(scope), 200)
                await response(scope, receive, send)

        return chosen

    async def _response(self, request: Request, status: int) -> Response:
        refused = await self._browsers.validate_request(request)
        if refused is not None:
            record_refusal(self._records, request.scope, refused.status_code)
            return refused
        return PlainTextResponse(self._text(request.scope), status, _HEADERS)

    def _with_text(self, scope: Scope, send: Send) -> Callable[[Message], Awaitable[None]]:
        """Return a `send` that replaces the body of a refused login; names that are not checked are not repeated."""
        replaced: bytes | None = None

        async def sending(message: Message) -> None:
            nonlocal replaced
            if message["type"] == "http.response.start" and message["status"] == _UNAUTHORIZED:
                replaced = self._text(scope).encode()
                headers = MutableHeaders(raw=[*message["headers"]])
                headers.update({**_HEADERS, "Content-Type": "text/plain; charset=utf-8"})
                headers["Content-Length"] = str(len(replaced))
                await send({**message, "headers": headers.raw})
            elif message["type"] == "http.response.body" and replaced is not None:
                await send({**message, "body": b"" if message.get("more_body", False) else replaced})
            else:
                await send(message)

        return sending

    def _text(self, scope: Scope) -> str:
        return "\n".join(_lines(self._settings, public_address(self._settings, self._browsers, scope)))


def _lines(settings: Settings, address: PublicAddress) -> Iterator[str]:
    needs_login = requires_login(settings)
    yield from ("This is skillserve, a server of Agent Skills over MCP. Its address for clients is", "")
    yield from (f"  {address.endpoint}", "")
    if needs_login:
        yield from (
            "Clients have to log in. Some do so in a browser; others need a token of whoever runs this server,",
            f"and send it as  {TOKEN_HEADER}",
            "",
        )
    yield "Connect a client:"
    for command in terminal_commands(address.endpoint, TOKEN_HEADER if needs_login else ""):
        yield f"  {command.line}"
        if command.note:
            yield f"    ({command.note})"
    for each in CAPABILITIES:
        lines = () if each.hints is None else (*each.hints(settings, address),)
        yield from ("", *lines) if lines else ()
    yield ""


def is_secure(scope: Scope) -> bool:
    """Tell whether a browser sent a request with TLS, which a proxy may have ended."""
    forwarded = Headers(scope=scope).get("x-forwarded-proto", "").partition(",")[0]
    return "https" in {scope["scheme"], forwarded.strip().lower()}


def public_address(settings: Settings, browsers: TransportSecurityMiddleware, scope: Scope) -> PublicAddress:
    """Return the address that a request was sent to; without a checked name, that of the connection."""
    given = Headers(scope=scope).get("host", "")
    is_known = checks_host(settings.http) and _is_allowed(given, browsers.settings.allowed_hosts)
    scheme = "https" if is_secure(scope) else "http"
    origin = f"{scheme}://{given if is_known and _HOST.fullmatch(given) else _name_of_connection(scope)}"
    profile = scope.get(PROFILE_KEY)
    path = settings.http.path if profile is None else f"{settings.http.path.rstrip('/')}/{profile}"
    return PublicAddress(origin, origin + path)


def _is_allowed(host: str, allowed: list[str]) -> bool:
    return host in allowed or f"{host.rpartition(':')[0]}:*" in allowed


def _name_of_connection(scope: Scope) -> str:
    host, port = scope.get("server") or ("localhost", None)
    name = f"[{host}]" if ":" in host else host
    return name if port in {None, _USUAL_PORTS.get(scope["scheme"])} else f"{name}:{port}"


def _is_by_people(scope: Scope) -> bool:
    """Tell whether a request is one of a browser or of a tool such as curl, and of no MCP client."""
    if scope["type"] != "http" or scope["method"] not in {"GET", "HEAD"}:
        return False
    headers = Headers(scope=scope)
    accept = headers.get("accept", "*/*").lower()
    is_reading = "mcp-session-id" not in headers
    return is_reading and not any(each in accept for each in _OF_CLIENTS) and any(each in accept for each in _OF_PEOPLE)
