"""The two texts that tell a model of skills: the description of `activate_skill`, and the server's instructions.

Clients cut texts at different places, and some show only the beginning of the instructions. So the instructions open
with a lead of at most 250 characters: the rule, the names of the tools, and what the skills are about. The catalog
stands where the client shows it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from server.listing.layout import MAX_INSTRUCTIONS, CatalogPlace, ListingLayout, always_on, enum_names
from skills_core.diagnostics import one_line, shortened
from skills_core.rendering.catalog import (
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
    from server.config.settings.skills import CatalogSettings
    from skills_core.catalog.catalog import Catalog
    from skills_core.rendering.catalog import CatalogText
    from skills_core.skills.skill import Skill


MAX_SKILLS = 2000
"""Most skills whose names are read: every reload waits for it."""

TOPICS = "Skills on"
"""What stands before topics in a text."""

_SEPARATOR = ", "
_MAX_TOPIC = 60
_MAX_LEADING = 3
_WORD = re.compile(r"[^\W\d_]{2,}")
_COMMON = frozenset(
    "a an and as at by for from in into is it of on or skill skills the this to use using with".split()  # noqa: SIM905
)


def topics_within(room: int, skills: Iterable[Skill], first: Sequence[Skill] = ()) -> str:
    """Return topics of `skills`, separated by commas, within `room` characters.

    If their names fit, the topics are the names. Else they are the names of some skills that are `first`, and the words
    of names and triggers, those of most skills first.
    """
    read = tuple(islice(skills, MAX_SKILLS))
    if names := _names_if_all_fit(room, read):
        return names
    leading = [topic_of(skill) for skill in first[:_MAX_LEADING]]
    said = {word for name in leading for word in name.lower().split()}
    words = _words_of(tuple((skill.key, skill.frontmatter.triggers) for skill in read))
    # Names of symbols, of digits or of single letters have no words.
    others = (word for word in words if word not in said) if words else map(topic_of, read)
    return _joined(room, chain(leading, others))


def shortened_topics(topics: str, room: int) -> str:
    """Return the first of `topics` within `room` characters."""
    return _joined(room, topics.split(_SEPARATOR))


def topic_of(skill: Skill) -> str:
    """Return a skill's name as words; its key may be a path."""
    words = re.split(r"[\s_/.-]+", one_line(skill.key[:_MAX_TOPIC]))
    # Two words may be one of our tags where the name is none.
    return escape_line(" ".join(words).strip())


def _names_if_all_fit(room: int, skills: Iterable[Skill]) -> str:
    """Return the names of all skills, or nothing if they exceed the room."""
    names: dict[str, None] = {}
    left = room + len(_SEPARATOR)
    for name in filter(None, map(topic_of, skills)):
        if name not in names:
            left -= utf16_length(name) + len(_SEPARATOR)
            if left < 0:
                return ""
            names[name] = None
    return _SEPARATOR.join(names)


# Cached because several texts for several kinds of clients list the same words, and most edits change none of them.
@lru_cache(16)
def _words_of(named: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[str, ...]:
    """Return the words of names and triggers, those of most skills first."""
    counts: Counter[str] = Counter()
    for name, triggers in named:
        counts.update(_distinct_words(name, triggers))
    # `most_common` keeps the order of words that are equally frequent, but a set has no order.
    return tuple(word for word, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


@lru_cache(MAX_SKILLS)
def _distinct_words(name: str, triggers: tuple[str, ...]) -> frozenset[str]:
    texts = (name, *(trigger for trigger in triggers if len(trigger) <= _MAX_TOPIC))
    words = {word for text in texts for word in _WORD.findall(text.lower())}
    return frozenset(word for word in words if word not in _COMMON and len(word) <= _MAX_TOPIC)


def _joined(room: int, topics: Iterable[str]) -> str:
    """Return the first distinct topics that fit.

    A topic that exceeds the whole room is skipped, so that it does not hide the others.
    """
    distinct = dict.fromkeys(filter(None, topics))
    # No separator follows the last one.
    chosen = texts_within(room + len(_SEPARATOR), distinct, lambda topic: utf16_length(topic) + len(_SEPARATOR))
    return _SEPARATOR.join(chosen)


MAX_LEAD = 250
"""Longest lead in characters: as much of the instructions as Codex shows before a search."""

MAX_FURTHER_NAMES = 20_000
"""Longest list of names that no entry shows, in characters; an enum of a thousand names is as long."""

_PREFERRED = "Pinned or used most"
_ALWAYS = "These apply to every task, so activate them first"
_FURTHER = "Further skills, by name"
_EXAMPLES = "such as"
_ON = "; on"

NAME_LISTS = (*(f"{label}:" for label in (TOPICS, _PREFERRED, _ALWAYS, _FURTHER)), f", {_EXAMPLES}", _ON)
"""What stands before a list of names, or of topics, which may be names as words."""

ALL_NAMES = re.compile(r"\d+ skills?:")
"""What stands before the names of all skills of a small catalog."""

_MAX_NAMED = 20
# Most names of pinned and used skills in the instructions.

_MARGIN = 200
# Characters for the lines that count what is not shown.


class CatalogTexts(NamedTuple):
    """The description of `activate_skill`, and the instructions."""

    description: str
    instructions: str


_MAX_FAULTS = 3
_MAX_FAULT = 400


def faults_text(catalog: Catalog, *, is_watched: bool) -> str:
    """Return what a model tells its user of folders that could not be used at the start and have no skills since.

    Most clients show nothing of what a server writes to its log.
    """
    faults = [found.source.fault for found in catalog.sources if found.source.fault and not found.skills]
    if not faults:
        return ""
    shown = [escape_line(shortened(one_line(fault), _MAX_FAULT)) for fault in faults[:_MAX_FAULTS]]
    more = [f"{len(faults) - _MAX_FAULTS} more folders"] if len(faults) > _MAX_FAULTS else []
    then = "Skills appear without a restart once" if is_watched else "Restart the server once"
    told = "\n".join(f"- {each}" for each in (*shown, *more))
    lead = "Tell the user that skills are missing. When this server started, it could not use:"
    return f"{lead}\n{told}\n{then} that is corrected."


def catalog_texts(
    catalog: Catalog, first: Sequence[Skill], layout: ListingLayout, settings: CatalogSettings
) -> CatalogTexts:
    """Return the texts for one layout, with the skills that are `first` in front."""
    writer = _Writer(catalog, first, layout, settings)
    if layout.place is CatalogPlace.CLIENT:
        return writer.beside_stubs()
    return writer.in_instructions() if layout.place is CatalogPlace.INSTRUCTIONS else writer.in_description()


@dataclass(frozen=True, slots=True)
class _Writer:
    catalog: Catalog
    first: Sequence[Skill]
    layout: ListingLayout
    settings: CatalogSettings

    def in_instructions(self) -> CatalogTexts:
        """Return the texts with the catalog in the instructions."""
        listing = self._listing(self._lead())
        parts = [listing.text, self._further_names(listing)]
        parts.append(_named(_ALWAYS, always_on(self.catalog), MAX_INSTRUCTIONS))
        parts.append(self._preferred(MAX_INSTRUCTIONS))
        description = f"{self._rule} The server's instructions list them; find_skills searches them."
        return CatalogTexts(description, _lines(parts))

    def beside_stubs(self) -> CatalogTexts:
        """Return the texts without the catalog, which the client's own list of skills has."""
        description = f"{self._rule} Your own list of skills has them, each as a note to call this tool; find_skills "
        text = _lines([self._lead(), _named(_ALWAYS, always_on(self.catalog), MAX_INSTRUCTIONS)])
        return CatalogTexts(f"{description}searches them all.", text)

    def in_description(self) -> CatalogTexts:
        """Return the texts with the catalog in the description; the instructions may go on where it ends."""
        listing = self._listing(self._rule)
        text = _lines([self._lead(), self._overview(listing)])
        if always := always_on(self.catalog):
            text = _lines([text, *self._always(always, text)])
        text = _lines([text, self._preferred(self.layout.instructions - utf16_length(text))])
        if self.layout.place is CatalogPlace.BOTH and listing.hidden:
            text = _lines([text, *self._continued(listing, text)])
        return CatalogTexts(_lines([listing.text, self._further_names(listing)]), text)

    @property
    def _rule(self) -> str:
        return activation_rule(self.layout.activation_tool, self.layout.link_reader)

    def _listing(self, rule: str) -> CatalogText:
        return render_catalog(self.catalog, self.layout.catalog, self.first, self.settings.entry_limit, rule)

    def _lead(self) -> str:
        """Return the beginning of the instructions, which every client shows that shows any."""
        tool = self.layout.activation_tool
        others = (
            '. Tools not in sight? Search for "skills".' if self.layout.deferred else ", read_skill_file reads files."
        )
        lead = f"Before a task that a skill fits, call {tool}(name). find_skills searches them{others} "
        return lead + self._summary(MAX_LEAD - utf16_length(lead))

    def _summary(self, room: int) -> str:
        """Return how many skills there are and their names, or some names and the topics, within `room` characters."""
        ordered = tuple(islice(listing_order(self.catalog, self.first), _MAX_NAMED))
        total = len(self.catalog.offered)
        count = f"{total} skill{'s' if total > 1 else ''}"
        named = f"{count}: {', '.join(map(_name, ordered))}."
        if len(ordered) == total and utf16_length(named) <= room:
            return named
        # In a small catalog, names say more than words that several names have.
        few = total <= _MAX_NAMED
        examples = _names_within(room - utf16_length(f"{count}, {_EXAMPLES} .") if few else room // 3, ordered)
        summary = f"{count}, {_EXAMPLES} {', '.join(examples)}" if examples else count
        if few and examples:
            return f"{summary}."
        topics = topics_within(room - utf16_length(f"{summary}{_ON} ."), self.catalog.offered)
        return f"{summary}{_ON} {topics}." if topics else f"{summary}."

    def _overview(self, listing: CatalogText) -> str:
        shown, all_skills = listing.shown, listing.shown + listing.hidden
        which = f"{shown} of {all_skills} skills; find_skills finds the others" if listing.hidden else "the skills"
        reader = self.layout.link_reader
        link = f"A skill returns a link: read it with {reader}, and follow what it says."
        then = link if reader else "Follow the instructions that a skill returns."
        return f"{then} The description of {self.layout.activation_tool} lists {which}."

    def _always(self, always: Sequence[Skill], before: str) -> Iterator[str]:
        """Yield the lines on skills that apply to every task, with their entries as far as they fit."""
        yield f"{_ALWAYS}:"
        room = self.layout.instructions - utf16_length(before) - _MARGIN
        shown = entries_within(room, always, self.settings.entry_limit)
        yield from render_entries(shown, 0)
        if more := len(always) - len(shown):
            yield f"And {more} more, which stand first in the description of {self.layout.activation_tool}."

    def _preferred(self, room: int) -> str:
        """Return the line with the names of the skills that are pinned or used most, within `room` characters."""
        return _named(_PREFERRED, (skill for skill in self.first if not skill.frontmatter.always_on), room)

    def _continued(self, listing: CatalogText, before: str) -> Iterator[str]:
        """Yield the lines with entries that the description does not hold, as far as they fit."""
        room = self.layout.instructions - utf16_length(before) - _MARGIN
        rest = (skill for skill in self._unlisted(listing) if not skill.frontmatter.always_on)
        if entries := entries_within(room, rest, self.settings.entry_limit):
            yield "More skills, which that description does not list:"
            yield from render_entries(entries, 0)

    def _further_names(self, listing: CatalogText) -> str:
        """Return a line with the names that no entry shows, for clients whose schema lists no names."""
        if not listing.hidden or enum_names(self.catalog, self.first, self.layout, self.settings.enum_limit):
            return ""
        return _named(_FURTHER, self._unlisted(listing), MAX_FURTHER_NAMES, most=None)

    def _unlisted(self, listing: CatalogText) -> Iterator[Skill]:
        """Yield the skills without an entry, in the order of the list."""
        entries = frozenset(listing.text.split("\n"))
        ordered = listing_order(self.catalog, self.first)
        yield from (skill for skill in ordered if render_entry(skill, self.settings.entry_limit) not in entries)


def _named(label: str, skills: Iterable[Skill], room: int, most: int | None = _MAX_NAMED) -> str:
    """Return a line with the names of the first `most` of `skills`, as far as `room` characters hold them."""
    names = _names_within(room - utf16_length(f"{label}: .\n"), islice(skills, most))
    return f"{label}: {', '.join(names)}." if names else ""


def _names_within(room: int, skills: Iterable[Skill]) -> list[str]:
    """Return the names of the first skills that fit into `room` characters, with a comma and a space after each.

    A name that exceeds the whole room is skipped, so that it does not hide the others.
    """
    return texts_within(room, map(_name, skills), lambda name: utf16_length(name) + 2)


def _name(skill: Skill) -> str:
    return escape_line(skill.key)


def _lines(parts: Iterable[str]) -> str:
    return "\n".join(filter(None, parts))
