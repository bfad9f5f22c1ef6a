"""Triggers: which skills a message calls up by its words, without any ranking.

Source: the capability format. Only pure skills are triggered, those without tools of their own.
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
    """A skill that a message calls up, with those of its triggers that the message has."""

    skill: Skill
    triggers: tuple[str, ...]


def always_on(skill: Skill) -> bool:
    """Tell whether the skill goes with every message: the trigger `*` or `metadata.jdai.always`, and no tools."""
    return skill.frontmatter.always_on and not skill.frontmatter.tools


def triggered_by(message: str, skills: Iterable[Skill]) -> tuple[Triggered, ...]:
    """Return those of `skills` with a trigger in `message`, in their order; those that are always on are left out.

    A trigger is in a message if its words are, whole, next to one another and in order. Case, accents, hyphens and
    the width of gaps do not matter; other signs do.
    """
    said = phrase(message)
    words = frozenset(said.split())
    found: list[Triggered] = []
    for skill in skills:
        front = skill.frontmatter
        if front.triggers and not front.tools and not front.always_on:
            triggers = tuple(trigger for trigger in front.triggers if _is_in(trigger, said, words))
            if triggers:
                found.append(Triggered(skill, triggers))
    return tuple(found)


def _is_in(trigger: str, said: str, words: frozenset[str]) -> bool:
    asked = phrase(trigger)
    parts = asked.split()
    # Most triggers have a word that the message has not; to look through a long message costs more.
    return bool(parts) and words.issuperset(parts) and asked in said
