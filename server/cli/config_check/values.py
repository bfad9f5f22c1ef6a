"""Check values of settings one by one, so that every fault is found and not only the first."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from msgspec import Struct
from msgspec.structs import fields

from server.config.values import InvalidValueError, SecretStr, read

__all__ = ["faults", "field_types", "is_secret", "section_faults"]

_MOST: Final = 20
# Faults of one value that are reported; a list may have thousands.


def field_types(kind: type[Struct]) -> dict[str, Any]:
    """Return the types of the fields of a section."""
    return {field.name: field.type for field in fields(kind)}


def is_secret(kind: Any) -> bool:  # noqa: ANN401 - of any type
    """Tell whether values of a type are secret."""
    return kind is SecretStr or any(map(is_secret, get_args(kind)))


def faults(kind: Any, value: object) -> list[InvalidValueError]:  # noqa: ANN401 - of any type
    """Return what is wrong with a value: a fault for each part that does not fit."""
    found: list[InvalidValueError] = []
    for fault in _faults(kind, value, ()):
        found.append(fault)
        if len(found) == _MOST:
            break
    return found


def _faults(kind: Any, value: object, path: tuple[str, ...]) -> Iterator[InvalidValueError]:  # noqa: ANN401
    try:
        read(kind, value)
    except InvalidValueError as error:
        whole = InvalidValueError(error.message, (*path, *error.path))
    else:
        return
    inner = [fault for step, part, of in _parts(value, kind) for fault in _faults(of, part, (*path, step))]
    inner += [InvalidValueError(message, (*path, name)) for name, message in _unknown_names(value, kind)]
    yield from inner or [whole]


def _plain(kind: Any) -> Any:  # noqa: ANN401 - of any type
    """Return a type without its bounds, and without None."""
    while get_origin(kind) in {Annotated, Union, UnionType}:
        kind = next(each for each in get_args(kind) if each is not type(None))
    return kind


def _parts(value: object, kind: Any) -> Iterator[tuple[str, object, Any]]:  # noqa: ANN401 - of any type
    """Yield the parts of a value that may be there: the step to each, the part, and its type."""
    kind = _plain(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(value, list | tuple):
        yield from ((str(number), part, arguments[0]) for number, part in enumerate(value))
    elif origin in {dict, Mapping} and isinstance(value, Mapping):
        yield from ((str(key), part, arguments[1]) for key, part in value.items())
    elif isinstance(kind, type) and issubclass(kind, Struct) and isinstance(value, Mapping):
        known = field_types(kind)
        yield from ((str(name), part, known[name]) for name, part in value.items() if name in known)


def _unknown_names(value: object, kind: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - of any type
    kind = _plain(kind)
    if not (isinstance(kind, type) and issubclass(kind, Struct) and isinstance(value, Mapping)):
        return
    known = [*field_types(kind)]
    for name in value:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            hint = f"the closest known name is {near[0]}" if near else f"expected one of {', '.join(known)}"
            yield str(name), f"unknown; {hint}"


def section_faults(kind: type[Struct], values: Mapping[str, object], section: str) -> Iterator[InvalidValueError]:
    """Yield what is wrong with the valid values of a section together.

    A value that is at fault is left out for the next look; what is then wrong because it is missing is no fault.
    """
    left = dict(values)
    dropped: list[str] = []
    while left:
        try:
            read(kind, left)
        except InvalidValueError as error:
            key = error.path[0] if error.path else ""
            if not any(f"{section}.{name}" in error.message for name in dropped):
                yield error
            if left.pop(key, None) is None:
                return
            dropped.append(key)
        else:
            return
