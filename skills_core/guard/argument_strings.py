"""The strings in the arguments of a tool call, decoded: what patterns are matched against beside the JSON text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.format.yaml12 import JsonValue

__all__ = ["MAX_APART", "values_of"]

MAX_APART: Final = 1000
"""Strings of a call that are looked at one by one; those beyond are one text of lines, for there may be any number."""


def values_of(tool: str, arguments: dict[str, JsonValue]) -> list[str]:
    """Return the tool's name, a space and a string, for each string in the arguments, keys included, each once.

    The name stands before each, so that what a pattern says of the tool holds here too.
    """
    strings = [*dict.fromkeys(_strings(arguments))]
    apart, beyond = strings[:MAX_APART], strings[MAX_APART:]
    return [f"{tool} {string}" for string in [*apart, *(["\n".join(beyond)] if beyond else [])]]


def _strings(arguments: dict[str, JsonValue]) -> Iterator[str]:
    waiting: list[JsonValue] = [arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from value
            waiting += reversed(value.values())
        elif isinstance(value, list):
            waiting += reversed(value)
