"""Render what a search has found for a model: one line for each match, and what to do with them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from skills_core.rendering.catalog import entry_text
from skills_core.rendering.escaping import escape_line
from skills_core.selection.policy import menu_of

if TYPE_CHECKING:
    from skills_core.selection.policy import Match
    from skills_core.skills.skill import Skill


MAX_DESCRIPTION: Final = 300
"""Most characters of a description in a line: enough to choose by, and ten matches stay a page."""

_MAX_REASONS: Final = 3
_MAX_ALIKE: Final = 3
_ELLIPSIS: Final = "…"

_NONE_FITS: Final = (
    "None fits well: try the task, technology or file format in other words; "
    "if nothing fits then, work without a skill."
)


def render_matches(matches: Sequence[Match], shown: int | None = None) -> list[str]:
    """Return the lines for the first `shown` of the matches, and one that says how to choose where it is needed."""
    lines = [render_match(match) for match in matches[:shown]]
    if matches and all(match.weak for match in matches):
        lines.append(_NONE_FITS)
    elif close := len(menu_of(matches[:shown])):
        lines.append(f"The first {close} fit about equally well: choose by their descriptions, or let the user choose.")
    return lines


def render_match(match: Match) -> str:
    """Return a match as `name: description (why); and 2 alike: name, name`; what there is not is left out."""
    description = cut_at_word(entry_text(match.skill), MAX_DESCRIPTION)
    text = f"{match.skill.key}: {description}" if description else match.skill.key
    reason = reason_in_words(match)
    others = f"; and {alike}" if (alike := alike_in_words(match)) else ""
    return escape_line(f"{text} ({reason}){others}" if reason else f"{text}{others}")


def alike_in_words(match: Match) -> str:
    """Return for how many other skills a match stands, with the first of their names; empty if for none."""
    if not match.alike:
        return ""
    return f"{len(match.alike)} alike: {names_in_short(match.alike, _MAX_ALIKE)}"


def names_in_short(skills: Sequence[Skill], most: int) -> str:
    """Return the first names of skills, with an ellipsis if there are more."""
    names = ", ".join(skill.key for skill in skills[:most])
    return f"{names}, {_ELLIPSIS}" if len(skills) > most else names


def reason_in_words(match: Match) -> str:
    """Return why a skill was found: up to three words of the query that it has, and whether it fits only weakly."""
    words = dict.fromkeys(word for _, found in match.why for word in found)
    found = ", ".join(islice(words, _MAX_REASONS))
    if not found and match.score > 0:
        found = "by meaning"
    if match.weak:
        return f"weak: {found}" if found else "weak"
    return found


def cut_at_word(text: str, most: int) -> str:
    """Return the text within `most` characters, cut after a word; a single long word is cut anywhere."""
    if len(text) <= most:
        return text
    head = text[:most]
    whole, _, _ = head.rpartition(" ")
    return (whole if len(whole) >= most // 2 else head[:-1]).rstrip(" ,;:") + _ELLIPSIS
