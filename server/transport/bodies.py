"""Bodies of requests to the MCP endpoint, and records of the requests that are refused before a message is read."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Final

import anyio
import msgspec
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from server.access import principal_of_scope
from server.limits.principal_limits import FREE_SECONDS, MeteredWork, RequestTurns
from server.requests import HTTP_METHOD, RequestDecision, RequestReason, RequestRecord, address_of
from server.transport.event_streams import RESPONSE_KEY
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from server.config.settings.limits import LimitSettings
    from server.limits.principal_limits import AdmittedRequest, Turn
    from server.requests import Records
    from server.transport.event_streams import OpenResponse

logger = logging.getLogger(__name__)

_REASONS: Final = {
    400: RequestReason.INVALID_REQUEST,
    403: RequestReason.FOREIGN_ORIGIN,
    406: RequestReason.INVALID_REQUEST,
    413: RequestReason.TOO_LARGE,
    421: RequestReason.FOREIGN_HOST,
}
_DENIALS: Final = frozenset({RequestReason.FOREIGN_ORIGIN, RequestReason.FOREIGN_HOST})

_MAX_PATH: Final = 200


class RecordedRefusals:
    """ASGI middleware for the MCP endpoint, within the login and the limits, which record what they refuse."""

    def __init__(self, app: ASGIApp, records: Records) -> None:
        """Serve `app`; what it refuses is recorded in `records`."""
        self._app = app
        self._records = records

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if not self._records.wanted:
            await self._app(scope, receive, send)
            return

        async def noting(message: Message) -> None:
            # A message that was read has a record of its own.
            if message["type"] == "http.response.start" and not emitted.any:
                record_refusal(self._records, scope, message["status"])
            await send(message)

        with self._records.watched() as emitted:
            await self._app(scope, receive, noting)


def record_refusal(records: Records, scope: Scope, status: int) -> None:
    """Record a request that is refused with a status; other answers are not recorded."""
    reason = _REASONS.get(status)
    if reason is None or not records.wanted:
        return
    is_denied = reason in _DENIALS
    records.emit(
        RequestRecord(
            method=HTTP_METHOD,
            request_id=records.new_id(),
            principal=principal_of_scope(scope),
            address=address_of(scope),
            target=str(scope["path"])[:_MAX_PATH] if is_denied else "",
            decision=RequestDecision.DENIED if is_denied else RequestDecision.INVALID,
            reason=reason,
        )
    )


_REFUSAL_SECONDS: Final = (0.5, 1.5)

ADMITTED_KEY: Final = "skillserve.admitted"
"""The key in an ASGI scope of the request's account, to which its processing time is charged."""

MAX_DEPTH: Final = 100
"""Most arrays and objects around a value. Parsers and validators descend into each, and fail at several hundreds."""

MAX_META_BYTES: Final = 131_072
"""Most bytes of `_meta` in the parameters: names of clients, their icons and tracing."""

_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
_SPACE: Final = b" \t\r\n"
_NO_BRACKETS: Final = bytes(each for each in range(256) if each not in b"[]{}")
_MAX_DIGITS: Final = 15
LARGE_BODY: Final = 65_536
"""Bytes of a body that are received before its turn; uvicorn does not receive many more before they are taken."""

_SECONDS_A_BYTE: Final = 1e-8
_SECONDS_A_VALUE: Final = 5e-7
_SECONDS_AN_ESCAPE: Final = 2e-8
"""What it takes to receive, check and parse them, about."""

_MAX_FREE: Final = int(FREE_SECONDS / (_SECONDS_A_BYTE + _SECONDS_A_VALUE))
"""A body of so few bytes has no cost, whatever is in it."""

_TOO_LARGE: Final = 413
_TIMEOUT: Final = 408
_BAD_REQUEST: Final = 400


class BodyFaultError(Exception):
    """A body that is not parsed; the message says what is too much, and how much may be."""

    def __init__(
        self, message: str, status: int = _BAD_REQUEST, code: int = INVALID_REQUEST, *, is_read: bool = True
    ) -> None:
        """Answer with a status and a code; `is_read` tells whether the server has received the whole body."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.is_read = is_read


class _Params(msgspec.Struct):
    meta: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="_meta")


class _Envelope(msgspec.Struct):
    params: msgspec.Raw = msgspec.Raw(b"")


class RequestBodies:
    """ASGI middleware for the MCP endpoint, which passes complete and checked bodies on.

    Where a login tells principals apart, their requests take turns; of large ones, each principal sends one at a time.
    """

    def __init__(self, app: ASGIApp, limits: LimitSettings, *, in_turns: bool = False) -> None:
        """Serve `app` within the limits of bodies."""
        self._app = app
        self._turns = RequestTurns() if in_turns else None
        self._large = RequestTurns()
        self._max_bytes = limits.request_bytes
        self._max_values = limits.request_values
        self._seconds = limits.receive_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        try:
            if self._turns is None:
                await self._checked((await self._read(scope, receive, self._max_bytes))[0], scope, receive, send)
            else:
                await self._serve_in_turns(self._turns, scope, receive, send)
        except BodyFaultError as fault:
            logger.info("request of %s refused: %s", _name_of(scope), fault)
            if not fault.is_read:
                await pause_before_refusal()
            await _refusal(fault)(scope, receive, send)
        except ClientDisconnect:
            logger.info("request of %s ended: its client hung up before it was complete", _name_of(scope))

    async def _serve_in_turns(self, turns: RequestTurns, scope: Scope, receive: Receive, send: Send) -> None:
        admitted: AdmittedRequest = scope[ADMITTED_KEY]
        principal = admitted.principal
        body, is_complete = await self._read(scope, receive, min(LARGE_BODY, self._max_bytes))
        if is_complete:
            admitted.resize(len(body))
            await self._serve_in_turn(await turns.begin(principal), body, scope, receive, send)
            return
        async with self._large.turn(principal) as large:
            body += (await self._read(scope, receive, self._max_bytes, len(body)))[0]
            admitted.resize(len(body))
            turn = await turns.begin(principal)
            turn.outer = large
            await self._serve_in_turn(turn, body, scope, receive, send)

    async def _serve_in_turn(self, turn: Turn, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        response: OpenResponse = scope[RESPONSE_KEY]
        response.on_start = turn.end
        turn.cost = _cost_of(body) if len(body) > _MAX_FREE else 0.0
        turn.begin_work()
        work = MeteredWork(self._checked(body, scope, receive, send))
        try:
            await work
        finally:
            turn.end()
            admitted: AdmittedRequest = scope[ADMITTED_KEY]
            admitted.charge(work.seconds)

    async def _checked(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        check_body(body, self._max_values)
        await self._app(scope, _replaying(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive, enough: int, before: int = 0) -> tuple[bytes, bool]:
        """Return what follows the first `before` bytes of a body, and whether it is complete.

        It is not if the body has more than `enough` bytes: the rest can be read by another call.

        Raises:
            BodyFaultError: it is or becomes too large, or is not complete in time.
            ClientDisconnect: the client hung up.
        """
        length = header_of(scope, b"content-length") or ""
        if length.isascii() and length.isdigit() and (len(length) > _MAX_DIGITS or int(length) > self._max_bytes):
            raise self._too_large()
        parts: list[bytes] = []
        size = before
        try:
            # The timer of anyio costs several times as much, for each request.
            async with asyncio.timeout(self._seconds or None):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise ClientDisconnect
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    is_complete = not message.get("more_body", False)
                    if is_complete or size > enough:
                        break
        except TimeoutError:
            raise BodyFaultError(
                f"the body was not complete after {self._seconds:g} seconds", _TIMEOUT, is_read=False
            ) from None
        if size > self._max_bytes:
            raise self._too_large()
        return b"".join(parts), is_complete

    def _too_large(self) -> BodyFaultError:
        return BodyFaultError(
            f"the body is too large: at most {self._max_bytes} bytes (limits.request_bytes)", _TOO_LARGE, is_read=False
        )


def header_of(scope: Scope, name: bytes) -> str | None:
    """Return the first value of a header in an ASGI scope by its lower-case name, None if there is none."""
    for each, value in scope["headers"]:
        if each == name:
            return str(value, "latin-1")
    return None


async def pause_before_refusal() -> None:
    """Wait for a second or so: a client that asks again at once would keep the server busy with refusals.

    The time differs, or all connections of such a client would ask again at the same moment.
    """
    await anyio.sleep(random.uniform(*_REFUSAL_SECONDS))  # noqa: S311 - not a secret


def check_body(body: bytes, max_values: int) -> None:
    """Check a JSON text before it is parsed, in a time that depends on its length alone.

    At most `max_values` values may be in it (0 means no limit), nested `MAX_DEPTH` deep, and no batch.

    Raises:
        BodyFaultError: the text breaks a limit. A text that is not JSON is left to the parser, which refuses it.
    """
    if body.startswith(_BOMS) or b"\0" in body[:4]:
        # Parsers guess other encodings, in which the bytes of separators are parts of other characters.
        raise BodyFaultError("the body is not UTF-8", code=PARSE_ERROR)
    if body[:1] in _SPACE:
        body = body.lstrip(_SPACE)
    if body.startswith(b"["):
        raise BodyFaultError("batches are not supported: send one message in each request")
    opened = body.count(b"{") + body.count(b"[")
    has_many = 0 < max_values < len(body) and opened + body.count(b",") > max_values
    if has_many or opened > MAX_DEPTH:
        # Only now it is worth telling separators from those in texts.
        _check_structure(body, max_values)
    if len(body) > MAX_META_BYTES:
        _check_meta(body)


def _cost_of(body: bytes) -> float:
    """Return about how many seconds it takes to read a body, from its length and what is in it."""
    values = body.count(b"{") + body.count(b"[") + body.count(b",")
    return len(body) * _SECONDS_A_BYTE + values * _SECONDS_A_VALUE + body.count(b"\\") * _SECONDS_AN_ESCAPE


def _check_structure(body: bytes, max_values: int) -> None:
    most_quotes = 4 * max_values  # of a value and of its name
    if 0 < most_quotes < body.count(b'"') - body.count(b"\\"):
        raise _too_many(max_values)
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    if 0 < most_quotes < plain.count(b'"'):
        raise _too_many(max_values)
    structure = b"".join(plain.split(b'"')[::2])
    if 0 < max_values < structure.count(b"{") + structure.count(b"[") + structure.count(b","):
        raise _too_many(max_values)
    depth = deepest = 0
    for each in structure.translate(None, _NO_BRACKETS):
        depth += 1 if each in b"[{" else -1
        deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise BodyFaultError(f"the body is nested too deeply: at most {MAX_DEPTH} arrays and objects in each other")


def _too_many(max_values: int) -> BodyFaultError:
    message = f"the body has too many values: at most {max_values} objects, items and fields (limits.request_values)"
    return BodyFaultError(message, _TOO_LARGE)


def _check_meta(body: bytes) -> None:
    try:
        params = msgspec.json.decode(body, type=_Envelope).params
        size = len(bytes(msgspec.json.decode(params, type=_Params).meta)) if bytes(params) else 0
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return
    if size > MAX_META_BYTES:
        raise BodyFaultError(f"`_meta` has {size} bytes: at most {MAX_META_BYTES}", _TOO_LARGE)


def _name_of(scope: Scope) -> str:
    return one_line(principal_of_scope(scope).subject)[:100]


def _replaying(body: bytes, receive: Receive) -> Receive:
    rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return rest.pop() if rest else await receive()

    return replay


def _refusal(fault: BodyFaultError) -> JSONResponse:
    error = {"code": fault.code, "message": str(fault)}
    # The server would receive the rest of a body only to drop it.
    headers = {"Cache-Control": "no-store"} | ({} if fault.is_read else {"Connection": "close"})
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, fault.status, headers)
