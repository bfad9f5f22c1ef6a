"""Long texts in parts: where to cut a text, and the beginning of an activation that is too long for one result.

A part ends before a heading or after a blank line if there is one near its end, else at the end of a line, else of a
word, else between two characters, where marks and modifiers belong to the character before them. Tags, entities,
`{{parameters}}`, `$ARGUMENTS` and escapes stay whole. The rest of an activation is read from the skill's main file, so
it is not rendered: its parameters are not filled.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from skills_core.rendering.activation import activation_pieces, value_list
from skills_core.rendering.escaping import escape_json, escape_line
from skills_core.rendering.recipient import UNKNOWN_RECIPIENT

if TYPE_CHECKING:
    from skills_core.rendering.activation import ActivationPieces
    from skills_core.rendering.recipient import Recipient
    from skills_core.skills.skill import Skill


_SPAN = 200
# Longest tag or parameter that stays whole, in characters.

_CLUSTER = 128
# Most code points of a character with its marks; longer runs may be cut.

_WHOLE = re.compile(
    r"<[^<>]{0,198}>|[$\\{]?\{\{[^{}]{0,194}\}\}\}?|\$ARGUMENTS\[\d{1,3}\]|\$\w{1,64}|&#?\w{1,32};|\\u[0-9a-fA-F]{4}|\\.",
    re.DOTALL,
)

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


READ_THE_REST = "You were given only its beginning: if you have not read the rest yet, do so as that text says."
"""What follows the line of an unchanged skill that was handed over in parts."""

_LISTED = (100, 20, 5, 0)
# Items of the lists around the body, tried until they leave half of the room to the body.

_MAX_VALUES = 500
# Longest list of values in the note on the rest, in characters.


class Beginning(NamedTuple):
    """The beginning of an activation; the rest begins at the character `rest` of the skill's main file."""

    text: str
    rest: int


def render_beginning(
    skill: Skill,
    arguments: Mapping[str, str] | None = None,
    recipient: Recipient = UNKNOWN_RECIPIENT,
    *,
    replaces: str | None = None,
    most: int,
    fits: Callable[[str], bool],
) -> Beginning:
    """Return the text that hands the beginning of `skill` to a model, with as much of the body as fits.

    `fits` tells whether a text of at most `most` characters fits. The lists of files and names around the body are
    shortened if they would take more than half of the room.
    """

    def with_lists_of(listed: int) -> ActivationPieces:
        shorter = replace(recipient, listed=min(listed, recipient.listed))
        return activation_pieces(skill, arguments, shorter, replaces=replaces)

    def leaves_half(pieces: ActivationPieces) -> bool:
        around = _with_note(pieces, 0, recipient)
        return 2 * len(around) <= most and fits(around * 2)

    pieces = next(filter(leaves_half, map(with_lists_of, _LISTED)), None) or with_lists_of(_LISTED[-1])
    end = end_of_part(skill.body, 0, most, lambda end: fits(_with_note(pieces, end, recipient)))
    return Beginning(_with_note(pieces, end, recipient), skill.content.instructions.body_offset + end)


def reading_call(skill: str, path: str, offset: int, tool: str | None) -> str:
    """Return the call that reads a file of a skill from a character on, as an order that ends in a stop."""
    if tool is None:
        return f"ask the user for {escape_line(path)} from character {offset} on: no tool here reads it."
    return f"call {tool} with skill {escape_json(skill)}, path {escape_json(path)}, offset {offset}."


def _with_note(pieces: ActivationPieces, end: int, recipient: Recipient) -> str:
    """Return an activation with the body up to `end` and, before its end tag, a note on what is missing."""
    *after, close = pieces.after
    return pieces.with_body(pieces.skill.body[:end], (*after, _note(pieces, end, recipient), close))


def _note(pieces: ActivationPieces, end: int, recipient: Recipient) -> str:
    skill = pieces.skill
    main = skill.content.main.path if skill.content.main else "SKILL.md"
    call = reading_call(skill.key, main, skill.content.instructions.body_offset + end, recipient.file_tool)
    return (
        f"These are only the first {end} of the {skill.body_length} characters of the instructions above; the rest is "
        f"missing. Read on before you act: {call} Go on until its answer says that the file ends. If it names another "
        f"digest than the receipt, the skill has changed: activate it again.{_values_note(pieces)}"
    )


def _values_note(pieces: ActivationPieces) -> str:
    """Return which values the placeholders in the rest stand for; the same wherever the beginning ends."""
    values = value_list(pieces.skill, pieces.values)
    if not values:
        return ""
    what = f"these values: {values}" if len(values) <= _MAX_VALUES else "the values of your call"
    return f" The rest has {{{{placeholders}}}} for the arguments: put in {what}."
