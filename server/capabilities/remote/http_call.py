"""Single HTTP requests to other programs, bounded in time, size, redirects and addresses.

They go to a transport of httpx2 and not to its client, which logs each address, and addresses may hold keys. A
transport also follows no redirects and keeps no cookies.
"""

from __future__ import annotations

from base64 import b64encode
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import anyio
import httpx2

from server.capabilities.remote.bounded_transport import BoundedTransport, Failure, limit_responses
from skills_core.diagnostics import Reason, one_line
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from server.capabilities.remote.address import Address
    from server.capabilities.remote.bounded_transport import HttpExchange

__all__ = ["HttpAnswer", "HttpCallError", "HttpCalls"]

_HEADERS: Final = {"User-Agent": "skillserve", "Accept-Encoding": "identity"}


class HttpAnswer(NamedTuple):
    """The status of an answer; the body is empty unless the status is 200."""

    status: int
    body: bytes = b""


class HttpCallError(SkillsError):
    """A request has no usable answer. The message may repeat what the other side sent, or a proxy's password."""

    def __init__(self, failure: Failure) -> None:
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

        A request with its answer may take `seconds`, of which connecting may take `connect_seconds`. With `max_bytes`
        0, no body is read. With `socket`, all requests go to the program that listens on that Unix socket.
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
                raise HttpCallError(Failure(Reason.TIMED_OUT, message, "TimeoutError")) from None
            except HttpCallError:
                raise
            except Exception as error:  # noqa: BLE001 - URL, proxy, certificates and answer fail in many ways
                failure = Failure(Reason.SERVER_ERROR, one_line(str(error)), type(error).__name__)
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
