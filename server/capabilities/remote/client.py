"""A connection to another server: the methods of the Skills extension as plain calls, in both protocol eras.

The calls return JSON values and bytes that are bounded but not validated; `skills` validates them. Every failure
is a `RemoteError` that says what was wrong and what to do about it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.extension import advertise
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import RootModel, ValidationError

from server.listing.envelope import EXTENSION
from server.wire.http_client import limit_responses, open_client
from skills_core.diagnostics import Reason
from skills_core.errors import SkillsError
from skills_core.remote.verification import shown

if TYPE_CHECKING:
    from mcp.client.client import ConnectMode

    from server.wire.address import Address
    from server.wire.http_client import HttpExchange

_ANSWER_SECONDS = 120.0
_HANDSHAKE_BYTES = 1024 * 1024
_SMALL_STRUCTURE = 256 * 1024
# Maximum bytes outside of strings, in any answer but a listing.
_LISTING_BYTES = 64 * 1024 * 1024
_LISTING_STRUCTURE = 4 * 1024 * 1024
# Enough for 25,000 skills of seven files each; parsed, structure takes up to a hundred times as many bytes.
_ENTRY_BYTES = 8 * 1024 * 1024
_ENVELOPE_BYTES = 64 * 1024
# Bytes of an answer besides the file's content.
_ESCAPE_FACTOR = 6
# Maximum bytes for one byte of text in JSON (`\u0001`); base64 takes fewer.
_MAX_PAGES = 1000
_MAX_ENTRIES = 50_000
_LARGEST_ANSWER = max(_LISTING_BYTES, _ESCAPE_FACTOR * 16 * 1024 * 1024 + _ENVELOPE_BYTES)


class RemoteError(SkillsError):
    """Another server is unusable or a request to it failed; `reason` and `message` say why."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message

    @property
    def is_final(self) -> bool:
        """Whether all further calls will fail too."""
        return self.reason is Reason.UNREACHABLE


class _AnyResult(RootModel[dict[str, Any]]):
    """Any result object, not validated."""


class _PageParams(types.PaginatedRequestParams):
    uri: str | None = None


@asynccontextmanager
async def connect(address: Address, *, mode: ConnectMode = "auto") -> AsyncGenerator[RemoteServer]:
    """Connect to the server at `address`, by default in the modern era if it supports that.

    Raises:
        AddressError: the URL cannot be used.
        RemoteError: there is no server, it is not an MCP server, or it denies access.
    """
    try:
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(open_client(address))
            transport = streamable_http_client(address.url, http_client=http, max_sse_event_size=_LARGEST_ANSWER)
            client = Client(
                transport,
                mode=mode,
                cache=None,
                read_timeout_seconds=_ANSWER_SECONDS,
                client_info=types.Implementation(name="skillserve", version=version("skillserve")),
                extensions=[advertise(EXTENSION)],
            )
            with limit_responses(_HANDSHAKE_BYTES, _SMALL_STRUCTURE) as exchange:
                try:
                    await stack.enter_async_context(client)
                except (MCPError, ValidationError, RuntimeError, ExceptionGroup) as error:
                    raise _connect_error(_root_cause(error), exchange) from None
            yield RemoteServer(address, client)
    except BaseExceptionGroup as group:
        # The SDK's task groups wrap every exception.
        raise _root_cause(group) from None


def _root_cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = next((e for e in error.exceptions if isinstance(e, SkillsError)), error.exceptions[0])
    if isinstance(error, httpx2.HTTPError | httpx2.StreamError):
        return RemoteError(Reason.SERVER_ERROR, shown(str(error)))
    return error


class RemoteServer:
    """A connected server; created by `connect`."""

    def __init__(self, address: Address, client: Client) -> None:
        """Use a connected client."""
        self.address = address
        self._session = client.session
        self.protocol = client.protocol_version
        declared = (client.server_capabilities.extensions or {}).get(EXTENSION)
        self._modern = self.protocol in MODERN_PROTOCOL_VERSIONS
        self._declared = declared is not None
        self.directory_read = declared is not None and declared.get("directoryRead") is True
        """Whether the server declares directory reads; clients may not request them otherwise."""

    async def entries(self) -> list[object]:
        """Return all entries of `skills/list`, from all pages.

        Raises:
            RemoteError: the request failed, or the answer is not a listing or has no end.
        """
        if self._modern and not self._declared:
            raise RemoteError(Reason.NO_SKILLS_EXTENSION, "the server does not declare the Skills extension")
        with limit_responses(_LISTING_BYTES, _LISTING_STRUCTURE) as exchange:
            found: list[object] = []
            async for page in self._pages("skills/list", exchange):
                found += _list(page, "skills")
                if len(found) > _MAX_ENTRIES:
                    raise RemoteError(Reason.INVALID_LISTING, f"the server lists more than {_MAX_ENTRIES} skills")
            return found

    async def entry(self, uri: str) -> object:
        """Return the entry that `skills/get` gives for the URI of a SKILL.md.

        Raises:
            RemoteError: the request failed.
        """
        with limit_responses(_ENTRY_BYTES, _SMALL_STRUCTURE) as exchange:
            return (await self._request("skills/get", exchange, uri=uri)).get("skill")

    async def read(self, uri: str, size: int) -> bytes:
        """Return the bytes of a resource whose announced size is `size`.

        Raises:
            RemoteError: the request failed, or the answer is another resource or far too large.
        """
        with limit_responses(_ESCAPE_FACTOR * size + _ENVELOPE_BYTES, _SMALL_STRUCTURE) as exchange:
            try:
                result = await self._session.read_resource(uri)
            except (MCPError, ValidationError, RuntimeError) as error:
                raise _call_error(error, exchange, "resources/read") from None
        contents = [content for content in result.contents if content.uri == uri]
        if len(contents) != 1:
            message = "the answer must contain the requested URI exactly once"
            raise RemoteError(Reason.INVALID_CONTENTS, message)
        return _bytes_of(contents[0])

    async def children(self, uri: str) -> list[tuple[str, bool]]:
        """Return the URIs in a directory, each with whether it is a directory itself.

        Raises:
            RemoteError: the request failed, or the answer is not a listing.
        """
        with limit_responses(_ENTRY_BYTES, _SMALL_STRUCTURE) as exchange:
            found: list[object] = []
            async for page in self._pages("resources/directory/read", exchange, uri):
                found += _list(page, "resources")
        children: list[tuple[str, bool]] = []
        for child in found:
            match child:
                case {"uri": str(name), **rest}:
                    children.append((name, rest.get("mimeType") == "inode/directory"))
                case _:
                    raise RemoteError(Reason.INVALID_LISTING, "a directory has an entry without a URI")
        return children

    async def _pages(
        self, method: str, exchange: HttpExchange, uri: str | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._request(method, exchange, uri=uri, cursor=cursor)
            yield page
            cursor = page.get("nextCursor")
            if not cursor:
                return
            if not isinstance(cursor, str) or cursor in seen:
                message = (
                    f"{method}: the server repeats a cursor, or sends one that is not a string; the list has no end"
                )
                raise RemoteError(Reason.INVALID_LISTING, message)
            seen.add(cursor)
        raise RemoteError(Reason.INVALID_LISTING, f"{method}: the list has more than {_MAX_PAGES} pages")

    async def _request(self, method: str, exchange: HttpExchange, **params: str | None) -> dict[str, Any]:
        exchange.start_request()
        request = types.Request[_PageParams, str](method=method, params=_PageParams.model_validate(params))
        try:
            return (await self._session.send_request(request, _AnyResult)).root
        except (MCPError, ValidationError, RuntimeError) as error:
            raise _call_error(error, exchange, method) from None


def _list(page: dict[str, Any], key: str) -> list[object]:
    items = page.get(key)
    if not isinstance(items, list):
        raise RemoteError(Reason.INVALID_LISTING, f"the answer has no array '{key}'")
    return items


def _bytes_of(content: types.TextResourceContents | types.BlobResourceContents) -> bytes:
    try:
        if isinstance(content, types.TextResourceContents):
            return content.text.encode("utf-8")
        return base64.b64decode(content.blob.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise RemoteError(Reason.INVALID_CONTENTS, "the contents are neither text nor base64") from None


def _connect_error(error: BaseException, exchange: HttpExchange) -> RemoteError:
    """Explain why the connection failed: the network, a timeout, or an endpoint that is not an MCP server."""
    known = _transport_error(exchange)
    if known is not None:
        return known
    if isinstance(error, MCPError) and error.code == types.REQUEST_TIMEOUT:
        return RemoteError(Reason.TIMED_OUT, "the server accepted the connection but does not answer")
    said = f"HTTP {exchange.status}" if exchange.status and exchange.status != httpx2.codes.OK else shown(str(error))
    hint = "check the URL, whose path is often /mcp"
    return RemoteError(Reason.NOT_MCP, f"the endpoint is not an MCP server that we understand ({said}); {hint}")


def _call_error(error: Exception, exchange: HttpExchange, method: str) -> RemoteError:
    known = _transport_error(exchange)
    if known is not None:
        return known
    if not isinstance(error, MCPError):
        return RemoteError(Reason.SERVER_ERROR, f"{method}: the answer violates the protocol")
    if error.code == types.REQUEST_TIMEOUT:
        return RemoteError(Reason.TIMED_OUT, f"{method}: the request timed out")
    if error.code == types.METHOD_NOT_FOUND and method.startswith("skills/"):
        return RemoteError(Reason.NO_SKILLS_EXTENSION, f"the server does not know {method}")
    return RemoteError(Reason.SERVER_ERROR, f"{method}: the server says: {shown(error.message)} ({error.code})")


def _transport_error(exchange: HttpExchange) -> RemoteError | None:
    """Return what failed below the protocol; None if nothing did."""
    if exchange.failure is not None:
        return RemoteError(exchange.failure.reason, exchange.failure.message)
    if exchange.status in {httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN}:
        hint = "pass credentials, such as --header 'Authorization: Bearer …'"
        return RemoteError(Reason.ACCESS_DENIED, f"the server denies access (HTTP {exchange.status}); {hint}")
    return None
