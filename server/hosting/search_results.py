"""The results of a search as `find_skills` and the command `search` return them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skills_core.selection import menu_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.selection import Match

__all__ = ["match_object", "matches_object"]

_HINT = "These fit about equally well: choose by their descriptions, or let the user choose."


def matches_object(matches: Sequence[Match]) -> dict[str, Any]:
    """Return the matches, with a menu if the scores of the first ones are close."""
    found: dict[str, Any] = {"matches": [_described(match) for match in matches]}
    menu = menu_of(matches)
    return {**found, "menu": {"names": [match.skill.key for match in menu], "hint": _HINT}} if menu else found


def match_object(match: Match) -> dict[str, Any]:
    """Return the score of a match and the reasons for it."""
    return {
        "score": round(match.score, 4),
        "relative": round(match.relative, 4),
        "band": match.band.value,
        "weak": match.weak,
        "why": {field: list(words) for field, words in match.why},
    }


def _described(match: Match) -> dict[str, Any]:
    skill = match.skill
    return {"name": skill.key, "description": skill.description, **match_object(match), "uri": skill.uri}
