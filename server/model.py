"""A small typed model: frozen values of a class, read from what files, the environment and flags hold.

It says the part of pydantic that settings need in the same words (`Field`, `field_validator`, `SecretStr`), as to
import pydantic takes as long as all else in a process that is started for one question. Fields are of these types:
bool, int, float, str, enums of text, `SecretStr`, other models, any of them or None, and tuples and mappings of them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Self,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

__all__ = ["Field", "FieldInfo", "InvalidValueError", "Model", "PositiveInt", "SecretStr", "field_validator"]

_REQUIRED: Any = object()
_TRUTH = {
    **dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_SHOWN = 80
# Characters of a wrong value in a message.

Check = TypeVar("Check", bound=Callable[..., Any])


class InvalidValueError(ValueError):
    """A value does not fit its field; `path` leads to it, from the field's name on."""

    def __init__(self, message: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.path = path

    def below(self, step: object) -> InvalidValueError:
        """Return the same for the value that holds this one under `step`."""
        return InvalidValueError(self.message, (str(step), *self.path))


@dataclass(frozen=True, slots=True)
class FieldInfo:
    """What a field is without a value, and what is asked of one: bounds, a length, the whole of a pattern."""

    default: Any = _REQUIRED
    default_factory: Callable[[], Any] | None = None
    ge: float | None = None
    le: float | None = None
    min_length: int = 0
    pattern: str | None = None

    def value(self) -> Any:  # noqa: ANN401 - of any type
        """Return what stands where nothing is given."""
        return self.default_factory() if self.default_factory else self.default

    def check(self, value: Any) -> None:  # noqa: ANN401 - of any type
        """Check a value of the right type.

        Raises:
            InvalidValueError: it is out of bounds.
        """
        if value is None:
            return
        if (self.ge is not None and value < self.ge) or (self.le is not None and value > self.le):
            bounds = [f"at least {self.ge}"] * (self.ge is not None) + [f"at most {self.le}"] * (self.le is not None)
            raise InvalidValueError(f"{_shown(value)}: expected a number of {' and '.join(bounds)}")
        if self.min_length and len(value) < self.min_length:
            raise InvalidValueError("expected something that is not empty")
        if self.pattern is not None and not re.search(self.pattern, value):
            raise InvalidValueError(f"{_shown(value)}: expected text that the pattern {self.pattern} matches")


def Field(  # noqa: N802 - the name that readers know
    *,
    default: Any = _REQUIRED,  # noqa: ANN401 - of the field's type
    default_factory: Callable[[], Any] | None = None,
    ge: float | None = None,
    le: float | None = None,
    min_length: int = 0,
    pattern: str | None = None,
) -> Any:  # noqa: ANN401 - stands where the field's value does
    """Describe a field by more than its type; see `FieldInfo`."""
    return FieldInfo(default, default_factory, ge, le, min_length, pattern)


PositiveInt = Annotated[int, FieldInfo(ge=1)]


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


def field_validator(*names: str) -> Callable[[Check], Check]:
    """Mark a class method that checks the fields `names`: it returns the value, or raises a ValueError."""

    def mark(method: Check) -> Check:
        method._checks = names  # type: ignore[attr-defined] # noqa: SLF001 - how it is found again
        return method

    return mark


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
class Model:
    """The base of such classes. Values that are given are read by the types of their fields, defaults are not."""

    model_fields: ClassVar[Mapping[str, FieldInfo]] = MappingProxyType({})
    _checks: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def __init_subclass__(cls) -> None:
        fields: dict[str, FieldInfo] = {}
        for name in inspect.get_annotations(cls):
            default = cls.__dict__.get(name, _REQUIRED)
            fields[name] = default if isinstance(default, FieldInfo) else FieldInfo(default)
        cls.model_fields = MappingProxyType(fields)
        methods = [method for method in vars(cls).values() if isinstance(method, classmethod)]
        checks = {name: method.__func__ for method in methods for name in getattr(method, "_checks", ())}
        cls._checks = MappingProxyType(checks)

    def __init__(self, **given: object) -> None:
        for name, value in self._read(given).items():
            object.__setattr__(self, name, value)

    @classmethod
    def model_validate(cls, given: object) -> Self:
        """Read an object of fields.

        Raises:
            InvalidValueError: it has a field that there is not, lacks one, or holds a value that does not fit.
        """
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            raise InvalidValueError(f"{_shown(given)}: expected a table")
        return cls(**given)

    @classmethod
    def _read(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        for name in given:
            if name not in cls.model_fields:
                raise InvalidValueError("unknown", (name,))
        values: dict[str, Any] = {}
        # The type checker takes the hash of an instance for that of its class.
        kinds = _kinds_of(cls) if given else {}  # type: ignore[arg-type]
        for name, field in cls.model_fields.items():
            if name not in given:
                values[name] = field.value()
                if values[name] is _REQUIRED:
                    raise InvalidValueError("missing", (name,))
                continue
            try:
                value = _converted(given[name], kinds[name])
                field.check(value)
                check = cls._checks.get(name)
                values[name] = check(cls, value) if check else value
            except InvalidValueError as error:
                raise error.below(name) from None
            except ValueError as error:
                raise InvalidValueError(str(error), (name,)) from None
        return values

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        # Mappings within have no hash of their own.
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


@cache
def _kinds_of(model: type[Model]) -> dict[str, Any]:
    """Return the types of the fields, which to evaluate takes longer than to read the values."""
    return get_type_hints(model, include_extras=True)


def _shown(value: object) -> str:
    return repr(value)[:_SHOWN]


def _converted(value: Any, kind: Any) -> Any:  # noqa: ANN401 - of any type
    """Return a value as one of the type `kind`; text is read as what it spells, as the environment has nothing else."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        converted = _converted(value, arguments[0])
        for rule in arguments[1:]:
            rule.check(converted)
        return converted
    if origin in {Union, UnionType}:
        (inner,) = (each for each in arguments if each is not NoneType)
        return None if value is None else _converted(value, inner)
    if origin is tuple:
        return _all_of(value, arguments[0])
    if origin in {dict, Mapping}:
        return _table_of(value, *arguments)
    if isinstance(kind, type) and issubclass(kind, Model):
        return kind.model_validate(value)
    return _scalar(value, kind)


def _all_of(value: Any, kind: Any) -> tuple[Any, ...]:  # noqa: ANN401 - of any type
    if not isinstance(value, (list, tuple)):
        raise InvalidValueError(f"{_shown(value)}: expected a list")
    result = []
    for number, each in enumerate(value):
        try:
            result.append(_converted(each, kind))
        except InvalidValueError as error:
            raise error.below(number) from None
    return tuple(result)


def _table_of(value: Any, key_kind: Any, kind: Any) -> dict[Any, Any]:  # noqa: ANN401 - of any type
    if not isinstance(value, Mapping):
        raise InvalidValueError(f"{_shown(value)}: expected a table")
    result = {}
    for key, each in value.items():
        try:
            result[_converted(key, key_kind)] = _converted(each, kind)
        except InvalidValueError as error:
            raise error.below(key) from None
    return result


def _scalar(value: Any, kind: type) -> Any:  # noqa: ANN401 - of any type
    if kind is SecretStr:
        if isinstance(value, (str, SecretStr)):
            return SecretStr(value) if isinstance(value, str) else value
        raise InvalidValueError("expected text")
    if issubclass(kind, StrEnum):
        if isinstance(value, str) and value in list(kind):
            return kind(value)
        raise InvalidValueError(f"{_shown(value)}: expected one of {', '.join(kind)}")
    if kind is bool:
        if isinstance(value, str) and value.lower() in _TRUTH:
            return _TRUTH[value.lower()]
        if isinstance(value, bool):
            return value
        raise InvalidValueError(f"{_shown(value)}: expected true or false")
    if kind in {int, float}:
        return _number(value, kind)
    if not isinstance(value, kind):
        raise InvalidValueError(f"{_shown(value)}: expected text")
    return value


def _number(value: Any, kind: type) -> Any:  # noqa: ANN401 - of any type
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        return kind(value)
    if isinstance(value, str) and kind is float:
        try:
            value = float(value)
        except ValueError:
            value = None
    if type(value) is int or (type(value) is float and (kind is float or value.is_integer())):
        return kind(value)
    raise InvalidValueError(f"{_shown(value)}: expected a {'whole ' if kind is int else ''}number")
