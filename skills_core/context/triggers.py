"""Find the skills that a message triggers by its words, without any ranking.

Source: the capability format. Only skills without declared tools can be triggered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.selection.words import phrase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skills_core.skill import Skill

__all__ = ["Triggered", "always_on", "triggered_by"]


@dataclass(frozen=True, slots=True)
class Triggered:
    """A triggered skill, with those of its triggers that occur in the message."""

    skill: Skill
    triggers: tuple[str, ...]


def always_on(skill: Skill) -> bool:
    """Tell whether the skill applies to every message: trigger `*` or `metadata.jdai.always`, and no declared tools."""
    return skill.frontmatter.always_on and not skill.frontmatter.tools


def triggered_by(message: str, skills: Iterable[Skill]) -> tuple[Triggered, ...]:
    """Return those of `skills` with a trigger in `message`, in order; always-on skills are left out.

    A trigger occurs in a message if its words do, whole, adjacent and in order. Case, accents, hyphens and the width of
    gaps do not matter; other signs do.
    """
    said = phrase(message)
    words = frozenset(said.split())
    found: list[Triggered] = []
    for skill in skills:
        front = skill.frontmatter
        if front.triggers and not front.tools and not front.always_on:
            triggers = tuple(trigger for trigger in front.triggers if _occurs(trigger, said, words))
            if triggers:
                found.append(Triggered(skill, triggers))
    return tuple(found)


def _occurs(trigger: str, said: str, words: frozenset[str]) -> bool:
    asked = phrase(trigger)
    parts = asked.split()
    # Cheap test first: most triggers have a word that is not in the message, and searching a long message is slow.
    return bool(parts) and words.issuperset(parts) and asked in said
