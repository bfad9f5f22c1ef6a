"""What a server may send: bounded in bytes while it streams, so that none can fill memory.

The SDK reads whole responses and parses them whole, and three bytes of JSON (`[],`) become a hundred of objects. So
each call of ours opens an `HttpExchange`, which counts what arrives, and what of it lies outside of strings. A failure
below the protocol becomes the response of the one request it befell, with its cause kept in the exchange: raised, it
would tear down the connection and all other requests with it.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import httpx2

from skills_core.diagnostics import Reason, one_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

__all__ = ["BoundedTransport", "Failure", "HttpExchange", "receiving"]

_ENOUGH = 1024 * 1024
_MAX_RESPONSES = 20
# To one request: redirects, and event streams that break off and are taken up again.


class Failure(NamedTuple):
    """Why no response came, or not the whole of it."""

    reason: Reason
    message: str


class _BrokenOffError(httpx2.StreamError):
    """Ends the reading of one response; the SDK answers the request that waits for it with an error."""


@dataclass(slots=True)
class HttpExchange:
    """What one call may receive, in bytes, and what became of it below the protocol.

    `limit` counts everything, `structure` what stands outside of JSON strings, with their quotes. A call that sends
    several requests, for the pages of a list, says so before each.
    """

    limit: int
    structure: int
    status: int | None = None
    failure: Failure | None = None
    _received: int = 0
    _structure: int = 0
    _responses: int = 0
    _in_string: bool = False
    _escape: bytes = b""

    def ask(self) -> None:
        """Begin a request: what was received before counts, how many responses it took does not."""
        self._responses = 0

    def begin(self) -> bool:
        """Begin a response, and tell whether there were not too many to one request."""
        self._responses += 1
        self._in_string, self._escape = False, b""
        return self._responses <= _MAX_RESPONSES

    def receive(self, chunk: bytes) -> None:
        """Count a part of a response's body.

        Raises:
            httpx2.StreamError: a bound is reached.
        """
        self._received += len(chunk)
        if self._received <= self.limit and self._count(chunk) and self._structure <= self.structure:
            return
        message = f"the answer has more than the {self.limit} bytes it can need"
        if self._received <= self.limit:
            message = "the answer is no JSON, or holds far too many values"
        raise self.broken_off(Failure(Reason.TOO_LARGE, message))

    def broken_off(self, failure: Failure) -> httpx2.StreamError:
        """Note why a response ends, and return what ends it; the first cause stays."""
        self.failure = self.failure or failure
        return _BrokenOffError(failure.message)

    def _count(self, chunk: bytes) -> bool:
        """Add what lies outside of strings; False where a string runs over the end of its line, as none may."""
        chunk = self._escape + chunk
        backslashes = len(chunk) - len(chunk.rstrip(b"\\"))
        # What an odd backslash at the end escapes comes with the next part.
        self._escape = b"\\" if backslashes % 2 else b""
        parts = chunk[: len(chunk) - backslashes % 2].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        self._structure += sum(map(len, parts[self._in_string :: 2])) + len(parts) - 1
        strings = parts[not self._in_string :: 2]
        self._in_string ^= len(parts) % 2 == 0
        return not any(b"\n" in part or b"\r" in part for part in strings)


_current: ContextVar[HttpExchange] = ContextVar("exchange")


@contextmanager
def receiving(limit: int, structure: int) -> Generator[HttpExchange]:
    """Bound what the calls made within the block receive, all together.

    The SDK carries the caller's context along with each message, over to the task that sends it.
    """
    exchange = HttpExchange(limit, structure)
    token = _current.set(exchange)
    try:
        yield exchange
    finally:
        _current.reset(token)


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Passes requests on to another transport, and their responses through the exchange they belong to."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        """Close `inner` with this one."""
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; a failure to do so becomes a response with status 503."""
        exchange = _current.get(None) or HttpExchange(_ENOUGH, _ENOUGH)
        if not exchange.begin():
            return _instead(exchange, Failure(Reason.SERVER_ERROR, "the server keeps breaking off or redirecting"))
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            return _instead(exchange, _failure(error))
        exchange.status = response.status_code
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # A few bytes may unpack to any number, and we asked for none of it.
            await response.aclose()
            return _instead(exchange, Failure(Reason.SERVER_ERROR, "the server sends compressed answers unasked"))
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_Measured(response, exchange),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close the transport below."""
        await self._inner.aclose()


class _Measured(httpx2.AsyncByteStream):
    """A response's body, counted while it is read."""

    def __init__(self, response: httpx2.Response, exchange: HttpExchange) -> None:
        self._response = response
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_raw():
                self._exchange.receive(chunk)
                yield chunk
        except httpx2.TransportError as error:
            raise self._exchange.broken_off(_failure(error)) from error

    async def aclose(self) -> None:
        await self._response.aclose()


def _instead(exchange: HttpExchange, failure: Failure) -> httpx2.Response:
    exchange.failure = exchange.failure or failure
    return httpx2.Response(httpx2.codes.SERVICE_UNAVAILABLE)


def _failure(error: httpx2.TransportError) -> Failure:
    text = one_line(str(error)) or type(error).__name__
    if isinstance(error, httpx2.ConnectTimeout):
        return Failure(Reason.UNREACHABLE, "no connection within the time; check the address, and the way there")
    if isinstance(error, httpx2.TimeoutException):
        return Failure(Reason.TIMED_OUT, "the server stopped answering")
    if isinstance(error, httpx2.ConnectError) and "CERTIFICATE" in text.upper():
        return Failure(Reason.UNREACHABLE, f"the server's certificate is not trusted here: {text}")
    if isinstance(error, httpx2.ConnectError | httpx2.ProxyError | httpx2.UnsupportedProtocol):
        return Failure(Reason.UNREACHABLE, f"{text}; check that the server runs there")
    return Failure(Reason.SERVER_ERROR, f"the server broke off: {text}")
