"""Describe in words which values a setting accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.inspect import (
    BoolType,
    CustomType,
    DictType,
    EnumType,
    FloatType,
    IntType,
    NoneType,
    StrType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["described", "listed"]

_SIMPLE: Final[dict[type[Type], str]] = {
    BoolType: "`true` or `false`",
    CustomType: "text, which is never shown or logged",
    StructType: "paths or tables",
}


def described(kind: Type) -> str:  # noqa: PLR0911 - one for each kind
    """Describe the values of a type."""
    match kind:
        case UnionType(types=parts):
            (some,) = (each for each in parts if not isinstance(each, NoneType))
            return described(some)
        case EnumType():
            return f"one of {_members(kind)}"
        case VarTupleType(item_type=EnumType() as item):
            return f"list of any of {_members(item)}"
        case VarTupleType(item_type=item):
            return f"list of {described(item)}"
        case DictType(value_type=value):
            return f"table of {described(value)}"
        case IntType(ge=low, le=high):
            return "whole number" + _range(low, high)
        case FloatType(ge=low, le=high):
            return "number" + _range(low, high)
        case StrType(pattern=pattern):
            return "text" + (f" that matches `{pattern}`" if pattern else "")
    return _SIMPLE[type(kind)]


def listed(names: Iterable[str]) -> str:
    """Return names as code, separated by commas."""
    return ", ".join(f"`{name}`" for name in names)


def _members(kind: EnumType) -> str:
    return listed(str(each.value) for each in kind.cls)


def _range(low: float | None, high: float | None) -> str:
    named = (("at least", low), ("at most", high))
    bounds = " and ".join(f"{word} {bound:,}" for word, bound in named if bound is not None)
    return f", {bounds}" if bounds else ""
