"""Render the catalog: for a model, a rule and one entry per skill within a budget; for agents without a server, all."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.catalog.catalog import MAX_ENTRY
from skills_core.diagnostics import printable
from skills_core.rendering.escaping import escape_content, quote_attribute

if TYPE_CHECKING:
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill


ACTIVATION_TOOL = "activate_skill"


def activation_rule(tool: str = ACTIVATION_TOOL, reader: str | None = None) -> str:
    """Return the rule that tells a model when to activate a skill; `tool` is what the model calls our tool.

    With a `reader`, the model's tool for resources, the activation returns a link to the instructions.
    """
    then = (
        f"read the resource that it links with {reader}, and follow it"
        if reader
        else "follow the instructions it returns"
    )
    return f"When a task matches one of these skills, call {tool} with its name before anything else, then {then}."


RULE = activation_rule()


@dataclass(frozen=True, slots=True)
class CatalogText:
    """The catalog's text, and how many skills it shows and hides."""

    text: str
    shown: int
    hidden: int


def render_catalog(
    catalog: Catalog,
    budget: int,
    first: Sequence[Skill] = (),
    longest: int = MAX_ENTRY,
    rule: str = RULE,
) -> CatalogText:
    """Return the rule and the entries of the skills that `catalog` offers to models, within `budget` characters.

    The skills of `first` come first, in their order, then those that are always on, then the others by name. An entry
    is shown whole or not at all, and its text has at most `longest` characters. The text counts the hidden skills.
    """
    entries = entries_within(entries_budget(budget, rule), listing_order(catalog, first), longest)
    hidden = len(catalog.offered) - len(entries)
    return CatalogText("\n".join([rule, *render_entries(entries, hidden)]), len(entries), hidden)


def render_entries(entries: Sequence[str], hidden: int) -> list[str]:
    """Return the lines of the element `available_skills`, and one that counts the `hidden` skills, if any."""
    lines = ["<available_skills>", *entries, "</available_skills>"]
    if hidden:
        lines.append(f"{hidden} more skills are not shown here: find_skills finds them by what they do.")
    return lines


def entries_budget(budget: int, rule: str = RULE) -> int:
    """Return the characters that a budget leaves for entries, besides the rule, the tags and the count of the rest."""
    return budget - utf16_length(rule) - 160


def listing_order(catalog: Catalog, first: Sequence[Skill] = ()) -> Iterator[Skill]:
    """Yield the skills that `catalog` offers to models, those of `first` before the others."""
    yield from first
    known = {skill.path for skill in first}
    yield from (skill for skill in catalog.offered if skill.path not in known)


def entries_within(budget: int, skills: Iterable[Skill], longest: int = MAX_ENTRY) -> list[str]:
    """Return the entries of the first of `skills` that fit the budget, each with a line end.

    An entry that exceeds the whole budget is skipped, so that it does not hide the others.
    """
    return texts_within(
        budget, (render_entry(skill, longest) for skill in skills), lambda entry: utf16_length(entry) + 1
    )


def texts_within(budget: int, texts: Iterable[str], size_of: Callable[[str], int]) -> list[str]:
    """Return the first of `texts` that fit the budget, where `size_of` gives the size of each.

    A text that exceeds the whole budget is skipped, so that it does not hide the others.
    """
    fitting: list[str] = []
    left = budget
    for text in texts:
        size = size_of(text)
        if size > budget:
            continue
        left -= size
        if left < 0:
            break
        fitting.append(text)
    return fitting


def utf16_length(text: str) -> int:
    """Return a text's length in UTF-16 code units, as clients written in JavaScript count it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def render_entry(skill: Skill, longest: int = MAX_ENTRY) -> str:
    """Return the catalog's entry for one skill, with a text of at most `longest` characters."""
    return f"<skill name={quote_attribute(skill.key)}>{escape_content(entry_text(skill, longest))}</skill>"


def entry_text(skill: Skill, longest: int = MAX_ENTRY) -> str:
    """Return what the catalog says of a skill, unescaped, on one line of at most `longest` characters."""
    front = skill.frontmatter
    triggers = ", ".join(trigger for trigger in front.triggers if trigger != "*")
    parts = [f"Triggers: {triggers}." if triggers else "", front.description, front.when_to_use or ""]
    text = " ".join(" ".join(part.split()) for part in parts if part)
    if len(text) > longest:
        text = text[: longest - 1].rstrip() + "…" if longest > 0 else ""
    return text


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# XML 1.0 has no way to write the other characters.


def render_available_skills(skills: Iterable[Skill]) -> str:
    """Return the element `available_skills` with the name, the description and the path of each skill's main file.

    Characters that XML does not allow become U+FFFD.
    """
    return "\n".join(
        ["<available_skills>", *(line for skill in skills for line in _reference_lines(skill)), "</available_skills>"]
    )


def _reference_lines(skill: Skill) -> Iterator[str]:
    main = skill.content.main
    path = skill.source.root / skill.within_source(main.path if main else "SKILL.md")
    yield "<skill>"
    for tag, text in (("name", skill.name), ("description", skill.description), ("location", str(path))):
        yield from (f"<{tag}>", html.escape(_NOT_XML.sub("\ufffd", printable(text))), f"</{tag}>")
    yield "</skill>"
