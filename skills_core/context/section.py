"""The section `<skills>`: whole bodies of the pure skills that go with a message, within a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.context.blocks import section_entry
from skills_core.context.triggers import Triggered, always_on, triggered_by
from skills_core.diagnostics import one_line
from skills_core.rendering.escaping import contained_between_marks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.skill import Skill

__all__ = ["Section", "section_of"]

MAX_NAMED = 20
# Skills that are named where they do not fit.


@dataclass(frozen=True, slots=True)
class Section:
    """What the section says, empty where no skill belongs there; of its skills, `left_out` are named only."""

    text: str
    always: tuple[Skill, ...]
    triggered: tuple[Triggered, ...]
    left_out: tuple[Skill, ...]

    @property
    def skills(self) -> tuple[Skill, ...]:
        """All skills of the section, those that did not fit too."""
        return (*self.always, *(each.skill for each in self.triggered))


def section_of(message: str, skills: Sequence[Skill], budget: int) -> Section:
    """Return the section for a message: skills that are always on, then those that it triggers, in their order.

    Entries are whole and have at most `budget` characters together; one that does not fit is passed over for the next.
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
    lines = [*entries, *([_about(left_out)] if left_out else [])]
    text = "\n".join(["<skills>", *lines, "</skills>"]) if lines else ""
    return Section(text, always, triggered, tuple(left_out))


def _about(left_out: Sequence[Skill]) -> str:
    names = ", ".join(contained_between_marks(one_line(skill.key)) for skill in left_out[:MAX_NAMED])
    more = f" and {len(left_out) - MAX_NAMED} more" if len(left_out) > MAX_NAMED else ""
    return f"Too long to stand here: {names}{more}. They apply as well, so call activate_skill for each of them first."
