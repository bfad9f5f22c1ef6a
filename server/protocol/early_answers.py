"""Answer the requests that open a conversation from plain dicts, before the SDK's server is loaded.

The SDK takes most of the start, and clients wait a second or less for the first answers. Each answer here equals, as a
JSON object, the one that `SkillServer` gives to the same request. The request still goes to the SDK's server, for its
state, under an id of our own, by which its second answer is dropped. A stream of events is acknowledged here, and goes
to the SDK's server under the client's id, which its events carry.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from server.clients import UNKNOWN, client_called, layout_for
from server.hosting.added_prompts import with_added_prompts
from server.hosting.views import COMMON_VIEW
from server.listing.envelope import COMPLETE, without_envelope
from server.protocol.identity import CAPABILITIES, EXTENSIONS, IDENTITY
from server.protocol.plain_messages import INITIALIZED, LISTEN, MODERN_VERSION, PlainMessage, parse_plain_message

if TYPE_CHECKING:
    from server.clients import ClientProfile
    from server.hosting.host import Host

__all__ = ["ACKNOWLEDGED", "EarlyAnswer", "EarlyAnswers"]

_SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"

_STREAM_KEY: Final = "io.modelcontextprotocol/subscriptionId"

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"

_MAX_STREAMS: Final = 16

_HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

_DISCOVERY: Final[dict[str, Any]] = {
    **COMPLETE,
    "supportedVersions": [MODERN_VERSION],
    "capabilities": {**CAPABILITIES, "extensions": EXTENSIONS},
    "ttlMs": 0,
    "cacheScope": "private",
}


class EarlyAnswer(NamedTuple):
    """The line to the client, the line to the SDK's server, and what of the server's output is to be dropped.

    That is the response to the request with the id `silent`, or the acknowledgement of the stream with the id `stream`.
    """

    to_client: bytes
    to_server: bytes
    silent: str | None = None
    stream: str | int | None = None


class EarlyAnswers:
    """The answers to the requests of one connection."""

    def __init__(self, host: Host) -> None:
        """Answer from `host`, whose views must not differ."""
        self._host = host
        self._view = host.view_called(COMMON_VIEW)
        # The client of the handshake, once `initialize` has been answered.
        self._client: ClientProfile | None = None
        self._handshake_is_plain = True
        self._prefix = f"early-{os.urandom(8).hex()}-"
        self._count = 0
        self._streams: set[str | int] = set()
        # The parameters of declared tools are the skills' own, so the SDK may shape them.
        self._lists_tools = not host.settings.tools.declared
        if self._lists_tools:
            # Almost every client asks for it. This also imports what the list needs before the SDK's import begins. A
            # failure is reported where the list is asked for.
            with suppress(Exception):
                self._tools(UNKNOWN)

    def answer(self, line: bytes) -> EarlyAnswer | None:
        """Return the answer to the request in a line, None if the line is left to the SDK."""
        message = parse_plain_message(line)
        if message is None or (message.method == "initialize" and self._client is not None):
            # It may change what is answered to the requests of the handshake era that follow.
            self._handshake_is_plain = False
            return None
        if message.method == LISTEN:
            return self._acknowledged(message, line)
        result = self._result(message)
        answer = None if result is None else self._encoded(message, result)
        if answer is None and message.method == "initialize":
            self._handshake_is_plain = False
        return answer

    def _result(self, message: PlainMessage) -> dict[str, Any] | None:
        if message.modern:
            return self._modern(message.method, _client(message))
        if not self._handshake_is_plain or message.method == INITIALIZED:
            return None
        if message.method == "initialize":
            return self._initialized(message)
        if self._client is None:
            return None
        result = {} if message.method == "ping" else self._listed(message.method, self._client)
        return None if result is None else without_envelope(result)

    def _initialized(self, message: PlainMessage) -> dict[str, Any]:
        self._client = _client(message)
        known = message.protocol in _HANDSHAKE_VERSIONS
        result = {
            "protocolVersion": message.protocol if known else _HANDSHAKE_VERSIONS[-1],
            "capabilities": CAPABILITIES,
            "serverInfo": IDENTITY,
        }
        return self._with_instructions(result, self._client)

    def _modern(self, method: str, client: ClientProfile) -> dict[str, Any] | None:
        if method == "server/discover":
            result: dict[str, Any] | None = self._with_instructions(_DISCOVERY, client)
        else:
            result = self._listed(method, client)
        if result is None or _has_null_metadata(result):
            return None
        return {**result, "_meta": {_SERVER_INFO_KEY: IDENTITY}}

    def _with_instructions(self, result: dict[str, Any], client: ClientProfile) -> dict[str, Any]:
        instructions = self._view.instructions(layout_for(client, self._view.settings))
        return result if instructions is None else {**result, "instructions": instructions}

    def _listed(self, method: str, client: ClientProfile) -> dict[str, Any] | None:
        match method:
            case "tools/list":
                return self._tools(client) if self._lists_tools else None
            case "prompts/list":
                return with_added_prompts(self._view.prompts.page(None), self._view.catalog, self._host)
            case "resources/list":
                return self._view.resources.page(None)
            case "resources/templates/list":
                return self._view.templates
        return None

    def _tools(self, client: ClientProfile) -> dict[str, Any]:
        return self._view.tools(layout_for(client, self._view.settings))

    def _acknowledged(self, message: PlainMessage, line: bytes) -> EarlyAnswer | None:
        number = message.sent["id"]
        if number in self._streams or len(self._streams) == _MAX_STREAMS:
            return None
        self._streams.add(number)
        events = message.sent["params"]["notifications"]
        params = {"_meta": {_STREAM_KEY: number}, "notifications": events}
        acknowledgement = {"jsonrpc": "2.0", "method": ACKNOWLEDGED, "params": params}
        try:
            return EarlyAnswer(_line(acknowledgement), line + b"\n", stream=number)
        except ValueError:
            return None

    def _encoded(self, message: PlainMessage, result: dict[str, Any]) -> EarlyAnswer | None:
        self._count += 1
        silent = f"{self._prefix}{self._count}"
        answer = {"jsonrpc": "2.0", "id": message.sent["id"], "result": result}
        try:
            return EarlyAnswer(_line(answer), _line({**message.sent, "id": silent}), silent)
        except ValueError:
            # The SDK replaces lone surrogates.
            return None


def _client(message: PlainMessage) -> ClientProfile:
    return UNKNOWN if message.client is None else client_called(*message.client)


def _has_null_metadata(result: dict[str, Any]) -> bool:
    """Return whether a resource has a null in its `_meta`, which the SDK leaves out in the modern era."""
    return any(None in resource.get("_meta", {}).values() for resource in result.get("resources", ()))


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8") + b"\n"
