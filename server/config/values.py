"""Extend msgspec for settings: types of fields, secrets that no text shows, errors with the value and its path.

msgspec converts and validates. Its errors name neither the value, nor the key in a table, nor the members of an enum;
so after a failure each part of the value is validated on its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import fields

NonEmpty = Annotated[str, Meta(min_length=1)]
PositiveInt = Annotated[int, Meta(ge=1)]
Depth = Annotated[int, Meta(ge=0, le=100)]
Folders = Annotated[int, Meta(ge=1, le=1_000_000)]

Kind = TypeVar("Kind")

_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}|%(\w+)%")

_WORDS: Mapping[object, str] = {
    bool: "true or false",
    float: "a number",
    int: "a whole number",
    str: "text",
    tuple: "a list",
}
_SHOWN = 80
# Characters of a wrong value in a message.


class InvalidValueError(ValueError):
    """A value is not valid for its field; `path` leads to the value, beginning with the name of the field."""

    def __init__(self, message: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.path = path


class SecretStr:
    """A text that no message and no log shows."""

    def __init__(self, value: str) -> None:
        self._value = value

    def get_secret_value(self) -> str:
        """Return the text."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretStr) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "SecretStr('**********')"


def read(kind: type[Kind], value: object) -> Kind:
    """Convert a value to a type; text may spell a value of another type, because environment variables are text.

    Raises:
        InvalidValueError: the value is not of that type, or a field in it is unknown, missing or invalid.
    """
    try:
        return convert(value, kind, strict=False, dec_hook=_secret)
    except ValidationError as error:
        cause = error.__cause__
    for step, part, inner in _parts(value, kind):
        try:
            read(inner, part)
        except InvalidValueError as fault:
            raise InvalidValueError(fault.message, (step, *fault.path)) from None
    if isinstance(cause, InvalidValueError):
        raise cause from None
    raise InvalidValueError(f"{_shown(value)}: expected {_expected(kind)}")


def resolved_path(text: str, home: Path, environment: Mapping[str, str]) -> Path:
    """Return the path that a text of our data means: `${NAME:-DEFAULT}` and `%NAME%` are variables, `~` is `home`."""

    def value(found: re.Match[str]) -> str:
        name, default = (found[1], found[2]) if found[1] else (found[3], "")
        return environment.get(name) or default

    text = _VARIABLE.sub(value, text)
    return home / text[2:] if text.startswith("~/") else Path(text)


def home_path(text: str | os.PathLike[str]) -> Path:
    """Return the path that a user wrote: a `~` at its beginning is the home directory, and `~name` that of a user.

    Clients start servers without a shell, which would do this. Variables are left as they are: a name may have a `$`.
    The `~` of an unknown user stays, where `Path.expanduser` raises.
    """
    return Path(os.path.expanduser(text))  # noqa: PTH111 - see above


def check_paths(**paths: str | None) -> None:
    """Check that no path has the character that no system allows in one.

    Raises:
        InvalidValueError: a path has it; the message does not repeat the path.
    """
    for name, path in paths.items():
        if path is not None and "\0" in path:
            raise InvalidValueError("expected a path, which has no NUL character", (name,))


def _secret(_: type, value: object) -> SecretStr:
    if not isinstance(value, str):
        raise InvalidValueError("expected text")
    return SecretStr(value)


def _shown(value: object) -> str:
    try:
        return repr(value)[:_SHOWN]
    except ValueError:
        return "a number with thousands of digits"


def _parts(value: object, kind: Any) -> Iterator[tuple[str, object, Any]]:  # noqa: ANN401 - of any type
    """Yield the parts of a value: the step to each part, the part, and its expected type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(value, (list, tuple)):
        yield from ((str(number), part, arguments[0]) for number, part in enumerate(value))
    elif origin in {dict, Mapping} and isinstance(value, Mapping):
        yield from ((str(key), part, arguments[1]) for key, part in value.items())
    elif isinstance(kind, type) and issubclass(kind, Struct) and isinstance(value, Mapping):
        known = {field.name: field for field in fields(kind)}
        if odd := [name for name in value if name not in known]:
            raise InvalidValueError("unknown", (str(odd[0]),))
        for name, field in known.items():
            if name in value:
                yield name, value[name], field.type
            elif field.required:
                raise InvalidValueError("missing", (name,))


def _expected(kind: Any) -> str:  # noqa: ANN401 - of any type
    """Describe the values that a type accepts."""
    if get_origin(kind) in {Union, UnionType}:
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    bare, *rules = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    if isinstance(bare, type) and issubclass(bare, StrEnum):
        return f"one of {', '.join(bare)}"
    return _WORDS.get(get_origin(bare) or bare, "a table") + "".join(map(_limits, rules))


def _limits(rule: Meta) -> str:
    bounds = [f"at least {rule.ge}"] * (rule.ge is not None) + [f"at most {rule.le}"] * (rule.le is not None)
    numbers = f" of {' and '.join(bounds)}" * bool(bounds)
    pattern = f" that matches the pattern {rule.pattern}" * bool(rule.pattern)
    return numbers + " that is not empty" * bool(rule.min_length) + pattern
