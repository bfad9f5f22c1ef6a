"""Answers to the most frequent requests of the modern era, without the SDK's transport around them.

The SDK reads a request, checks its head, validates it three times and builds its answer twice. For a plain request each
of these is known beforehand: it has the headers that clients send and no others that count, the fields of its method
and no others, and metadata that the SDK has accepted before. Such a request passes the same `Boundary` to the same
handler. Its answer is encoded from the handler's result; the JSON of a result that answers many requests
(`KeptResult`) is kept. Everything else is left to the SDK. Both ways give the same bytes, which a test compares.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.runner import modern_error_data
from mcp.server.session import ServerSession
from mcp.server.streamable_http import check_accept_headers
from mcp.server.transport_security import TransportSecurityMiddleware
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    INTERNAL_ERROR,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    JSONRPCError,
    RequestParams,
)
from mcp_types.methods import SPEC_CLIENT_METHODS, serialize_server_result, validate_client_request
from msgspec import Raw, Struct
from pydantic import ValidationError
from starlette.requests import Request

from server.listing.tools import ACTIVATE, READ
from server.wire.kept_result import KeptResult

if TYPE_CHECKING:
    from mcp.server.context import HandlerResult
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp_types import RequestParamsMeta
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from server.protocol.server import SkillServer

logger = logging.getLogger(__name__)

VERSION: Final = "2026-07-28"
"""The version of the protocol whose requests may be plain."""

_VERSION_HEADER: Final = VERSION.encode()
_TOOLS: Final = frozenset({ACTIVATE, READ})
# They never converse with the client, nor report progress.

_MAX_META: Final = 4096
_MAX_KEPT: Final = 256
# Heads and metadata that are remembered, and the longest of these in bytes.

_ID: Final = re.compile(rb'0|-?[1-9][0-9]{0,14}|"[ !#-\[\]-~]{0,200}"')
# Ids whose JSON in the answer is that in the request.

_OK: Final = 200


class _Page(Struct, forbid_unknown_fields=True):
    """The parameters of a list."""

    meta: Raw = msgspec.field(name="_meta")
    cursor: str | None = None

    name = ""

    @property
    def fields(self) -> dict[str, Any]:
        return {} if self.cursor is None else {"cursor": self.cursor}


class _Resource(Struct, forbid_unknown_fields=True):
    """The parameters of a request for what has a URI."""

    uri: str
    meta: Raw = msgspec.field(name="_meta")

    @property
    def name(self) -> str:
        return self.uri

    @property
    def fields(self) -> dict[str, Any]:
        return {"uri": self.uri}


class _Call(Struct, forbid_unknown_fields=True):
    """The parameters of a call of a tool."""

    name: str
    arguments: dict[str, Any]
    meta: Raw = msgspec.field(name="_meta")

    @property
    def fields(self) -> dict[str, Any]:
        return {"name": self.name, "arguments": self.arguments}


_ParamsT = TypeVar("_ParamsT", _Page, _Resource, _Call)


class _RequestMessage(Struct, Generic[_ParamsT], forbid_unknown_fields=True):
    jsonrpc: str
    id: Raw
    method: str
    params: _ParamsT


_LISTS: Final = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "skills/list")

_DECODERS: Final[dict[bytes, msgspec.json.Decoder[Any]]] = {
    **{name.encode(): msgspec.json.Decoder(_RequestMessage[_Page]) for name in _LISTS},
    b"skills/get": msgspec.json.Decoder(_RequestMessage[_Resource]),
    b"resources/read": msgspec.json.Decoder(_RequestMessage[_Resource]),
    b"tools/call": msgspec.json.Decoder(_RequestMessage[_Call]),
}
"""The methods whose requests may be plain."""

_NAMED: Final = frozenset({b"resources/read", b"tools/call"})
# Those whose name or URI stands in a header too.


class _Head(NamedTuple):
    """What the answer to a request depends on in its head; the empty bytes stand for a header that is missing."""

    host: bytes
    origin: bytes
    content_type: bytes
    accept: bytes


class _Envelope(NamedTuple):
    """The metadata of requests as a client sent it, as the SDK reads it, and the session that the SDK makes of it.

    Requests share the session: it only tells who the client is.
    """

    sent: dict[str, Any]
    read: RequestParamsMeta | None
    session: ServerSession


class _PlainRequest(NamedTuple):
    """A plain request: its id is still JSON, and `fields` are its parameters without the metadata."""

    id: bytes
    method: str
    fields: dict[str, Any]
    envelope: _Envelope


class _NoChannel:
    """The way from a handler to its client while a plain request is answered: there is none."""

    can_send_request = False

    async def send_raw_request(self, method: str, *_: object) -> dict[str, Any]:
        """Refuse to ask the client."""
        raise NoBackChannelError(method)

    async def notify(self, *_: object) -> None:
        """Drop a notification."""


_NO_CHANNEL: Final[Any] = _NoChannel()


class DirectAnswers:
    """ASGI middleware for the MCP endpoint, within the checks of bodies: it answers plain requests by itself."""

    def __init__(
        self, app: ASGIApp, server: SkillServer, security: TransportSecuritySettings, *, streams: bool
    ) -> None:
        """Leave other requests to `app`, the endpoint of the SDK; the other arguments are as it has them."""
        self._app = app
        self._server = server
        (self._boundary,) = server.middleware
        self._identity = server.server_info_stamp
        self._security = TransportSecurityMiddleware(security)
        self._streams = streams
        self._accepted: set[_Head] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, whose whole body is in its first message."""
        found = _head_of(scope) if scope["method"] == "POST" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        head, headers = found
        message = await receive()
        request = _parsed(headers, message.get("body", b"")) if message["type"] == "http.request" else None
        if request is None or not (head in self._accepted or await self._accept(head, Request(scope))):
            await self._app(scope, _again(message, receive), send)
            return
        status, body = await self._answer(request, Request(scope, receive))
        start = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": start})
        await send({"type": "http.response.body", "body": body})

    async def _accept(self, head: _Head, request: Request) -> bool:
        """Return whether the SDK accepts the head of a request; what it refuses, it refuses itself."""
        has_json, has_stream = check_accept_headers(request)
        if not has_json or (self._streams and not has_stream):
            return False
        if await self._security.validate_request(request, is_post=True) is not None:
            return False
        if len(self._accepted) >= _MAX_KEPT:
            self._accepted.clear()
        self._accepted.add(head)
        return True

    async def _answer(self, plain: _PlainRequest, request: Request) -> tuple[int, bytes]:
        """Return the status and the body of the answer to a request."""
        entry = self._server.get_request_handler(plain.method)
        assert entry is not None  # noqa: S101 - the server has all these methods
        encoded = b""

        async def handle(context: ServerRequestContext[Any, Any]) -> HandlerResult:
            nonlocal encoded
            # What fails here is recorded as the failure of the request.
            params = entry.params_type.model_validate(context.params, by_name=False)
            result = await entry.handler(context, params)
            assert isinstance(result, dict)  # noqa: S101 - as handlers of these methods return it
            encoded = self._encoded(plain.method, result)
            return result

        try:
            await self._boundary(self._context(plain, request), handle)
        except Exception as error:  # noqa: BLE001 - the SDK translates it, and logs it if it is unexpected
            return _failed(plain, error)
        return _OK, b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (plain.id, encoded)

    def _encoded(self, method: str, result: dict[str, Any]) -> bytes:
        if not isinstance(result, KeptResult):
            return _json_of(method, result, self._identity)
        if not result.encoded:
            result.encoded = _json_of(method, result, self._identity)
        return result.encoded

    def _context(self, plain: _PlainRequest, request: Request) -> ServerRequestContext[Any, Any]:
        envelope = plain.envelope
        return ServerRequestContext(
            session=envelope.session,
            lifespan_context={},
            protocol_version=VERSION,
            method=plain.method,
            params={**plain.fields, "_meta": envelope.sent},
            request_id=json.loads(plain.id),
            meta=envelope.read,
            request=request,
        )


def _head_of(scope: Scope) -> tuple[_Head, dict[bytes, bytes]] | None:
    """Return the head of a request that may be plain, and all its headers."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    if headers.get(b"mcp-protocol-version") != _VERSION_HEADER or len(headers) != len(scope["headers"]):
        return None
    if headers.get(b"mcp-method") not in _DECODERS or any(name.startswith(b"mcp-param-") for name in headers):
        return None
    get = headers.get
    return _Head(get(b"host", b""), get(b"origin", b""), get(b"content-type", b""), get(b"accept", b"")), headers


def _parsed(headers: Mapping[bytes, bytes], body: bytes) -> _PlainRequest | None:
    """Return the request in a body, None if it is not plain or if its headers contradict it."""
    named = headers[b"mcp-method"]
    try:
        message = _DECODERS[named].decode(body)
        params: _Page | _Resource | _Call = message.params
        envelope = _envelope(bytes(params.meta)) if len(bytes(params.meta)) <= _MAX_META else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValidationError):
        return None
    number = bytes(message.id)
    is_plain = (
        envelope is not None
        and message.jsonrpc == "2.0"
        and message.method.encode() == named
        and _ID.fullmatch(number) is not None
        and (named not in _NAMED or _is_named(headers.get(b"mcp-name"), params.name))
        and (not isinstance(params, _Call) or params.name in _TOOLS)
    )
    return _PlainRequest(number, message.method, params.fields, envelope) if is_plain and envelope else None


def _is_named(header: bytes | None, name: str) -> bool:
    """Return whether a header names the same as the body, without encoding it."""
    return header is not None and not header.startswith(b"=?") and header.decode("latin-1") == name


@lru_cache(_MAX_KEPT)
def _envelope(raw: bytes) -> _Envelope | None:
    """Return the metadata in a JSON text; None if it is not that of a valid request of the modern era.

    Raises:
        ValidationError: the SDK does not accept it.
    """
    meta = msgspec.json.decode(raw)
    if not isinstance(meta, dict) or meta.get(PROTOCOL_VERSION_META_KEY) != VERSION:
        return None
    validate_client_request("tools/list", VERSION, {"_meta": meta})
    read = RequestParams.model_validate({"_meta": meta}, by_name=False).meta
    connection = Connection.from_envelope(VERSION, meta.get(CLIENT_INFO_META_KEY), meta[CLIENT_CAPABILITIES_META_KEY])
    return _Envelope(meta, read, ServerSession(_NO_CHANNEL, connection, request_meta=read))


_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


def _json_of(method: str, result: dict[str, Any], identity: dict[str, Any]) -> bytes:
    """Return the JSON of a handler's result in an answer of the modern era, as the SDK makes it.

    Raises:
        MCPError: the result does not have the form that the protocol demands, which is logged.
    """
    try:
        shaped = serialize_server_result(method, VERSION, result) if method in SPEC_CLIENT_METHODS else {**result}
    except ValidationError:
        logger.exception("handler for %r returned an invalid result", method)
        raise MCPError(INTERNAL_ERROR, "Handler returned an invalid result") from None
    shaped.setdefault("resultType", "complete")
    shaped["_meta"] = {**shaped.get("_meta", {}), SERVER_INFO_META_KEY: identity}
    return _encode(shaped).encode()


def _failed(plain: _PlainRequest, error: Exception) -> tuple[int, bytes]:
    answer = JSONRPCError(jsonrpc="2.0", id=json.loads(plain.id), error=modern_error_data(error))
    status = ERROR_CODE_HTTP_STATUS.get(answer.error.code, _OK)
    return status, _encode(answer.model_dump(mode="json", by_alias=True, exclude_none=True)).encode()


def _again(message: Message, receive: Receive) -> Receive:
    """Return a `receive` that gives a message once more before what follows it."""
    rest = [message]

    async def receiving() -> Message:
        return rest.pop() if rest else await receive()

    return receiving
