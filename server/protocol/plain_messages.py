"""Recognize the plain messages with which clients open a conversation, without the SDK's types.

A plain message is one that the SDK is certain to accept. Everything else is left to the SDK, also what is valid but
rare: the rules here are stricter than those of the protocol.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    Rules: TypeAlias = dict[str, Callable[[Any], bool]]

__all__ = ["INITIALIZED", "LISTEN", "MODERN_VERSION", "PlainMessage", "parse_plain_message"]

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


class PlainMessage(NamedTuple):
    """A request, or the notification that ends the handshake.

    `modern` tells whether a request has the modern envelope, `client` is the name and the version of the client, None
    if the message has none, and `protocol` the version of the protocol that `initialize` proposes.
    """

    sent: dict[str, Any]
    method: str
    modern: bool = False
    client: tuple[str, str] | None = None
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
    return PlainMessage(sent, "initialize", client=_identity(params["clientInfo"]), protocol=params["protocolVersion"])


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
    return PlainMessage(sent, method, modern, _identity(meta[_CLIENT_KEY]) if _CLIENT_KEY in meta else None)


def _identity(client: dict[str, str]) -> tuple[str, str]:
    return client["name"], client["version"]


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
