"""Check values of settings one by one, so that every fault is found and not only the first."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from msgspec import Struct
from msgspec.structs import fields

from server.config.values import InvalidValueError, SecretStr, read

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


def usable(kind: Any, value: object) -> object:  # noqa: ANN401 - of any type
    """Return a list or a table without the parts that do not fit; None if nothing is left, or for another value.

    A name in a table stays, with an empty list if nothing of its list fits: other values may refer to the name.
    """
    kind = _plain(kind)
    parts = [(step, _fitting(part, of)) for step, part, of in _parts(value, kind)]
    left: object = None
    if get_origin(kind) is tuple:
        left = [part for _, part in parts if part is not None]
    elif get_origin(kind) in {dict, Mapping}:
        left = {name: part for name, part in parts if part is not None}
    return left if left and not faults(kind, left) else None


def _fitting(part: object, kind: Any) -> object:  # noqa: ANN401 - of any type
    if not faults(kind, part):
        return part
    return usable(kind, part) or ([] if get_origin(_plain(kind)) is tuple else None)


def section_faults(kind: type[Struct], values: Mapping[str, object], section: str) -> Iterator[InvalidValueError]:
    """Yield what is wrong with the valid values of a section together.

    What is at fault, a value or a part of it, is left out for the next look; what is then wrong because a value is
    missing is not a fault.
    """
    rest = _Rest(values)
    dropped: list[str] = []
    for _ in range(_MOST):
        try:
            read(kind, rest.values)
        except InvalidValueError as error:
            path = rest.original(error.path)
            if not any(f"{section}.{name}" in error.message for name in dropped):
                yield InvalidValueError(error.message, path)
            if not rest.leave_out(error.path):
                return
            if len(path) == 1:
                dropped.append(path[0])
        else:
            return


class _Rest:
    """The values of a section without what was left out; paths lead to what is left, or to where it was at first."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values: Any = _copied(values)
        self._gone: dict[tuple[str, ...], list[int]] = {}

    def original(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Return the path in the values as they were given."""
        found: tuple[str, ...] = ()
        part = self.values
        for step in path:
            number = step
            if isinstance(part, list) and step.isdecimal():
                at = int(step)
                for gone in sorted(self._gone.get(found, ())):
                    at += gone <= at
                number = str(at)
            found, part = (*found, number), _inside(part, step)
        return found

    def leave_out(self, path: tuple[str, ...]) -> bool:
        """Leave out what is at a path; return False if nothing is there."""
        part = self.values
        for step in path[:-1]:
            part = _inside(part, step)
        if not path or _inside(part, path[-1]) is None:
            return False
        if isinstance(part, list):
            *above, number = self.original(path)
            self._gone.setdefault((*above,), []).append(int(number))
            del part[int(path[-1])]
        else:
            del part[path[-1]]
        return True


def _copied(value: object) -> object:
    """Return a value with lists and tables of its own."""
    if isinstance(value, Mapping):
        return {name: _copied(part) for name, part in value.items()}
    return [*map(_copied, value)] if isinstance(value, list | tuple) else value


def _inside(value: object, step: str) -> object:
    if isinstance(value, list):
        return value[int(step)] if step.isdecimal() and int(step) < len(value) else None
    return value.get(step) if isinstance(value, dict) else None
