"""Extract the decoded strings of a tool call's arguments, which patterns match in addition to the JSON text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.format.yaml12 import JsonValue

__all__ = ["MAX_SEPARATE", "argument_texts"]

MAX_SEPARATE: Final = 1000
"""Strings of a call that are matched one by one; the rest are joined into one text, to bound the number of matches."""


def argument_texts(tool: str, arguments: dict[str, JsonValue]) -> list[str]:
    """Return the tool's name, a space and a string, for each distinct string in the arguments, keys included.

    The name comes first so that a pattern for one tool applies here too.
    """
    strings = [*dict.fromkeys(_strings(arguments))]
    separate, rest = strings[:MAX_SEPARATE], strings[MAX_SEPARATE:]
    return [f"{tool} {string}" for string in [*separate, *(["\n".join(rest)] if rest else [])]]


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
