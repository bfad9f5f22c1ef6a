"""Search texts that others wrote: with RE2, in linear time, whatever the text is.

Most texts match none of the patterns, so a `SearchedText` is read once for the words that the patterns need. A pattern
whose words it lacks is not searched for.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from skills_core.diagnostics import without_lone_surrogates

_SMALL = {
    **dict(zip("аеорсухіјһԁԛԝѕ", "aeopcyxijhdqws", strict=True)),  # noqa: RUF001
    **dict(zip("вкмнтвгпзд", "bkmhtbrnzd", strict=True)),
    **dict(zip("νοαειυκτρ", "voaeiuktp", strict=True)),
    **dict(zip("ɑɡıȷʟօոհսցքյ", "agijlonhugpj", strict=True)),
}
# Cyrillic, twice; Greek; phonetic and Armenian.

LOOKALIKES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{
            char.upper(): plain.upper()
            for char, plain in _SMALL.items()
            if len(char.upper()) == 1 and not char.upper().isascii()
        },
        **_SMALL,
    }
)
"""The Latin letter that each of them looks like, small and capital."""


MAX_FOUND = 200
"""Places that one pattern yields in one text, which is more than a report shows."""

_MAX_MEMORY = 8 << 20
# Bytes for one compiled pattern; the patterns are ours, and few.

_PROBE = "\0skillserve-audit-probe\0"
# Stands behind each text that is read for words: if it is not found there, reading failed and excludes nothing.

_MARKUP = dict.fromkeys('*_`>#"\u201c\u201d', " ") | {"\u2018": "'", "\u2019": "'"}

_ASCII_MARKUP = {ord(char): plain for char, plain in _MARKUP.items() if char.isascii()}

_FEW = 40
# Up to this many kinds of characters, replacing one after the other is faster than a table.


class Found(NamedTuple):
    """One place in a text, and what it says there."""

    start: int
    end: int
    text: str


class SearchedText(str):
    """A text for many searches, which knows the patterns that cannot match in it."""

    __slots__ = ("_excluded",)

    _excluded: frozenset[str]

    def excludes(self, patterns: Collection[str]) -> bool:
        """Tell whether none of some patterns can match, because the text lacks words that they need."""
        try:
            excluded = self._excluded
        except AttributeError:
            excluded = self._excluded = _screen.excluded(self)
        if excluded.issuperset(patterns):
            return True
        for pattern in patterns:
            _screen.learn(pattern)
        return False


class _Screen:
    """The words that patterns need.

    It learns a pattern when the pattern is searched for first, and excludes it from the texts that come later.
    """

    def __init__(self) -> None:
        self._patterns: dict[str, None] = {}
        self._compiled: tuple[tuple[str, ...], Any] | None = None

    def learn(self, pattern: str) -> None:
        """Add a pattern."""
        self._patterns[pattern] = None

    def excluded(self, text: str) -> frozenset[str]:
        """Return the patterns that cannot match in a text."""
        patterns, words = self._words()
        possible = words.Match(_encodable(text) + _PROBE, potential=True) or ()
        if len(patterns) not in possible:
            return frozenset()
        return frozenset(patterns).difference(patterns[number] for number in possible if number < len(patterns))

    def _words(self) -> tuple[tuple[str, ...], Any]:
        """Return the patterns and the filter for their words, in which the probe comes after the last pattern."""
        patterns = tuple(self._patterns)
        compiled = self._compiled
        if compiled is None or len(compiled[0]) != len(patterns):
            compiled = self._compiled = patterns, _word_filter((*(f"(?m:{each})" for each in patterns), _PROBE))
        return compiled


_screen = _Screen()


def find(pattern: str, text: str) -> Iterator[Found]:
    """Yield the first places where a pattern matches; case does not matter, and `^` and `$` match at lines."""
    return iter(()) if isinstance(text, SearchedText) and text.excludes((pattern,)) else _matches(pattern, text)


def _matches(pattern: str, text: str) -> Iterator[Found]:
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
    if text.isascii():
        return text.translate(_ASCII_MARKUP)
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
    plain = unicodedata.normalize("NFKC", LOOKALIKES.get(char, char))
    return plain if len(plain) == 1 else char


def _word_filter(patterns: Sequence[str]) -> Any:  # noqa: ANN401 - the library has no types
    import re2  # noqa: PLC0415 - only an audit needs it

    words = re2.Filter()
    for pattern in patterns:
        words.Add(pattern, _options())
    words.Compile()
    return words


@cache
def _compiled(pattern: str) -> Any:  # noqa: ANN401 - the library has no types
    import re2  # noqa: PLC0415 - only an audit needs it

    return re2.compile(f"(?m:{pattern})", _options())


def _options() -> Any:  # noqa: ANN401 - the library has no types
    import re2  # noqa: PLC0415 - only an audit needs it

    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    options.case_sensitive = False
    return options
