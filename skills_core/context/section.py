"""The section `<skills>`: whole bodies of the always-on and triggered skills of a message, within a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.context.injection import section_entry
from skills_core.diagnostics import one_line
from skills_core.rendering.catalog import ACTIVATION_TOOL
from skills_core.rendering.escaping import escape_tags_and_marks
from skills_core.selection.words import phrase

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skills_core.skills.skill import Skill

MAX_NAMED = 20
# Maximum number of skills named that do not fit.


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


@dataclass(frozen=True, slots=True)
class Section:
    """The section's text, empty without skills, and its skills; those of `left_out` are only named in the text."""

    text: str
    always: tuple[Skill, ...]
    triggered: tuple[Triggered, ...]
    left_out: tuple[Skill, ...]

    @property
    def skills(self) -> tuple[Skill, ...]:
        """All skills of the section, including those that did not fit."""
        return (*self.always, *(each.skill for each in self.triggered))


def section_of(message: str, skills: Sequence[Skill], budget: int, tool: str = ACTIVATION_TOOL) -> Section:
    """Return the section for a message: always-on skills, then triggered ones, each in the order of `skills`.

    Entries are whole and have at most `budget` characters in total; an entry that does not fit is skipped, and the text
    says to load the skill with `tool`.
    """
    always = tuple(skill for skill in skills if always_on(skill))
    triggered = triggered_by(message, skills)
    entries: list[str] = []
    left_out: list[Skill] = []
    left = budget
    for skill in (*always, *(each.skill for each in triggered)):
        entry = section_entry(skill)
        if len(entry) > left:
            left_out.append(skill)
            continue
        left -= len(entry)
        entries.append(entry)
    lines = [*entries, *([left_out_note(left_out, tool=tool)] if left_out else [])]
    text = "\n".join(["<skills>", *lines, "</skills>"]) if lines else ""
    return Section(text, always, triggered, tuple(left_out))


def left_out_note(left_out: Sequence[Skill], *, loadable: bool = True, tool: str = ACTIVATION_TOOL) -> str:
    """Return the line that names skills whose texts do not fit.

    `loadable` tells that the model can activate them, with `tool`.
    """
    names = ", ".join(escape_tags_and_marks(one_line(skill.key)) for skill in left_out[:MAX_NAMED])
    more = f" and {len(left_out) - MAX_NAMED} more" if len(left_out) > MAX_NAMED else ""
    rule = (
        f"They apply as well, so call {tool} for each of them first."
        if loadable
        else "They apply as well, but cannot be loaded here: say so in the result where it matters."
    )
    return f"Too long to stand here: {names}{more}. {rule}"
