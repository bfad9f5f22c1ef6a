"""The catalog for a model: the rule on how to use it, and one entry a skill, packed into a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.catalog import MAX_ENTRY
from skills_core.rendering.escaping import attribute, escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from skills_core.catalog import Catalog
    from skills_core.skill import Skill

__all__ = [
    "MAX_ENTRY",
    "RULE",
    "CatalogText",
    "entries_within",
    "in_order",
    "render_catalog",
    "render_entry",
    "room_for_entries",
    "texts_within",
]

RULE = (
    "When a task matches one of these skills, call activate_skill with its name before anything else, then follow "
    "the instructions it returns."
)


@dataclass(frozen=True, slots=True)
class CatalogText:
    """The catalog for a model: the text, and how many skills it shows and does not show."""

    text: str
    shown: int
    hidden: int


def render_catalog(catalog: Catalog, budget: int, first: Sequence[Skill] = (), longest: int = MAX_ENTRY) -> CatalogText:
    """Return the rule and the entries of the skills that `catalog` offers to models, within `budget` characters.

    `first` are those that come first, in their order; then come those that are always on, then all by name; whole
    entries only, of which each has a text of at most `longest` characters. What does not fit is counted in the text.
    """
    entries = entries_within(room_for_entries(budget), in_order(catalog, first), longest)
    hidden = len(catalog.offered) - len(entries)
    lines = [RULE, "<available_skills>", *entries, "</available_skills>"]
    if hidden:
        lines.append(f"{hidden} more skills are not shown here: find_skills finds them by what they do.")
    return CatalogText("\n".join(lines), len(entries), hidden)


def room_for_entries(budget: int) -> int:
    """Return what a budget leaves for entries beside the rule, the tags, and the sentence on what is not shown."""
    return budget - len(RULE) - 160


def in_order(catalog: Catalog, first: Sequence[Skill] = ()) -> Iterator[Skill]:
    """Yield the skills that `catalog` offers to models, `first` before the others."""
    yield from first
    known = {skill.path for skill in first}
    yield from (skill for skill in catalog.offered if skill.path not in known)


def entries_within(room: int, skills: Iterable[Skill], longest: int = MAX_ENTRY) -> list[str]:
    """Return the entries of as many of `skills`, from the first on, as have room with a line end after each.

    One that is longer than all the room is passed over, for it must not hide the others.
    """
    return texts_within(room, (render_entry(skill, longest) for skill in skills), lambda entry: _units(entry) + 1)


def texts_within(room: int, texts: Iterable[str], size_of: Callable[[str], int]) -> list[str]:
    """Return as many of `texts`, from the first on, as have room by what `size_of` says of each.

    One that is longer than all the room is passed over, for it must not hide the others.
    """
    fitting: list[str] = []
    left = room
    for text in texts:
        size = size_of(text)
        if size > room:
            continue
        left -= size
        if left < 0:
            break
        fitting.append(text)
    return fitting


def _units(text: str) -> int:
    """Return how long a text is for clients that count as JavaScript does, where an emoji is two."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def render_entry(skill: Skill, longest: int = MAX_ENTRY) -> str:
    """Return what the catalog says of one skill; the text in it has at most `longest` characters."""
    front = skill.frontmatter
    triggers = ", ".join(trigger for trigger in front.triggers if trigger != "*")
    parts = [f"Triggers: {triggers}." if triggers else "", front.description, front.when_to_use or ""]
    text = " ".join(" ".join(part.split()) for part in parts if part)
    if len(text) > longest:
        text = text[: longest - 1].rstrip() + "…" if longest > 0 else ""
    return f"<skill name={attribute(skill.key)}>{escaped(text)}</skill>"
