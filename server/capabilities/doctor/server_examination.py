"""Examine a running server by its address as a client would: health, login, and both eras of the protocol.

What a server says is not trusted: answers are bounded in bytes and time, and no redirect is followed, because it would
take the token along. The session of the handshake era is closed at the end.
"""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import anyio
import httpx2

from server import __version__
from server.capabilities.doctor.symptoms import Kind, Symptom, found, good
from server.capabilities.operation.settings import HEALTH_PATH, READY_PATH
from skills_core.diagnostics import shortened

if TYPE_CHECKING:
    from server.wire.address import Address

_SECONDS: Final = 10.0
_MAX_BYTES: Final = 4 * 1024 * 1024
_MAX_SHOWN: Final = 200
_MAX_NAMES: Final = 12
# A few compressed bytes could become an answer without limit.
_HEADERS: Final = {"User-Agent": f"skillserve-doctor/{__version__}", "Accept-Encoding": "identity"}
_CLIENT: Final = {"name": "skillserve doctor", "version": __version__}
_HANDSHAKE: Final = "2025-11-25"
_VERSION: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MODERN: Final = "2026-07-28"
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": _MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": _CLIENT,
}
_USUAL_PATH: Final = "/mcp"

_NO_ENDPOINT: Final = frozenset({404, 405, 410})


class Answer(NamedTuple):
    """The answer to a request: its status, its headers, and the beginning of its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream of events."""
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def message(self) -> dict[str, Any]:
        """The JSON object in the body, or in its first event with one; empty if there is none."""
        texts = [self.body]
        if self.is_stream:
            texts = [line[5:] for line in self.body.splitlines() if line.startswith(b"data:")]
        for text in texts:
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                return value
        return {}

    @property
    def result(self) -> dict[str, Any] | None:
        """The result of a JSON-RPC request, None if the answer has none."""
        value = self.message.get("result")
        return value if isinstance(value, dict) else None

    @property
    def error(self) -> str:
        """What the answer says is wrong."""
        error = self.message.get("error")
        text = error.get("message") if isinstance(error, dict) else self.message.get("error_description", error)
        if not isinstance(text, str) or not text:
            text = self.body[:_MAX_SHOWN].decode("utf-8", errors="replace")
        return shortened(text.strip(), _MAX_SHOWN)


class _UnansweredError(Exception):
    """A request has no answer; `symptom` says why."""

    def __init__(self, symptom: Symptom) -> None:
        super().__init__(symptom.message)
        self.symptom = symptom


@dataclass(slots=True)
class _Connection:
    """Sends the requests to one address."""

    address: Address
    session: dict[str, str] = field(default_factory=dict)

    def get(self, path: str) -> Answer:
        """Ask for another path of the same host, without the headers, which are for the endpoint."""
        parts = urlsplit(self.address.url)
        return self.send("GET", urlunsplit((parts.scheme, parts.netloc, path, "", "")))

    def call(self, method: str, params: Mapping[str, Any], headers: Mapping[str, str], *, url: str = "") -> Answer:
        """Send a request of MCP; one without an id is a notification."""
        number = {} if method.startswith("notifications/") else {"id": 1}
        message = {"jsonrpc": "2.0", **number, "method": method, "params": params}
        sent = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **headers}
        return self.send("POST", url or self.address.url, {**sent, **self.session}, json.dumps(message).encode())

    def send(self, method: str, url: str, headers: Mapping[str, str] | None = None, content: bytes = b"") -> Answer:
        """Send a request and return the answer.

        Raises:
            _UnansweredError: there is none.
        """
        try:
            return anyio.run(self._sent, method, url, dict(headers or {}), content)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            raise _UnansweredError(_unanswered(error, self.address)) from None

    async def _sent(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> Answer:
        body = b""
        with anyio.fail_after(_SECONDS):
            async with (
                httpx2.AsyncClient(headers=_HEADERS, timeout=_SECONDS, follow_redirects=False) as client,
                client.stream(method, url, headers=headers, content=content or None) as response,
            ):
                answer = Answer(response.status_code, {k.lower(): v for k, v in response.headers.items()}, b"")
                async for chunk in response.aiter_raw():
                    body += chunk
                    # The stream of events with the answer may stay open after it.
                    if len(body) > _MAX_BYTES or (answer.is_stream and answer._replace(body=body).message):
                        break
        return answer._replace(body=body)


def examine_server(address: Address) -> Iterator[Symptom]:
    """Yield what is found at the address of a server."""
    yield from _way_there(address)
    headers = dict(address.headers)
    connection = _Connection(address)
    try:
        yield from _health(connection)
        yield from _endpoint(connection, headers)
    except _UnansweredError as error:
        yield error.symptom


def _way_there(address: Address) -> Iterator[Symptom]:
    """Yield what is between here and the server: no encryption, or a proxy."""
    parts = urlsplit(address.url)
    if address.headers and parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        yield found(Kind.URL_PLAIN_TOKEN, "the header goes over the network unencrypted")
    if address.proxy is not None:
        proxy = urlsplit(address.proxy)
        yield found(Kind.URL_PROXY, f"requests go through the proxy {proxy.hostname}:{proxy.port or ''}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _health(connection: _Connection) -> Iterator[Symptom]:
    """Ask the probes; a proxy may keep them from clients, which is as it should be."""
    health = connection.get(HEALTH_PATH)
    status = health.message.get("status")
    if health.status == HTTPStatus.OK and isinstance(status, str):
        count = health.message.get("skills")
        yield good(f"{HEALTH_PATH}: {status}" + (f", {count} skills" if isinstance(count, int) else ""))
    else:
        yield good(f"{HEALTH_PATH} is not open here (status {health.status})")
    ready = connection.get(READY_PATH)
    if ready.status == HTTPStatus.SERVICE_UNAVAILABLE and "status" in ready.message:
        yield found(Kind.URL_NOT_READY, f"{READY_PATH}: {ready.message['status']}")


def _endpoint(connection: _Connection, headers: Mapping[str, str]) -> Iterator[Symptom]:
    """Open a conversation in both eras, and list the tools in each."""
    opened = connection.call(
        "initialize", {"protocolVersion": _HANDSHAKE, "capabilities": {}, "clientInfo": _CLIENT}, headers
    )
    refusal = _refusal(opened, connection, headers)
    if refusal is not None and refusal.kind is not Kind.URL_ERROR:
        yield refusal
        return
    modern = _modern_call(connection, "server/discover", headers)
    eras = {}
    if opened.result is not None:
        eras[f"handshake ({opened.result.get('protocolVersion', _HANDSHAKE)})"] = _old_tools(
            connection, opened, headers
        )
        yield good(f"it is {_name_of(opened.result.get('serverInfo'))}")
    if modern.result is not None:
        eras[f"modern ({_MODERN})"] = _modern_call(connection, "tools/list", headers)
    if not eras:
        yield refusal or found(Kind.URL_NOT_MCP, f"it answers with status {opened.status}: {opened.error}")
        return
    if len(eras) == 1:
        other = opened if opened.result is None else modern
        yield found(Kind.URL_ONE_ERA, f"it speaks MCP in one era alone; in the other: {other.status}: {other.error}")
    for era, listed in eras.items():
        yield _tools(era, listed)
    yield from _login(connection, headers, modern)


def _old_tools(connection: _Connection, opened: Answer, headers: Mapping[str, str]) -> Answer:
    """List the tools in the session that `initialize` opened, and close it."""
    version = str((opened.result or {}).get("protocolVersion"))
    # What is no version may not even be the value of a header.
    sent = {**headers, "MCP-Protocol-Version": version if _VERSION.fullmatch(version) else _HANDSHAKE}
    if session := opened.headers.get("mcp-session-id"):
        connection.session["Mcp-Session-Id"] = session
    connection.call("notifications/initialized", {}, sent)
    try:
        return connection.call("tools/list", {}, sent)
    finally:
        if session:
            connection.send("DELETE", connection.address.url, {**sent, **connection.session})
        connection.session.clear()


def _modern_call(connection: _Connection, method: str, headers: Mapping[str, str]) -> Answer:
    return connection.call(method, {"_meta": _META}, {**headers, "MCP-Protocol-Version": _MODERN, "Mcp-Method": method})


def _tools(era: str, listed: Answer) -> Symptom:
    tools = (listed.result or {}).get("tools")
    if not isinstance(tools, list):
        return found(Kind.URL_ERROR, f"{era}: tools/list: {listed.status}: {listed.error}")
    names = [str(tool.get("name")) for tool in tools if isinstance(tool, dict)]
    if not names:
        return found(Kind.URL_NO_TOOL, f"{era}: it offers no tool")
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return good(f"{era}: it offers {', '.join(names[:_MAX_NAMES])}{more}")


def _login(connection: _Connection, headers: Mapping[str, str], modern: Answer) -> Iterator[Symptom]:
    """Say whether the headers were needed."""
    if not headers:
        yield good("clients need no login")
    elif modern.result is not None:
        without = _modern_call(connection, "server/discover", {})
        needed = without.status == HTTPStatus.UNAUTHORIZED
        yield good("clients have to log in, and the header is accepted" if needed else "clients need no login")


def _name_of(info: object) -> str:
    known = info if isinstance(info, dict) else {}
    return f"{known.get('name', 'a server without a name')} {known.get('version', '')}".strip()


def _refusal(answer: Answer, connection: _Connection, headers: Mapping[str, str]) -> Symptom | None:
    """Return why a server does not open a conversation, None if it does."""
    if answer.result is not None:
        return None
    kind = _kind_of(answer, sends_token=any(name.lower() == "authorization" for name in headers))
    location = shortened(answer.headers.get("location", ""), _MAX_SHOWN)
    said = f"it answers with status {answer.status}: {location or answer.error}"
    host = urlsplit(connection.address.url).netloc.rpartition("@")[2]
    better = _better(connection) if kind is Kind.URL_WRONG_PATH else ""
    return found(kind, said, location=location, host=host, better=better)


_KINDS: Final = {
    HTTPStatus.FORBIDDEN: Kind.URL_FORBIDDEN,
    HTTPStatus.MISDIRECTED_REQUEST: Kind.URL_HOST_NOT_ALLOWED,
    **dict.fromkeys((429, 502, 503, 504), Kind.URL_OVERLOADED),
    **dict.fromkeys((301, 302, 303, 307, 308), Kind.URL_REDIRECT),
}


def _kind_of(answer: Answer, *, sends_token: bool) -> Kind:
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return Kind.URL_TOKEN_REFUSED if sends_token else Kind.URL_LOGIN
    if answer.status in _KINDS:
        return _KINDS[answer.status]
    if answer.message.get("jsonrpc"):
        return Kind.URL_ERROR
    if answer.status in _NO_ENDPOINT:
        return Kind.URL_WRONG_PATH
    return Kind.URL_ERROR if answer.status >= HTTPStatus.BAD_REQUEST else Kind.URL_NOT_MCP


def _better(connection: _Connection) -> str:
    """Return the usual path of the endpoint if something is there, else what else to do."""
    parts = urlsplit(connection.address.url)
    url = urlunsplit((parts.scheme, parts.netloc, _USUAL_PATH, "", ""))
    if parts.path != _USUAL_PATH:
        # Without the headers, and in the era without sessions.
        answer = connection.call(
            "server/discover",
            {"_meta": _META},
            {"MCP-Protocol-Version": _MODERN, "Mcp-Method": "server/discover"},
            url=url,
        )
        if answer.result is not None or answer.status == HTTPStatus.UNAUTHORIZED:
            return url.replace(parts.netloc, parts.netloc.rpartition("@")[2])
    return "the address that the server prints when it starts; its path is http.path"


def _unanswered(error: Exception, address: Address) -> Symptom:
    """Return the symptom of a request without an answer, from the first cause that says enough."""
    causes = [*_causes(error)]
    why = shortened(str(causes[-1]) or type(causes[-1]).__name__, _MAX_SHOWN)
    at = f"{address.shown}: {why}"
    for cause in causes:
        match cause:
            case ssl.SSLCertVerificationError():
                return found(Kind.URL_CERTIFICATE, f"{address.shown}: {cause.verify_message or cause}")
            case ssl.SSLError():
                return found(Kind.URL_NO_TLS, at)
            case socket.gaierror():
                return found(Kind.URL_UNKNOWN_HOST, at)
            case httpx2.TimeoutException() | TimeoutError():
                return found(Kind.URL_TIMEOUT, f"{address.shown}: no answer within {_SECONDS:g} seconds")
    if any(isinstance(cause, httpx2.ConnectError) for cause in causes):
        return found(Kind.URL_REFUSED, at)
    return found(Kind.URL_NOT_HTTP, at)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    seen = set[int]()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
