"""What a server has to be told again when it replaces one that ended: the session of a client, read off its lines.

Only the ids and methods of messages are decoded. In the handshake era a session consists of the handshake and the
subscriptions to resources; the modern era is stateless but for its streams of events. Requests that were open are sent
once more, except calls of tools: nobody knows what such a call has done, so its client is told to decide.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

Id = int | float | str | None

_INITIALIZE: Final = "initialize"
_CALL: Final = "tools/call"
_LISTEN: Final = "subscriptions/listen"
_SUBSCRIBE: Final = "resources/subscribe"
_UNSUBSCRIBE: Final = "resources/unsubscribe"
_INITIALIZED: Final = "notifications/initialized"
_CANCELLED: Final = "notifications/cancelled"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_STREAM_KEY: Final = "io.modelcontextprotocol/subscriptionId"

_CHANGES: Final = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
"""The notifications of changes, by what a stream of the modern era calls them."""

_MOST_TRIES: Final = 2
"""A request that has ended two servers is not given to a third one."""

_INTERNAL_ERROR: Final = -32603
_LOST: Final = (
    "The server ended during this request, and has been started again. What the request does may be done already; "
    "if it may be done twice, send it again."
)


class _Message(Struct):
    """What matters of a message; all else is skipped."""

    id: Id = None
    method: str | None = None
    params: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_decode: Final = msgspec.json.Decoder(_Message).decode


@dataclass(slots=True)
class _Open:
    """A request without an answer; `tries` counts the servers that got it."""

    method: str
    line: bytes
    tries: int = 1
    acknowledged: bool = False


class SessionReplay:
    """The session of one client, as its lines and those of its servers show it."""

    def __init__(self) -> None:
        """Begin before the first line."""
        self._open: dict[Id, _Open] = {}
        self._asked: dict[Id, None] = {}
        self._initialize = b""
        self._initialized = b""
        self._subscribed: dict[str, bytes] = {}
        self._silent: set[Id] = set()
        self._prefix = f"again-{os.urandom(8).hex()}-"

    def sent(self, line: bytes) -> None:
        """Note a line of the client that a server has got whole."""
        message = _decoded(line)
        if message is None:
            return
        if message.method is None:
            self._asked.pop(message.id, None)
        elif message.id is not None:
            self._request(message.id, message.method, line)
        elif message.method == _INITIALIZED:
            self._initialized = line
        elif message.method == _CANCELLED:
            number = _params(message).get("requestId")
            if isinstance(number, Id):
                self._open.pop(number, None)

    def _request(self, number: Id, method: str, line: bytes) -> None:
        if number in self._silent:
            return
        known = self._open.get(number)
        if known is not None and known.line == line:
            known.tries += 1
        else:
            self._open[number] = _Open(method, line)

    def received(self, line: bytes) -> bytes:
        """Return what the client gets for a line of a server: mostly that line."""
        message = _decoded(line)
        if message is None:
            return line
        if message.method is None:
            return self._answered(message, line)
        if message.id is not None:
            self._asked[message.id] = None
        elif message.method == _ACKNOWLEDGED:
            return self._acknowledged(_params(message), line)
        return line

    def _answered(self, message: _Message, line: bytes) -> bytes:
        if message.id in self._silent:
            self._silent.remove(message.id)
            # Whatever changed while no server watched has not been announced.
            is_handshake = message.id == f"{self._prefix}{_INITIALIZE}"
            return b"".join(_notification(each, {}) for each in _CHANGES.values()) if is_handshake else b""
        request = self._open.pop(message.id, None)
        if request is not None and message.error is UNSET:
            self._succeeded(request)
        return line

    def _succeeded(self, request: _Open) -> None:
        if request.method == _INITIALIZE:
            self._initialize = request.line
        elif request.method in {_SUBSCRIBE, _UNSUBSCRIBE}:
            uri = str(_params(_decode(request.line)).get("uri"))
            self._subscribed.pop(uri, None)
            if request.method == _SUBSCRIBE:
                self._subscribed[uri] = request.line

    def _acknowledged(self, params: dict[str, Any], line: bytes) -> bytes:
        meta = params.get("_meta", {})
        stream = self._open.get(meta.get(_STREAM_KEY))
        if stream is None or not stream.acknowledged:
            if stream is not None:
                stream.acknowledged = True
            return line
        honoured = params.get("notifications", {})
        return b"".join(_notification(name, meta) for key, name in _CHANGES.items() if honoured.get(key))

    def lost(self) -> bytes:
        """Return what the client is told when its server has ended: what has become of requests in either direction."""
        told = [_notification(_CANCELLED, {}, requestId=number, reason="the server ended") for number in self._asked]
        self._asked.clear()
        self._silent.clear()
        for number, request in [*self._open.items()]:
            if request.method == _CALL or (request.tries >= _MOST_TRIES and request.method != _LISTEN):
                del self._open[number]
                error = {"code": _INTERNAL_ERROR, "message": _LOST}
                told.append(_line({"jsonrpc": "2.0", "id": number, "error": error}))
        return b"".join(told)

    def again(self) -> Iterator[bytes]:
        """Yield the lines that a new server gets before any other; call `lost` first."""
        if self._initialize:
            yield self._silently(self._initialize, _INITIALIZE)
            if self._initialized:
                yield self._initialized
        for place, line in enumerate(self._subscribed.values()):
            yield self._silently(line, str(place))
        for request in self._open.values():
            yield request.line

    def _silently(self, line: bytes, name: str) -> bytes:
        """Return a request under an id whose answer the client does not get."""
        number = f"{self._prefix}{name}"
        self._silent.add(number)
        return _line({**msgspec.json.decode(line), "id": number})


def _decoded(line: bytes) -> _Message | None:
    """Return what a line says, None if it is not a message; servers answer those themselves."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _params(message: _Message) -> dict[str, Any]:
    try:
        params = None if message.params is UNSET else msgspec.json.decode(message.params)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return params if isinstance(params, dict) else {}


def _notification(method: str, meta: dict[str, Any], **params: object) -> bytes:
    inside = {**({"_meta": meta} if meta else {}), **params}
    return _line({"jsonrpc": "2.0", "method": method, **({"params": inside} if inside else {})})


def _line(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode(message) + b"\n"
