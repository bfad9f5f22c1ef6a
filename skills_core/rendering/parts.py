"""Cut long texts into parts: find how much of a text fits, and a good place to cut it.

A part ends before a heading or after a blank line if there is one near its end, else at the end of a line, else of a
word, else between two characters, where marks and modifiers belong to the character before them. Tags, entities,
`{{parameters}}` and escapes stay whole.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["cut_before", "end_of_part"]

_SPAN = 200
# Longest tag or parameter that stays whole, in characters.

_CLUSTER = 128
# Most code points of a character with its marks; longer runs may be cut.

_WHOLE = re.compile(r"<[^<>]{0,198}>|[$\\{]?\{\{[^{}]{0,194}\}\}\}?|&#?\w{1,32};|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL)

_PARAGRAPH = re.compile(r"\n[ \t]*\r?\n|\n(?=#{1,6}[ \t])")

_JOINER = "\u200d"
_SKIN_TONES = frozenset(map(chr, range(0x1F3FB, 0x1F400)))


def end_of_part(text: str, start: int, most: int, fits: Callable[[int], bool]) -> int:
    """Return where a part of `text` that begins at `start` should end; `start` if nothing fits.

    `fits` tells whether a part with this end fits; the part has at most `most` characters.
    """
    end = min(len(text), start + most)
    if fits(end):
        return end if end == len(text) else cut_before(text, start, end)
    least = start
    while end - least > 1:
        middle = (least + end) // 2
        if fits(middle):
            least = middle
        else:
            end = middle
    end = cut_before(text, start, least)
    # What stands around a part may depend on its end by a few characters.
    while end > start and not fits(end):
        end = cut_before(text, start, end - 1)
    return end


def cut_before(text: str, start: int, end: int) -> int:
    """Return the best place to cut `text` that is after `start` and not after `end`; `start` if there is none."""
    if end >= len(text) or end <= start:
        return min(len(text), max(start, end))
    for place in (_paragraph_end(text, start, end), _line_end(text, start, end), _word_end(text, start, end)):
        if place > start and _outside(text, place) == place:
            return place
    place = end
    while place > start:
        earlier = _boundary(text, _outside(text, place))
        if earlier == place:
            return place
        place = earlier
    return start


def _paragraph_end(text: str, start: int, end: int) -> int:
    """Return the end of the last paragraph in the last quarter of a part, `start` if there is none."""
    # A paragraph may end exactly where the part does, before a heading.
    found = list(_PARAGRAPH.finditer(text, end - (end - start) // 4, min(len(text), end + 8)))
    return max((match.end() for match in found if match.end() <= end), default=start)


def _line_end(text: str, start: int, end: int) -> int:
    """Return the end of the last line in the last half of a part, `start` if there is none."""
    found = text.rfind("\n", end - (end - start) // 2, end)
    return start if found < 0 else found + 1


def _word_end(text: str, start: int, end: int) -> int:
    """Return the end of the last word near the end of a part, with the blank after it; `start` if there is none."""
    found = text.rfind(" ", max(start, end - _SPAN), end)
    return start if found < 0 else found + 1


def _outside(text: str, place: int) -> int:
    """Return `place`, or the beginning of the tag, parameter or escape that it lies in."""
    begin = max(0, place - _SPAN)
    for match in _WHOLE.finditer(text, begin, place + _SPAN):
        if match.start() < place < match.end():
            return match.start()
    return place


def _boundary(text: str, place: int) -> int:
    """Return the last position up to `place` that splits no character from its marks."""
    for before in range(place, max(0, place - _CLUSTER), -1):
        if before >= len(text) or not _joins(text, before):
            return before
    return place if place > _CLUSTER else 0


def _joins(text: str, place: int) -> bool:
    """Tell whether the character at `place` modifies the one before it, as a mark or a part of an emoji does."""
    before, after = text[place - 1], text[place]
    if after < "\u0300":
        return (before, after) == ("\r", "\n") or (before == _JOINER and not after.isspace())
    return _JOINER in (before, after) or unicodedata.category(after).startswith("M") or after in _SKIN_TONES
