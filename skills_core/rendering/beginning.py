"""Render the beginning of an activation that is too long for one result, with the call that reads the rest.

The rest is read from the skill's main file, so it is not rendered: its parameters are not filled.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from skills_core.rendering.activation import activation_pieces, parameters_of
from skills_core.rendering.escaping import escape_json, escape_line, escape_tags
from skills_core.rendering.parts import end_of_part
from skills_core.rendering.recipient import UNKNOWN_RECIPIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skills_core.rendering.activation import ActivationPieces
    from skills_core.rendering.recipient import Recipient
    from skills_core.skill import Skill

__all__ = ["READ_THE_REST", "Beginning", "reading_call", "render_beginning"]

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
        f"These are only the first {end} of the {len(skill.body)} characters of the instructions above; the rest is "
        f"missing. Read on before you act: {call} Go on until its answer says that the file ends. If it names another "
        f"digest than this receipt, the skill has changed: activate it again.{_values_note(pieces)}"
    )


def _values_note(pieces: ActivationPieces) -> str:
    """Return which values the placeholders in the rest stand for; the same wherever the beginning ends."""
    named = [name for name in parameters_of(pieces.skill.body) if name in pieces.values]
    if not named:
        return ""
    values = "; ".join(f"{escape_line(name)} = {escape_tags(pieces.values[name])}" for name in named)
    what = f"these values: {values}" if len(values) <= _MAX_VALUES else "the values of your call"
    return f" The rest has {{{{placeholders}}}} for the arguments: put in {what}."
