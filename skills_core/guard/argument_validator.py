"""Validates a tool's arguments against its JSON Schema, which may come from an untrusted source.

No schema can make validation slow, deeply recursive, or send requests: RE2 matches the patterns, references must stay
within the schema, and a validation that takes too long is stopped. A schema beyond the limits is refused when the tool
is created if that is known by then, and otherwise makes the arguments invalid.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from skills_core.diagnostics import one_line
from skills_core.errors import InvalidPatternError, InvalidSchemaError
from skills_core.texts import compile_matcher, pattern_fault

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonValue

MAX_VALUES = 20_000
"""Values in a schema, and in the arguments of one call."""

MAX_DEPTH = 100
"""Nesting levels of lists and objects, in both."""

MAX_SECONDS = 1.0
"""CPU seconds of one validation: a schema that refers to itself twice can recurse without end."""

MAX_UNEVALUATED = 1000
"""Most members for `unevaluatedProperties` and `unevaluatedItems`, where the library takes quadratic time."""

MAX_ERRORS = 10
"""Most errors of one call that are reported."""

_MAX_SHOWN = 300

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_deadline: ContextVar[float] = ContextVar("given_up_at")
# In seconds of `thread_time`.


class ArgumentValidator:
    """Validates arguments; `notes` say which parts of the schema are not checked, and why."""

    def __init__(self, schema: Mapping[str, JsonValue]) -> None:
        """Compile the schema.

        Raises:
            InvalidSchemaError: it is not JSON, not a JSON Schema of an object, too large, or has an outside reference.
        """
        if not isinstance(schema, dict):
            raise InvalidSchemaError("it must be an object")
        if too_much := _bounds_error(schema):
            raise InvalidSchemaError(f"its parts {too_much}")
        cleaned: Any = _without_schema_keywords(schema)
        if cleaned.get("type", "object") != "object":
            raise InvalidSchemaError("its type must be object, because arguments have names")
        self.notes = tuple(_notes(cleaned))
        self._validator = _validator(schema, cleaned)

    def errors(self, arguments: JsonValue) -> str:
        """Return the errors of the arguments, one a line with its location; empty if they are valid."""
        if not isinstance(arguments, dict):
            return "the arguments must be a JSON object"
        if too_much := _bounds_error(arguments):
            return f"the arguments {too_much}"
        token = _deadline.set(time.thread_time() + MAX_SECONDS)
        try:
            lines = [_line(error) for error in islice(self._validator.iter_errors(arguments), MAX_ERRORS + 1)]
        except _TooMuchError:
            return "the arguments take too long to check against the tool's schema; use simpler ones"
        except Exception as error:  # noqa: BLE001 - an untrusted schema may break the library in any way
            return f"the arguments cannot be checked against the tool's schema ({type(error).__name__})"
        finally:
            _deadline.reset(token)
        if len(lines) > MAX_ERRORS:
            lines[MAX_ERRORS:] = ["and more"]
        return "\n".join(lines)


class _TooMuchError(Exception):
    """A validation exceeds its limits."""


def _check_time() -> None:
    if time.thread_time() > _deadline.get():
        raise _TooMuchError


def _line(error: Any) -> str:  # noqa: ANN401 - an error of a library that is imported lazily
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{one_line(part)}" for part in error.absolute_path)
    message = one_line(error.message)
    shown = message if len(message) <= _MAX_SHOWN else f"{message[:_MAX_SHOWN]}…"
    return f"arguments{place[:_MAX_SHOWN]}: {shown}"


def _bounds_error(value: object) -> str:
    """Return why a value is too deep, too large, or not JSON; empty if it is none of these."""
    count, level = 0, [value]
    for _ in range(MAX_DEPTH + 1):
        count += len(level)
        if count > MAX_VALUES:
            return f"hold more than {MAX_VALUES} values"
        # Python's parser accepts NaN and Infinity, but other JSON parsers do not.
        if any(isinstance(each, float) and not math.isfinite(each) for each in level):
            return "hold a number that is not finite, which JSON does not allow"
        level = [inner for each in level for inner in _children(each)]
        if not level:
            return ""
    return f"nest deeper than {MAX_DEPTH} levels"


def _children(value: object) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _without_schema_keywords(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a schema without `$schema`, which inside a schema would select another, unlimited validator."""
    if isinstance(value, dict):
        return {
            key: _without_schema_keywords(each)
            for key, each in value.items()
            if not (key == "$schema" and isinstance(each, str))
        }
    return [_without_schema_keywords(each) for each in value] if isinstance(value, list) else value


def _members(value: object) -> Iterator[tuple[str, Any]]:
    """Yield every key and value of every object within a value."""
    level = [value]
    while level:
        for each in level:
            if isinstance(each, dict):
                yield from each.items()
        level = [inner for each in level for inner in _children(each)]


def _notes(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is not checked: patterns that RE2 cannot compile, and keywords that use the library's own patterns."""
    patterned = False
    for key, value in _members(schema):
        if key == "pattern" and isinstance(value, str) and (fault := pattern_fault(value)):
            yield f"not checked: {fault}"
        if key == "patternProperties" and isinstance(value, dict):
            patterned = True
            yield from (f"not checked: {fault}" for pattern in value if (fault := pattern_fault(pattern)))
    if patterned and any(key == "unevaluatedProperties" for key, _ in _members(schema)):
        yield "not checked: unevaluatedProperties beside patternProperties"


def _validator(schema: Mapping[str, Any], cleaned: dict[str, Any]) -> Any:  # noqa: ANN401 - the library's class
    """Return a validator for the cleaned schema, in the dialect that the schema names."""
    import referencing  # noqa: PLC0415 - comes with the extra
    from jsonschema import FormatChecker, SchemaError, validators  # noqa: PLC0415 - likewise

    dialect = schema.get("$schema")
    named = {"$schema": dialect} if isinstance(dialect, str) else {}
    base: Any = validators.validator_for(named, default=validators.Draft202012Validator)
    try:
        base.check_schema(cleaned, format_checker=FormatChecker(()))
    except SchemaError as error:
        raise InvalidSchemaError(one_line(error.message)[:_MAX_SHOWN]) from None
    except RecursionError:
        raise InvalidSchemaError("its parts are nested too deeply") from None
    validator = _bounded(base)(cleaned, registry=referencing.Registry())
    for key, value in _members(cleaned):
        if key in _REFERENCES and isinstance(value, str):
            _require_internal(value, validator)
    return validator


def _require_internal(reference: str, validator: Any) -> None:  # noqa: ANN401 - the library's
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - comes with the extra

    shown = f"{one_line(reference)[:100]!r}"
    if not reference.startswith("#"):
        raise InvalidSchemaError(
            f"it refers to {shown}; only references within the schema, which begin with #, are followed"
        )
    try:
        validator._resolver.lookup(reference)  # noqa: SLF001 - the library has no public way
    except Unresolvable:
        raise InvalidSchemaError(f"it refers to {shown}, which it does not define") from None


@cache
def _bounded(base: Any) -> Any:  # noqa: ANN401 - the library's class
    """Return a validator class whose keywords all check the deadline, and whose patterns are RE2's."""
    from jsonschema import validators  # noqa: PLC0415 - comes with the extra

    extend: Callable[..., Any] = validators.extend
    own = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "unevaluatedProperties": _unevaluated(base.VALIDATORS.get("unevaluatedProperties")),
        "unevaluatedItems": _unevaluated(base.VALIDATORS.get("unevaluatedItems")),
        "uniqueItems": _unique_items,
    }
    keywords = {name: own.get(name) or keyword for name, keyword in base.VALIDATORS.items()}
    return extend(base, {name: _timed(keyword) for name, keyword in keywords.items()})


def _timed(keyword: Callable[..., Any]) -> Callable[..., Any]:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Any:  # noqa: ANN401 - the library's
        _check_time()
        return keyword(validator, value, instance, schema)

    return check


def _searcher(pattern: str) -> Callable[[str], bool] | None:
    try:
        return compile_matcher(pattern)
    except InvalidPatternError:
        return None


def _error(message: str) -> Any:  # noqa: ANN401 - the library's
    from jsonschema import ValidationError  # noqa: PLC0415 - comes with the extra

    return ValidationError(message)


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:  # noqa: ANN401
    matches = _searcher(pattern) if isinstance(instance, str) else None
    if matches is not None and not matches(instance):
        yield _error(f"{instance[: _MAX_SHOWN // 3]!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[Any]:  # noqa: ANN401
    if not isinstance(instance, dict):
        return
    for pattern, inner in patterns.items():
        _check_time()
        matches = _searcher(pattern)
        for key, value in instance.items():
            if matches is not None and matches(key):
                yield from validator.descend(value, inner, path=key, schema_path=pattern)


def _additional_properties(validator: Any, inner: Any, instance: Any, schema: Any) -> Iterator[Any]:  # noqa: ANN401
    if not isinstance(instance, dict):
        return
    named = schema.get("properties", {})
    patterns = [_searcher(pattern) for pattern in schema.get("patternProperties", {})]
    # A pattern that cannot be compiled might have matched.
    further = []
    for key in instance:
        _check_time()
        if key not in named and not any(matches is None or matches(key) for matches in patterns):
            further.append(key)
    if inner is False and further:
        yield _error(f"unknown: {', '.join(map(repr, further))}; expected {', '.join(map(repr, named)) or 'nothing'}")
        return
    for key in further:
        yield from validator.descend(instance[key], inner, path=key)


def _unevaluated(keyword: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Return the library's keyword, disabled where it would match patterns with its own engine."""
    if keyword is None:
        return None

    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Any:  # noqa: ANN401 - the library's
        if isinstance(instance, (dict, list)) and len(instance) > MAX_UNEVALUATED:
            raise _TooMuchError
        root = validator._resolver.lookup("#").contents  # noqa: SLF001 - the library has no public way
        if isinstance(instance, dict) and any(key == "patternProperties" for key, _ in _members(root)):
            return ()
        return keyword(validator, value, instance, schema)

    return check


def _unique_items(_validator: Any, unique: Any, instance: Any, _schema: Any) -> Iterator[Any]:  # noqa: ANN401
    """Check for equal items in linear time; the library's check is quadratic for lists of objects."""
    if unique is True and isinstance(instance, list) and len(set(map(_hashable, instance))) < len(instance):
        yield _error("has items that are equal")


def _hashable(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return frozenset((key, _hashable(each)) for key, each in value.items())
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    # True and 1 are equal in Python, but distinct in JSON.
    return (bool, value) if isinstance(value, bool) else value
