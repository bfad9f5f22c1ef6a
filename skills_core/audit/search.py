"""Search texts that others wrote: with RE2, in linear time, whatever the text is."""

from __future__ import annotations

import unicodedata
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from skills_core.diagnostics import without_lone_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MAX_FOUND", "Found", "find", "is_found", "plain_prose"]

MAX_FOUND = 200
"""Places that one pattern yields in one text, which is more than a report shows."""

_MAX_MEMORY = 8 << 20
# Bytes for one compiled pattern; the patterns are ours, and few.

_LOOKALIKES = dict(
    zip(
        "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u04bb\u0501\u051b\u051d\u0455\u03bf\u03b1\u03b5\u03b9\u03bd\u03c1\u03c5",
        "aeopcyxijhdqwsoaeivpu",
        strict=True,
    )
)
# Letters of other scripts that look like Latin ones: an instruction written with them reads the same.

_MARKUP = dict.fromkeys('*_`>#"\u201c\u201d', " ") | {"\u2018": "'", "\u2019": "'"}

_FEW = 40
# Up to this many kinds of characters, replacing one after the other is faster than a table.


class Found(NamedTuple):
    """One place in a text, and what it says there."""

    start: int
    end: int
    text: str


def find(pattern: str, text: str) -> Iterator[Found]:
    """Yield the first places where a pattern matches; case does not matter, and `^` and `$` match at lines."""
    for match in islice(_compiled(pattern).finditer(_encodable(text)), MAX_FOUND):
        yield Found(match.start(), match.end(), match.group())


def is_found(pattern: str, text: str) -> bool:
    """Tell whether a pattern matches anywhere in a text."""
    return _compiled(pattern).search(_encodable(text)) is not None


def _encodable(text: str) -> str:
    """Return `text` without lone surrogates, which escapes in YAML can make; the encoding of RE2 lacks them."""
    return text if text.isascii() else without_lone_surrogates(text)


def plain_prose(text: str) -> str:
    """Return `text` as a reader takes it, with the same positions: without markup, and in Latin letters.

    Emphasis and quotes become blanks; letters that look like Latin ones become Latin, and so do full-width and
    mathematical letters.
    """
    changed = {char: plain for char in set(text) if (plain := _plain(char)) != char}
    if len(changed) > _FEW:
        return text.translate({ord(char): plain for char, plain in changed.items()})
    for char, plain in changed.items():
        text = text.replace(char, plain)
    return text


def _plain(char: str) -> str:
    if char in _MARKUP:
        return _MARKUP[char]
    if char.isascii():
        return char
    plain = unicodedata.normalize("NFKC", _LOOKALIKES.get(char, char))
    return plain if len(plain) == 1 else char


@cache
def _compiled(pattern: str) -> Any:  # noqa: ANN401 - the library has no types
    import re2  # noqa: PLC0415 - only an audit needs it

    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    options.case_sensitive = False
    return re2.compile(f"(?m:{pattern})", options)
