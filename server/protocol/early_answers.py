"""Answer the requests that open a conversation from plain dicts, before the SDK's server is loaded.

The SDK takes most of the start, and clients wait a second or less for the first answers. Only plain messages are
answered here: those that the SDK is certain to accept. The rules for them are stricter than those of the protocol, and
everything else is left to the SDK. Each answer here equals, as a JSON object, the one that `SkillServer` gives to the
same request. The request still goes to the SDK's server, for its state, under an id of our own, by which its second
answer is dropped. A stream of events is acknowledged here, and goes to the SDK's server under the client's id, which
its events carry.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from server.clients.known import Sender, client_called, declared_in
from server.clients.layout import layout_for, page_for
from server.clients.profile import UNKNOWN, ClientProfile
from server.hosting.views import COMMON_VIEW
from server.listing.envelope import CAPABILITIES, COMPLETE, EXTENSIONS, IDENTITY, without_envelope
from server.listing.extensions import NO_EXTENSIONS, taken_part, with_declared
from server.listing.prompts import prompt_sources, with_added_prompts
from server.protocol.prompt_words import listed_for

if TYPE_CHECKING:
    from server.hosting.host import Host
    from server.hosting.views import View

    Rules: TypeAlias = dict[str, Callable[[Any], bool]]


_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_CLIENT_KEY: Final = "io.modelcontextprotocol/clientInfo"
_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
_TOKEN_KEY: Final = "progressToken"  # noqa: S105 - a field of the protocol

MODERN_VERSION: Final = "2026-07-28"
INITIALIZED: Final = "notifications/initialized"
LISTEN: Final = "subscriptions/listen"

_MAX_LINE: Final = 1 << 16
_MAX_BRACKETS: Final = 50
# More brackets may nest too deep.
_MAX_NUMBER: Final = 1 << 53

_LISTS: Final = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list"})
_METHODS: Final = {False: _LISTS | {"ping"}, True: _LISTS | {"server/discover"}}
"""The methods without params of their own, by whether a request has the modern envelope."""

_EVENTS: Final = ("toolsListChanged", "promptsListChanged", "resourcesListChanged")

_CLIENT_FIELDS: Final = ("title", "description", "websiteUrl")
_CAPABILITY_PARTS: Final = {"elicitation": {"form", "url"}, "sampling": {"context", "tools"}}
_OPEN_CAPABILITIES: Final = frozenset({"experimental", "extensions"})

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
        self._sources = prompt_sources(host.parts)
        # The client of the handshake, once `initialize` has been answered.
        self._client: ClientProfile | None = None
        self._extensions = NO_EXTENSIONS
        self._handshake_is_plain = True
        self._prefix = f"early-{os.urandom(8).hex()}-"
        self._count = 0
        self._streams: set[str | int] = set()
        # The parameters of declared tools are the skills' own, so the SDK may shape them.
        self._lists_tools = not host.settings.tools.declared
        if self._lists_tools and not host.is_opening:
            # Almost every client asks for it. This also imports what the list needs before the SDK's import begins. A
            # failure is reported where the list is asked for.
            with suppress(Exception):
                self._tools(UNKNOWN)

    @property
    def _view(self) -> View:
        return self._host.view_called(COMMON_VIEW)

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
            return self._modern(message.method, _client(message), self._taken_part(message))
        if not self._handshake_is_plain or message.method == INITIALIZED:
            return None
        if message.method == "initialize":
            return self._initialized(message)
        if self._client is None:
            return None
        result = {} if message.method == "ping" else self._listed(message.method, self._client, self._extensions)
        return None if result is None else without_envelope(result)

    def _initialized(self, message: PlainMessage) -> dict[str, Any]:
        self._client, self._extensions = _client(message), self._taken_part(message)
        known = message.protocol in _HANDSHAKE_VERSIONS
        result = {
            "protocolVersion": message.protocol if known else _HANDSHAKE_VERSIONS[-1],
            "capabilities": CAPABILITIES,
            "serverInfo": IDENTITY,
        }
        return self._with_instructions(result, self._client)

    def _taken_part(self, message: PlainMessage) -> frozenset[str]:
        return taken_part(message.capabilities.get("extensions"), self._view.settings)

    def _modern(self, method: str, client: ClientProfile, extensions: frozenset[str]) -> dict[str, Any] | None:
        if method == "server/discover":
            discovery = with_declared(_DISCOVERY, extensions)
            result: dict[str, Any] | None = self._with_instructions(discovery, client)
        else:
            result = self._listed(method, client, extensions)
        if result is None or _has_null_metadata(result):
            return None
        return {**result, "_meta": {_SERVER_INFO_KEY: IDENTITY}}

    def _with_instructions(self, result: dict[str, Any], client: ClientProfile) -> dict[str, Any]:
        instructions = self._view.instructions(layout_for(client, self._view.settings))
        return result if instructions is None else {**result, "instructions": instructions}

    def _listed(self, method: str, client: ClientProfile, extensions: frozenset[str]) -> dict[str, Any] | None:
        if self._host.is_opening:
            return None
        match method:
            case "tools/list":
                return self._tools(client, extensions) if self._lists_tools else None
            case "prompts/list":
                page = with_added_prompts(self._view.prompts.page(None), self._view.catalog, self._sources)
                return listed_for(client, page, self._view.catalog)
            case "resources/list":
                return page_for(client, self._view.resources.page(None), "resources")
            case "resources/templates/list":
                return self._view.templates
        return None

    def _tools(self, client: ClientProfile, extensions: frozenset[str] = NO_EXTENSIONS) -> dict[str, Any]:
        return self._view.tools(layout_for(client, self._view.settings, extensions))

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


class PlainMessage(NamedTuple):
    """A request, or the notification that ends the handshake.

    `modern` tells whether a request has the modern envelope, `client` is what the client says of itself, None if it
    gives no name, `capabilities` are those that it declares, and `protocol` is the version of the protocol that
    `initialize` proposes.
    """

    sent: dict[str, Any]
    method: str
    modern: bool = False
    client: Sender | None = None
    capabilities: Mapping[str, Any] = {}
    protocol: str = ""


def parse_plain_message(line: bytes) -> PlainMessage | None:
    """Return the message in a line, None if the line is anything but a plain message."""
    if len(line) > _MAX_LINE or line.count(b"{") + line.count(b"[") > _MAX_BRACKETS:
        return None
    try:
        sent = json.loads(line.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_refuse)
    except ValueError:
        return None
    if not isinstance(sent, dict) or sent.get("jsonrpc") != "2.0":
        return None
    params, method = sent.get("params", {}), sent.get("method")
    if sent.keys() <= {"jsonrpc", "method", "params"}:
        return PlainMessage(sent, INITIALIZED) if method == INITIALIZED and params == {} else None
    if not sent.keys() <= {"jsonrpc", "id", "method", "params"} or not _is_number_or_text(sent["id"]):
        return None
    parse = _PARSERS.get(method, _list) if isinstance(method, str) else None
    return parse(sent, params) if parse else None


def _handshake(sent: dict[str, Any], params: Any) -> PlainMessage | None:  # noqa: ANN401 - JSON
    expected: Rules = {"protocolVersion": _is_text, "capabilities": _are_capabilities, "clientInfo": _is_client}
    if not _fits(params, expected, {"_meta": _is_plain_meta}):
        return None
    capabilities = params["capabilities"]
    client = _sender(params["clientInfo"], capabilities)
    return PlainMessage(
        sent, "initialize", client=client, capabilities=capabilities, protocol=params["protocolVersion"]
    )


def _listen(sent: dict[str, Any], params: Any) -> PlainMessage | None:  # noqa: ANN401 - JSON
    plain = _fits(params, {"_meta": _is_envelope, "notifications": _are_events}, {})
    return PlainMessage(sent, LISTEN, modern=True) if plain and not _is_numeral(sent["id"]) else None


def _are_events(value: object) -> bool:
    return _fits(value, {}, dict.fromkeys(_EVENTS, lambda wanted: wanted is True))


def _is_numeral(number: str | int) -> bool:
    """Return whether an id is a text that the SDK takes for a number."""
    try:
        return isinstance(number, str) and int(number) is not None
    except ValueError:
        return False


def _list(sent: dict[str, Any], params: Any) -> PlainMessage | None:  # noqa: ANN401 - JSON
    meta = params.get("_meta", {}) if isinstance(params, dict) else {}
    modern = isinstance(meta, dict) and _VERSION_KEY in meta
    method = str(sent["method"])
    if method not in _METHODS[modern] or not _fits(params, {}, {"_meta": _is_envelope if modern else _is_plain_meta}):
        return None
    capabilities = meta.get(_CAPABILITIES_KEY, {})
    sender = _sender(meta[_CLIENT_KEY], capabilities) if _CLIENT_KEY in meta else None
    return PlainMessage(sent, method, modern, sender, capabilities)


def _sender(client: dict[str, str], capabilities: object) -> Sender:
    return Sender(client["name"], client["version"], declared_in(capabilities))


_PARSERS: Final = {"initialize": _handshake, LISTEN: _listen}
"""The parsers of requests by method; the others are requests for lists."""


def _is_plain_meta(value: object) -> bool:
    return _fits(value, {}, {_TOKEN_KEY: _is_number_or_text})


def _is_envelope(value: object) -> bool:
    expected: Rules = {
        _VERSION_KEY: lambda version: version == MODERN_VERSION,
        _CAPABILITIES_KEY: _are_capabilities,
    }
    return _fits(value, expected, {_CLIENT_KEY: _is_client, _TOKEN_KEY: _is_number_or_text})


def _is_client(value: object) -> bool:
    return _fits(value, dict.fromkeys(("name", "version"), _is_text), dict.fromkeys(_CLIENT_FIELDS, _is_text))


def _are_capabilities(value: object) -> bool:
    return isinstance(value, dict) and all(_is_capability(name, each) for name, each in value.items())


def _is_capability(name: str, value: object) -> bool:
    if not isinstance(value, dict):
        return False
    if name == "roots":
        return value.keys() <= {"listChanged"} and isinstance(value.get("listChanged", True), bool)
    known = name in _OPEN_CAPABILITIES or (name in _CAPABILITY_PARTS and value.keys() <= _CAPABILITY_PARTS[name])
    return known and all(isinstance(part, dict) for part in value.values())


def _fits(value: object, expected: Rules, also: Rules) -> bool:
    """Return whether a value is an object with all `expected` fields and no others but `also`, each valid."""
    if not isinstance(value, dict) or not expected.keys() <= value.keys():
        return False
    rules = {**also, **expected}
    return all(name in rules and rules[name](each) for name, each in value.items())


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number_or_text(value: object) -> bool:
    return isinstance(value, str) or (type(value) is int and -_MAX_NUMBER < value < _MAX_NUMBER)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(constant)
