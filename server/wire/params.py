"""The parameters of requests: what every handler can rely on, and the arguments that a model passes to a tool."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from skills_core.diagnostics import one_line, without_lone_surrogates
from skills_core.errors import SkillsError, did_you_mean, similar_to

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext


logger = logging.getLogger(__name__)


class InvalidRequestError(SkillsError):
    """The parameters of a request are invalid; the message says what was expected, `uri` names a resource not found."""

    def __init__(self, message: str, uri: str | None = None) -> None:
        super().__init__(message)
        self.uri = uri


_MAX_METHOD = 100
# Characters of a method's name that are logged.

_MAX_DEPTH = 100
# No valid request nests deeper, and walking deeper values by recursion exhausts the stack.


def checked_message(ctx: ServerRequestContext[Any, Any]) -> ServerRequestContext[Any, Any] | None:
    """Return the message with lone surrogates replaced by U+FFFD; None for an invalid notification.

    JSON can hold a lone surrogate, for example where JavaScript has cut a string, but a result that repeats it cannot
    be encoded. An invalid notification is dropped with a log line, because there is no response to it.

    Raises:
        InvalidRequestError: the parameters nest too deep.
    """
    try:
        has_surrogates = ctx.params is not None and _has_surrogates(ctx.params)
    except InvalidRequestError as error:
        if ctx.request_id is not None:
            raise
        logger.warning("the notification %s is ignored: %s", one_line(ctx.method[:_MAX_METHOD]), error)
        return None
    return replace(ctx, params=_repaired(ctx.params)) if has_surrogates else ctx


def within_bounds(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Apply the same limits to a JSON value that came as a string within a request.

    Raises:
        InvalidRequestError: the value nests too deep.
    """
    return _repaired(value) if _has_surrogates(value) else value


def _has_surrogates(params: object) -> bool:
    """Tell whether any string has a lone surrogate."""
    level, found = [params], False
    for _ in range(_MAX_DEPTH):
        below: list[object] = []
        for value in level:
            if isinstance(value, str):
                found = found or (not value.isascii() and _repaired(value) != value)
            elif isinstance(value, dict):
                below += value
                below += value.values()
            elif isinstance(value, list):
                below += value
        if not below:
            return found
        level = below
    raise InvalidRequestError(f"the parameters nest deeper than {_MAX_DEPTH} levels")


def _repaired(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        return without_lone_surrogates(value)
    if isinstance(value, dict):
        return {_repaired(key): _repaired(each) for key, each in value.items()}
    return [_repaired(each) for each in value] if isinstance(value, list) else value


CONTINUE = "continue"
"""The argument that resumes a call that has not finished, or whose user has declined."""
CONFIRM = "confirm"
"""The argument that resumes a call whose user has agreed."""

_MAX_NAMED = 5
# Unknown arguments that an error names.


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_IS: dict[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value),
    "object": lambda value: isinstance(value, dict),
    # Models write a string for a list of one item, and some tools accept it.
    "array": lambda value: isinstance(value, list | str),
}
"""Checks of the JSON Schema types that our tools use."""


def read_arguments(tool: str, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, converted to the types of the tool's input schema.

    Names and top-level types are checked here, contents and allowed values by the tool. A null counts as not given,
    because clients send one for each field left empty. Some clients send other types as strings of JSON, and whole
    numbers as `5.0`, which JSON Schema counts as integers; these are converted.

    Raises:
        InvalidRequestError: an argument is unknown, missing, or of the wrong type.
    """
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    if schema.get("additionalProperties") is False and not arguments.keys() <= properties.keys():
        raise InvalidRequestError(_unknown_message(tool, arguments, schema))
    for name in schema.get("required", ()):
        if arguments.get(name) is None:
            raise _missing(name, arguments)
    return {
        name: _converted(name, value, properties.get(name, {}))
        for name, value in arguments.items()
        if value is not None
    }


def _converted(name: str, value: object, schema: Mapping[str, Any]) -> object:
    """Return the value of an argument, converted to its type."""
    expected = schema.get("type")
    if expected not in _IS:
        return value
    fits = _IS[expected]
    if fits(value) and not (expected == "array" and isinstance(value, str)):
        return value
    value = _as_whole(value, expected)
    if isinstance(value, str) and expected != "string":
        meant = _as_whole(_from_text(value), expected)
        if fits(meant) and not isinstance(meant, str):
            return meant
    if not fits(value):
        raise InvalidRequestError(f"{name} must be {_described(schema)}")
    return value


def _as_whole(value: object, expected: object) -> object:
    return int(value) if expected == "integer" and isinstance(value, float) and value.is_integer() else value


def _from_text(text: str) -> object:
    """Return the JSON value of a text, or the text itself if it is not JSON or breaks the limits of a request."""
    try:
        return within_bounds(json.loads(text, parse_constant=_refuse_constant))
    except (ValueError, RecursionError, InvalidRequestError):
        return text


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _unknown_message(tool: str, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    properties = schema.get("properties", {})
    unknown = [name for name in arguments if name not in properties]
    named = ", ".join(repr(name[:100]) for name in unknown[:_MAX_NAMED])
    more = f" and {len(unknown) - _MAX_NAMED} more" if len(unknown) > _MAX_NAMED else ""
    known = f"it takes {', '.join(properties)}" if properties else "it takes none"
    meant = did_you_mean(_suggestions(unknown[0], arguments, schema))
    return f"{tool} was not called: it has no argument {named}{more}; {known}.{meant}"


def _suggestions(unknown: str, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> Sequence[str]:
    """Return which argument an unknown name may stand for: one spelt alike, missing, or of a type that fits."""
    free = {name: each for name, each in schema.get("properties", {}).items() if name not in arguments}
    if similar := similar_to(unknown, free):
        return similar[:1]
    missing = [name for name in schema.get("required", ()) if name in free]
    value = arguments[unknown]
    alike = [name for name, each in free.items() if each.get("type") in _IS and _IS[each["type"]](value)]
    candidates = [name for name in missing if name in alike] or alike
    return candidates if len(candidates) == 1 else ()


def _described(schema: Mapping[str, Any]) -> str:
    """Describe the values of an argument in words."""
    words = {"string": "a string", "boolean": "true or false", "object": "an object", "array": "a list"}
    if schema["type"] == "number":
        return f"a number, from {schema.get('minimum', 0)} on"
    if schema["type"] == "integer":
        least = schema.get("minimum", 0)
        most = schema.get("maximum")
        return f"a whole number, from {least} on" if most is None else f"a whole number from {least} to {most}"
    of_strings = schema.get("items" if schema["type"] == "array" else "additionalProperties") == {"type": "string"}
    example = ', such as {"format": "table"}' if schema["type"] == "object" and of_strings else ""
    return f"{words[schema['type']]}{' of strings' if of_strings else ''}{example}"


def string(arguments: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a string argument.

    Raises:
        InvalidRequestError: the value is not a string, or is missing without a default.
    """
    value = arguments.get(name)
    if value is None and default is not None:
        return default
    if value is None:
        raise _missing(name, arguments)
    if not isinstance(value, str):
        raise InvalidRequestError(f"{name} must be a string")
    return value


def strings(arguments: Mapping[str, Any], name: str, most: int) -> tuple[str, ...]:
    """Return a list of at most `most` strings, empty if it is missing; one string stands for a list of one.

    Raises:
        InvalidRequestError: the value is not such a list.
    """
    value = arguments.get(name) or []
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidRequestError(f"{name} must be a list of strings")
    if len(value) > most:
        raise InvalidRequestError(f"{name} may have at most {most} items")
    return tuple(value)


def _missing(name: str, arguments: Mapping[str, Any]) -> InvalidRequestError:
    given = ", ".join(sorted(arguments))[:200] or "nothing"
    return InvalidRequestError(f"{name} is missing; the call has {given}")
