"""What a model gave for an argument of a tool, or an error that tells it what was expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.faults import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["flag", "string"]


def string(arguments: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a text.

    Raises:
        InvalidRequestError: it is none, or is missing and there is no default.
    """
    value = arguments.get(name)
    if value is None and default is not None:
        return default
    if value is None:
        given = ", ".join(sorted(arguments))[:200] or "nothing"
        raise InvalidRequestError(f"{name} is missing; the call has {given}")
    if not isinstance(value, str):
        raise InvalidRequestError(f"{name} must be a string")
    return value


def flag(arguments: Mapping[str, Any], name: str) -> bool:
    """Return whether a flag is set.

    Raises:
        InvalidRequestError: it is neither true nor false.
    """
    value = arguments.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidRequestError(f"{name} must be true or false")
    return bool(value)
