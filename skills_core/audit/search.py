"""Search texts that others wrote: with RE2, in linear time, whatever the text is."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from skills_core.diagnostics import without_lone_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MAX_FOUND", "Found", "find", "is_found", "plain_prose"]

MAX_FOUND = 200
"""Places that one pattern yields in one text, which is more than a report shows."""

_MAX_MEMORY = 8 << 20
# Bytes for one compiled pattern; the patterns are ours, and few.

_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u04bb\u0501\u051b\u051d\u0455\u03bf\u03b1\u03b5\u03b9\u03bd\u03c1\u03c5",
    "aeopcyxijhdqwsoaeivpu",
)
# Letters of other scripts that look like Latin ones: an instruction written with them reads the same.

_MARKUP = str.maketrans(dict.fromkeys('*_`>#~"\u201c\u201d', " ") | {"\u2018": "'", "\u2019": "'"})


class Found(NamedTuple):
    """One place in a text, and what it says there."""

    start: int
    end: int
    text: str


def find(pattern: str, text: str) -> Iterator[Found]:
    """Yield the first places where a pattern matches; case does not matter, and `^` and `$` match at lines."""
    for number, match in enumerate(_compiled(pattern).finditer(without_lone_surrogates(text))):
        if number == MAX_FOUND:
            return
        yield Found(match.start(), match.end(), match.group())


def is_found(pattern: str, text: str) -> bool:
    """Tell whether a pattern matches anywhere in a text."""
    return next(find(pattern, text), None) is not None


def plain_prose(text: str) -> str:
    """Return `text` as a reader takes it, with the same positions: without markup, and in Latin letters.

    Emphasis and quotes become blanks; letters that look like Latin ones become Latin.
    """
    return (text if text.isascii() else _latin(text)).translate(_MARKUP)


def _latin(text: str) -> str:
    """Return `text` with Latin letters in place of their look-alikes and of full-width and mathematical forms."""
    text = text.translate(_LOOKALIKES)
    others = {char for char in set(text) if not char.isascii()}
    table = {ord(char): plain for char in others if len(plain := unicodedata.normalize("NFKC", char)) == 1}
    return text.translate(table)


@cache
def _compiled(pattern: str) -> Any:  # noqa: ANN401 - the library has no types
    import re2  # noqa: PLC0415 - only an audit needs it

    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    options.case_sensitive = False
    return re2.compile(f"(?m:{pattern})", options)
