"""The two texts that tell a model of skills: the description of `activate_skill`, and the server's instructions.

Clients cut texts at different places, and some show only the beginning of the instructions. So the instructions open
with a lead of at most 250 characters: the rule, the names of the tools, and what the skills are about. The catalog
stands where the client shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from server.listing.layout import MAX_INSTRUCTIONS, CatalogPlace, ListingLayout
from server.listing.order import always_on, enum_names
from server.listing.topics import topics_within
from skills_core.rendering import (
    activation_rule,
    entries_within,
    listing_order,
    render_catalog,
    render_entries,
    render_entry,
    texts_within,
    utf16_length,
)
from skills_core.rendering.escaping import escape_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from server.config.settings.skills import CatalogSettings
    from skills_core.catalog import Catalog
    from skills_core.rendering import CatalogText
    from skills_core.skill import Skill

__all__ = ["MAX_LEAD", "CatalogTexts", "catalog_texts"]

MAX_LEAD = 250
"""Longest lead in characters: as much of the instructions as Codex shows before a search."""

MAX_FURTHER_NAMES = 20_000
"""Longest list of names that no entry shows, in characters; an enum of a thousand names is as long."""

_MAX_NAMED = 20
# Most names of pinned and used skills in the instructions.

_MARGIN = 200
# Characters for the lines that count what is not shown.


class CatalogTexts(NamedTuple):
    """The description of `activate_skill`, and the instructions."""

    description: str
    instructions: str


def catalog_texts(
    catalog: Catalog, first: Sequence[Skill], layout: ListingLayout, settings: CatalogSettings
) -> CatalogTexts:
    """Return the texts for one layout, with the skills that are `first` in front."""
    longest = settings.entry_limit
    rule = activation_rule(layout.activation_tool)
    if layout.place is CatalogPlace.INSTRUCTIONS:
        described = f"{rule} The server's instructions list them; find_skills searches them."
        listed = render_catalog(catalog, layout.catalog, first, longest, _lead(catalog, first, layout))
        names = _further_names(listed, catalog, first, layout, settings)
        return CatalogTexts(described, _instructions(listed.text + names, "", catalog, first, layout))
    listing = render_catalog(catalog, layout.catalog, first, longest, rule)
    lines = _overview(listing.shown, listing.hidden)
    text = _instructions(_lead(catalog, first, layout), lines, catalog, first, layout)
    if layout.place is CatalogPlace.BOTH and listing.hidden:
        text = _continued(text, listing.text, catalog, first, layout, longest)
    names = _further_names(listing, catalog, first, layout, settings)
    return CatalogTexts(listing.text + names, text)


def _further_names(
    listing: CatalogText, catalog: Catalog, first: Sequence[Skill], layout: ListingLayout, settings: CatalogSettings
) -> str:
    """Return a line with the names that no entry shows, for clients whose schema lists no names."""
    if not listing.hidden or enum_names(catalog, first, layout, settings.enum_limit):
        return ""
    shown = frozenset(listing.text.split("\n"))
    # Entries are in the order of the list, but one that exceeds the whole budget is left out.
    unseen = (
        escape_line(skill.key)
        for skill in listing_order(catalog, first)
        if render_entry(skill, settings.entry_limit) not in shown
    )
    names = texts_within(MAX_FURTHER_NAMES, unseen, lambda name: utf16_length(name) + 2)
    return f"\nFurther skills, by name: {', '.join(names)}." if names else ""


def _lead(catalog: Catalog, first: Sequence[Skill], layout: ListingLayout) -> str:
    """Return the beginning of the instructions, which every client shows that shows any."""
    lead = f"Before any task that a skill fits, call {layout.activation_tool}; find_skills searches all skills"
    lead += '. Tools not in sight? Search for "skills".' if layout.deferred else ", read_skill_file reads their files."
    topics = topics_within(MAX_LEAD - utf16_length(lead) - len(" Skills on: ."), listing_order(catalog, first), first)
    return f"{lead} Skills on: {topics}." if topics else lead


def _overview(shown: int, hidden: int) -> str:
    rest = f" {shown} of {shown + hidden} skills; find_skills finds the others." if hidden else " the skills."
    return f"Follow the instructions that a skill returns. The description of activate_skill lists{rest}"


def _instructions(lead: str, overview: str, catalog: Catalog, first: Sequence[Skill], layout: ListingLayout) -> str:
    """Return the lead, the skills that apply to every task, and the names of those that are pinned or used most."""
    text = "\n".join(filter(None, [lead, overview]))
    always = always_on(catalog)
    in_catalog = layout.place is CatalogPlace.INSTRUCTIONS
    if always and in_catalog:
        names = ", ".join(escape_line(skill.key) for skill in always[:_MAX_NAMED])
        text += f"\nThese apply to every task, so activate them first: {names}."
    elif always:
        text += "\nThese apply to every task, so activate them first:\n<available_skills>\n"
        room = layout.instructions - utf16_length(text) - _MARGIN
        shown = entries_within(room, always)
        text += "\n".join([*shown, "</available_skills>"])
        more = len(always) - len(shown)
        text += f"\nAnd {more} more, which stand first in the description of activate_skill." if more else ""
    named = [escape_line(skill.key) for skill in first if skill not in always][:_MAX_NAMED]
    line = f"\nPinned or used most: {', '.join(named)}." if named else ""
    fits = in_catalog or utf16_length(text) + utf16_length(line) <= max(layout.instructions, MAX_INSTRUCTIONS)
    return text + line if fits else text


def _continued(
    text: str, described: str, catalog: Catalog, first: Sequence[Skill], layout: ListingLayout, longest: int
) -> str:
    """Return the instructions with the entries that the description does not hold, as far as they fit."""
    heading = "\nMore skills, which that description does not list:\n"
    shown = frozenset(described.split("\n"))
    told = frozenset(skill.path for skill in always_on(catalog))
    rest = (
        skill
        for skill in listing_order(catalog, first)
        if skill.path not in told and render_entry(skill, longest) not in shown
    )
    entries = entries_within(layout.instructions - utf16_length(text + heading) - _MARGIN, rest, longest)
    return f"{text}{heading}" + "\n".join(render_entries(entries, 0)) if entries else text
