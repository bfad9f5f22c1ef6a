"""Encodes the frozen values of a run as JSON and decodes them, so that they can be recorded and reported.

A value is a dataclass; its fields are strings, numbers, booleans, string enums, other values, tuples of these, mappings
from strings to JSON, or None if the type allows it. Decoding requires every field, and never fills in a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from skills_core.errors import InvalidRecordError

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonObject, JsonValue

__all__ = ["from_json", "to_json"]

_T = TypeVar("_T")

_TYPE_CHECKING_NAMES = {"Mapping": Mapping, "JsonValue": object}
"""Names in annotations that modules import only for type checkers."""


def to_json(value: object) -> JsonObject:
    """Encode a value as a JSON object with all of its fields."""
    return cast("JsonObject", _encode(value))


def from_json(kind: type[_T], record: JsonValue) -> _T:
    """Decode a value of type `kind` that `to_json` encoded.

    Raises:
        InvalidRecordError: a field is missing, unknown or of another type.
    """
    return cast("_T", _decode(kind, record, kind.__name__))


def _encode(value: object) -> object:
    if is_dataclass(value):
        return {field.name: _encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


@cache
def _types_of(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, localns=_TYPE_CHECKING_NAMES)


def _decode(kind: Any, record: object, where: str) -> object:  # noqa: ANN401 - any annotation
    origin = get_origin(kind)
    if origin in {UnionType, Union}:
        return _decode_union(get_args(kind), record, where)
    if origin is tuple:
        items = _require_type(list, record, where)
        return tuple(_decode(get_args(kind)[0], item, f"{where}[{number}]") for number, item in enumerate(items))
    if origin is Mapping:
        value_type = get_args(kind)[1]
        entries = _require_type(dict, record, where).items()
        return {_require_type(str, key, where): _decode(value_type, item, f"{where}.{key}") for key, item in entries}
    return record if kind is object else _decode_plain(kind, record, where)


def _decode_plain(kind: type, record: object, where: str) -> object:
    if is_dataclass(kind):
        return _decode_fields(kind, _require_type(dict, record, where), where)
    if issubclass(kind, Enum):
        return _decode_member(kind, record, where)
    if kind is float and type(record) is int:
        return float(record)  # other JSON writers omit the fraction of a whole number
    return _require_type(kind, record, where)


def _decode_union(kinds: tuple[Any, ...], record: object, where: str) -> object:
    if record is None and NoneType in kinds:
        return None
    (kind,) = (each for each in kinds if each is not NoneType)
    return _decode(kind, record, where)


def _decode_fields(kind: type, record: dict[str, object], where: str) -> object:
    types = _types_of(kind)
    names = {field.name for field in fields(kind)}
    if record.keys() != names:
        odd = ", ".join(sorted(map(str, record.keys() ^ names)))
        raise InvalidRecordError(where, f"missing or unknown: {odd[:200]}")
    return kind(**{name: _decode(types[name], record[name], f"{where}.{name}") for name in names})


def _decode_member(kind: type[Enum], record: object, where: str) -> Enum:
    try:
        return kind(record)
    except ValueError:
        raise InvalidRecordError(where, f"{str(record)[:60]!r} is not one of its values") from None


def _require_type(kind: type[_T], record: object, where: str) -> _T:
    if type(record) is not kind:
        raise InvalidRecordError(where, f"expected {kind.__name__}, not {type(record).__name__}")
    return record
