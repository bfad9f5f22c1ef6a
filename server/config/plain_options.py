"""Parse plain command lines of `serve` and `guard` without the command-line library, which takes long to import.

Options and values that are not known here, and every error, are left to the library, which explains them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from server.config.values import home_path

_EXPANDED: Final = frozenset("*?[~$%" if sys.platform == "win32" else "")
# The command-line library expands these in arguments.


class PlainOption(NamedTuple):
    """How an option is converted, None for a switch; the values of one that may repeat are a list, `repeated_as`."""

    convert: Callable[[str], object] | None = None
    repeated_as: str | None = None


def parse_plain_words(
    words: Sequence[str], options: Mapping[str, PlainOption]
) -> tuple[list[Path], dict[str, Any]] | None:
    """Return the directories and the values of the options, None if the command-line library has to parse the words."""
    directories: list[Path] = []
    values: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if _EXPANDED & {*word}:
            return None
        if not word.startswith("-"):
            directories.append(home_path(word))
        elif word not in options or not _take(word, options[word], rest, values):
            return None
    return directories, values


def _take(word: str, option: PlainOption, rest: Iterator[str], values: dict[str, Any]) -> bool:
    """Store an option with its value, and return whether the value is plain."""
    name = option.repeated_as or word.removeprefix("--").replace("-", "_")
    if option.convert is None:
        values[name] = True
        return True
    text = next(rest, "")
    if not text or text.startswith("-") or _EXPANDED & {*text}:
        return False
    try:
        value = option.convert(text)
    except ValueError:  # it is not a member of the enum
        return False
    if option.repeated_as:
        values.setdefault(name, []).append(value)
    else:
        values[name] = value
    return True
