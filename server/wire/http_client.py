"""HTTP requests to other programs, bounded in bytes and time, so that no server can exhaust memory.

`open_client` returns a client for the MCP SDK, and `HttpCalls` sends single requests. Both use one transport, which
limits the size of responses while they stream: the SDK parses whole responses, and three bytes of JSON (`[],`) become a
hundred bytes of objects. Therefore each call opens an `HttpExchange`, which counts the received bytes, and separately
those outside of strings. A transport failure becomes a failed response to its request, with the cause kept in the
exchange: an exception would tear down the connection and all other requests with it.

Nothing here logs an address, because addresses may hold keys. Single requests bypass the client of httpx2 for that
reason, follow no redirects and keep no cookies.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import anyio
import httpx2

from server.wire.address import AddressError
from skills_core.diagnostics import Reason, one_line, shortened
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from server.wire.address import Address

_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 30.0
# Seconds that an SDK client waits for a connection, and between two chunks of an answer.

_DEFAULT_LIMIT = 1024 * 1024
_MAX_RESPONSES = 20
# Maximum responses to one request, which redirects and resumed event streams add up to.


class TransportFailure(NamedTuple):
    """Why a response is missing or incomplete."""

    reason: Reason
    message: str
    error_type: str = ""
    """The name of the exception, which is safe to log; messages may repeat what the other side sent."""


class _ResponseAbortedError(httpx2.StreamError):
    """Aborts the reading of one response; the SDK fails the request that waits for it."""


@dataclass(slots=True)
class HttpExchange:
    """The limits of one call in bytes, and the result of the transport.

    `limit` applies to all bytes, `structure` to those outside of JSON strings, with their quotes; None counts all bytes
    alike. A call that sends several requests, for the pages of a list, starts each with `start_request`.
    """

    limit: int
    structure: int | None
    status: int | None = None
    failure: TransportFailure | None = None
    _received: int = 0
    _structure: int = 0
    _responses: int = 0
    _in_string: bool = False
    _escape: bytes = b""

    def start_request(self) -> None:
        """Start a request: reset the number of responses, but not the received bytes."""
        self._responses = 0

    def start_response(self) -> bool:
        """Start a response, and tell whether the request may have another one."""
        self._responses += 1
        self._in_string, self._escape = False, b""
        return self._responses <= _MAX_RESPONSES

    def receive(self, chunk: bytes) -> None:
        """Count a chunk of a response's body.

        Raises:
            httpx2.StreamError: a limit is exceeded.
        """
        self._received += len(chunk)
        if self._received > self.limit:
            raise self.fail(TransportFailure(Reason.TOO_LARGE, f"the answer exceeds the limit of {self.limit} bytes"))
        if self.structure is not None and not (self._count(chunk) and self._structure <= self.structure):
            raise self.fail(TransportFailure(Reason.TOO_LARGE, "the answer is not JSON, or has far too many values"))

    def fail(self, failure: TransportFailure) -> httpx2.StreamError:
        """Record why a response failed, unless a cause is recorded already, and return the exception to raise."""
        self.failure = self.failure or failure
        return _ResponseAbortedError(failure.message)

    def _count(self, chunk: bytes) -> bool:
        """Count the bytes outside of strings; return False if a string contains a line end, which JSON forbids."""
        chunk = self._escape + chunk
        backslashes = len(chunk) - len(chunk.rstrip(b"\\"))
        # The character that a final unpaired backslash escapes is in the next chunk.
        self._escape = b"\\" if backslashes % 2 else b""
        parts = chunk[: len(chunk) - backslashes % 2].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        self._structure += sum(map(len, parts[self._in_string :: 2])) + len(parts) - 1
        strings = parts[not self._in_string :: 2]
        self._in_string ^= len(parts) % 2 == 0
        return not any(b"\n" in part or b"\r" in part for part in strings)


_current: ContextVar[HttpExchange] = ContextVar("exchange")


@contextmanager
def limit_responses(limit: int, structure: int | None) -> Generator[HttpExchange]:
    """Limit what all calls within the block receive in total.

    The exchange is a context variable: the SDK passes the caller's context to the task that sends the request.
    """
    exchange = HttpExchange(limit, structure)
    token = _current.set(exchange)
    try:
        yield exchange
    finally:
        _current.reset(token)


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Wraps another transport, and counts the bytes of each response in the exchange of its call."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        """Wrap `inner`, which is closed together with this transport."""
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; turn a transport failure into a response with status 503."""
        exchange = _current.get(None) or HttpExchange(_DEFAULT_LIMIT, _DEFAULT_LIMIT)
        if not exchange.start_response():
            return _failed_response(
                exchange,
                TransportFailure(Reason.SERVER_ERROR, "the server keeps closing the connection or redirecting"),
            )
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            return _failed_response(exchange, _failure(error))
        exchange.status = response.status_code
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # A few compressed bytes can expand without limit, and we requested no compression.
            await response.aclose()
            return _failed_response(
                exchange,
                TransportFailure(Reason.SERVER_ERROR, "the server compresses its answers unrequested"),
            )
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_CountedStream(response, exchange),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close the wrapped transport."""
        await self._inner.aclose()


class _CountedStream(httpx2.AsyncByteStream):
    """A response's body that counts its bytes while it is read."""

    def __init__(self, response: httpx2.Response, exchange: HttpExchange) -> None:
        self._response = response
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_raw():
                self._exchange.receive(chunk)
                yield chunk
        except httpx2.TransportError as error:
            raise self._exchange.fail(_failure(error)) from error

    async def aclose(self) -> None:
        await self._response.aclose()


def _failed_response(exchange: HttpExchange, failure: TransportFailure) -> httpx2.Response:
    exchange.failure = exchange.failure or failure
    return httpx2.Response(httpx2.codes.SERVICE_UNAVAILABLE)


def _failure(error: httpx2.TransportError) -> TransportFailure:
    reason, message = _explanation(error)
    return TransportFailure(reason, message, type(error).__name__)


def _explanation(error: httpx2.TransportError) -> tuple[Reason, str]:
    text = one_line(str(error)) or type(error).__name__
    if isinstance(error, httpx2.ConnectTimeout):
        return Reason.UNREACHABLE, "connecting timed out; check the address and the network"
    if isinstance(error, httpx2.TimeoutException):
        return Reason.TIMED_OUT, "the server stopped answering"
    if isinstance(error, httpx2.ConnectError) and "CERTIFICATE" in text.upper():
        return Reason.UNREACHABLE, f"the server's certificate is not trusted here: {text}"
    if isinstance(error, httpx2.ConnectError | httpx2.ProxyError | httpx2.UnsupportedProtocol):
        return Reason.UNREACHABLE, f"{text}; check that the server is running"
    return Reason.SERVER_ERROR, f"the connection failed: {text}"


def open_client(address: Address) -> httpx2.AsyncClient:
    """Return an HTTP client for one server that sends its headers, limits the responses, and logs nothing.

    Raises:
        AddressError: the URL or the proxy cannot be used.
    """
    silence_clients()
    headers = httpx2.Headers(list(address.headers))
    headers["accept-encoding"] = "identity"
    try:
        httpx2.URL(address.url)
        inner = httpx2.AsyncHTTPTransport(proxy=address.proxy)
    except (httpx2.InvalidURL, ValueError, ImportError) as error:
        raise AddressError(shortened(str(error), 200)) from None
    timeout = httpx2.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS, pool=None)
    return httpx2.AsyncClient(transport=BoundedTransport(inner), headers=headers, timeout=timeout)


def silence_clients() -> None:
    """Keep out of all logs what the libraries log of connections: addresses and messages, which may hold keys."""
    for name in ("httpcore2", "httpx2", "mcp.client", "client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


_HEADERS: Final = {"User-Agent": "skillserve", "Accept-Encoding": "identity"}


class HttpAnswer(NamedTuple):
    """The status of an answer; the body is empty unless the status is 200."""

    status: int
    body: bytes = b""


class HttpCallError(SkillsError):
    """A request has no usable answer. The message may repeat what the other side sent, or a proxy's password."""

    def __init__(self, failure: TransportFailure) -> None:
        super().__init__(failure.message)
        self.reason = failure.reason
        self.error_type = failure.error_type
        """The name of the exception of the network or the library, which is safe to log."""


class HttpCalls:
    """Sends requests within the same limits, and keeps the connections for the next one."""

    def __init__(
        self, seconds: float, max_bytes: int, *, connect_seconds: float | None = None, socket: Path | None = None
    ) -> None:
        """Open no connection yet.

        A request may take `seconds` until its answer is read, and connecting `connect_seconds`. With `max_bytes` 0, no
        body is read. With `socket`, all requests go to the program that listens on that Unix socket.
        """
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._timeout = httpx2.Timeout(None, connect=connect_seconds).as_dict()
        self._socket = None if socket is None else str(socket)
        self._transports: dict[str | None, BoundedTransport] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        while self._transports:
            _, transport = self._transports.popitem()
            with suppress(Exception):
                await transport.aclose()

    async def send(
        self,
        method: str,
        address: Address,
        *,
        proxy: str | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        form: Mapping[str, str] | None = None,
        user: tuple[str, str] | None = None,
    ) -> HttpAnswer:
        """Send a request and return the answer. `user` is a name and its password; the address may have them instead.

        Raises:
            HttpCallError: there is no answer in time, it is too large, or the request cannot be sent.
        """
        with limit_responses(self._max_bytes, structure=None) as exchange:
            try:
                request = httpx2.Request(method, address.url, headers=headers, content=content, data=form)
                request.headers.update(_HEADERS | _authorization(request.url, user))
                request.extensions["timeout"] = self._timeout
                with anyio.fail_after(self._seconds):
                    return await self._answer(request, proxy, exchange)
            except TimeoutError:
                message = f"no answer within {self._seconds:g} seconds"
                raise HttpCallError(TransportFailure(Reason.TIMED_OUT, message, "TimeoutError")) from None
            except HttpCallError:
                raise
            except Exception as error:  # noqa: BLE001 - URL, proxy, certificates and answer fail in many ways
                failure = TransportFailure(Reason.SERVER_ERROR, one_line(str(error)), type(error).__name__)
                raise HttpCallError(exchange.failure or failure) from None

    async def _answer(self, request: httpx2.Request, proxy: str | None, exchange: HttpExchange) -> HttpAnswer:
        response = await self._transport(proxy).handle_async_request(request)
        try:
            status = exchange.status
            if status is not None and (status != HTTPStatus.OK or not self._max_bytes):
                return HttpAnswer(status)
            body = await response.aread()
            if exchange.failure is not None:
                raise HttpCallError(exchange.failure)
            return HttpAnswer(HTTPStatus.OK, body)
        finally:
            await response.aclose()

    def _transport(self, proxy: str | None) -> BoundedTransport:
        if proxy not in self._transports:
            self._transports[proxy] = BoundedTransport(httpx2.AsyncHTTPTransport(proxy=proxy, uds=self._socket))
        return self._transports[proxy]


def _authorization(url: httpx2.URL, user: tuple[str, str] | None) -> dict[str, str]:
    if user is None and url.userinfo:
        user = url.username, url.password
    if user is None:
        return {}
    return {"Authorization": f"Basic {b64encode(':'.join(user).encode()).decode('ascii')}"}
