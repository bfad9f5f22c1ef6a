"""The texts that tell a model of skills: the description of `activate_skill`, and the server's instructions.

Clients cut texts at different places, and some show only the beginning of the instructions. So the instructions open
with a lead of at most 250 characters: the rule, the names of the tools, and what the skills are about. The catalog
stands where the client shows it, and goes on in other texts where the client cuts each: in the instructions, and in the
description of `find_skills`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from server.listing.layout import MAX_INSTRUCTIONS, CatalogPlace, ListingLayout, always_on, enum_names
from skills_core.diagnostics import counted, one_line, shortened
from skills_core.rendering.catalog import (
    activation_rule,
    entries_budget,
    entry_beginning,
    fit_entries,
    listing_order,
    render_entries,
    texts_within,
    utf16_length,
)
from skills_core.rendering.escaping import escape_line
from skills_core.selection.twins import NO_TWINS
from skills_core.sharing import shared

if TYPE_CHECKING:
    from server.config.settings.skills import CatalogSettings
    from skills_core.catalog.catalog import Catalog
    from skills_core.selection.twins import Twins
    from skills_core.skills.skill import Skill


MAX_SKILLS = 2000
"""Most skills whose names are read: every reload waits for it."""

TOPICS = "Skills on"
"""What stands before topics in a text."""

_SEPARATOR = ", "
_MAX_TOPIC = 60
_MAX_LEADING = 3
_MAX_READ = 500
# Characters of a description that are read for its words.
_KEPT = 2 * MAX_SKILLS
# Skills whose words are kept. With room for one catalog alone, an added skill would displace those that are read next.
_WORD = re.compile(r"[^\W\d_]{2,}")
_THING = re.compile(r"\b(?:an?|the|of|for|from|with|in|into|your|their|this|these|any) ([^\W\d_]{2,})\b")
_ACTION = re.compile(r"(?:^|[.:!?] |\bto |\byou |\bcan )([^\W\d_]{2,})\b")
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
    words = _words_of(tuple((skill.key, skill.frontmatter.triggers, skill.description[:_MAX_READ]) for skill in read))
    # Names of symbols, of digits or of single letters have no words.
    others = (word for word in words if word not in said) if words else map(topic_of, read)
    return _joined(room, chain(leading, others))


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
@lru_cache(4)
def _words_of(named: tuple[tuple[str, tuple[str, ...], str], ...]) -> tuple[str, ...]:
    """Return the words of names and triggers: things before actions, as they tell skills apart, then by frequency."""
    said = [*map(_said_by, named)]
    # One call for all counts several times as fast as one for each.
    counts = Counter(chain.from_iterable(each.words for each in said))
    things = Counter(chain.from_iterable(each.things for each in said))
    actions = Counter(chain.from_iterable(each.actions for each in said))
    # `most_common` keeps the order of words that are equally frequent, but a set has no order.
    ordered = sorted(counts.items(), key=lambda pair: (things[pair[0]] < actions[pair[0]], -pair[1], pair[0]))
    return tuple(word for word, _ in ordered)


class _Said(NamedTuple):
    """The distinct words of a skill: those of its name and triggers, and the things and actions in its description."""

    words: tuple[str, ...]
    things: tuple[str, ...]
    actions: tuple[str, ...]


@lru_cache(_KEPT)
def _said_by(named: tuple[str, tuple[str, ...], str]) -> _Said:
    name, triggers, description = named
    return _Said(*map(_kept, (_distinct_words(name, triggers), _things_in(description), _actions_in(description))))


def _kept(words: Iterable[str]) -> tuple[str, ...]:
    """Return words as thousands of skills keep them: equal ones are one object, and a tuple is smaller than a set."""
    return tuple(map(shared, words))


def _distinct_words(name: str, triggers: tuple[str, ...]) -> set[str]:
    texts = (name, *(trigger for trigger in triggers if len(trigger) <= _MAX_TOPIC))
    words = {word for text in texts for word in _WORD.findall(text.lower())}
    return {word for word in words if word not in _COMMON and len(word) <= _MAX_TOPIC}


def _things_in(description: str) -> set[str]:
    """Return the words that follow an article or a preposition."""
    return {match[1] for match in _THING.finditer(description.lower())}


def _actions_in(description: str) -> set[str]:
    """Return the words that begin a sentence or follow `to`, also without the ending of the third person."""
    words = {match[1] for match in _ACTION.finditer(description.lower())}
    return words | {word.removesuffix("s") for word in words} | {word.removesuffix("es") for word in words}


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

_MARGIN = 100
# Characters for the lines around entries in the instructions.

_PREFERRED_ROOM = 700
# Longest line of pinned and used names.

MAX_SEARCH = 500
"""Characters that the description of `find_skills` has at most besides entries."""

_USUAL_SEARCH = 300
# Characters that it has at most besides names or topics.


class CatalogTexts(NamedTuple):
    """The description of `activate_skill`, the instructions, and what the description of `find_skills` adds.

    `hidden` counts the skills that no entry shows, and `read` those from whose contents the texts were made: so many
    of the first in the order of the catalog.
    """

    description: str
    instructions: str
    search: str = ""
    hidden: int = 0
    read: int = 0


NO_TEXTS = CatalogTexts("", "")
"""Without skills for models."""

_MAX_FAULTS = 3
_MAX_FAULT = 400


def loading_text(catalog: Catalog) -> str:
    """Return what a model should know while skills are still being loaded; empty once all are."""
    if not catalog.is_loading:
        return ""
    count = f"{counted(len(catalog.offered), 'skill')} so far" if catalog.offered else "none so far"
    if any(found.fault for found in catalog.sources):
        # Not the fault itself, which is for operators: it may name what callers do not see.
        return f"Tell the user that loading the skills failed ({count}) and is retried; the server's log says why."
    return f"Skills are still being loaded, {count}: if none fits, ask find_skills again in some seconds."


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
    catalog: Catalog,
    first: Sequence[Skill],
    layout: ListingLayout,
    settings: CatalogSettings,
    twins: Twins = NO_TWINS,
) -> CatalogTexts:
    """Return the texts for one layout, with the skills that are `first` in front.

    Where not all skills have an entry, one of those that are alike by `twins` stands for all, so that others have one.
    """
    writer = _Writer(catalog, first, layout, settings, twins, MAX_SKILLS)
    texts = writer.beside_stubs() if layout.place is CatalogPlace.CLIENT else writer.texts()
    return texts._replace(read=writer.read)


@dataclass(slots=True)
class _Writer:
    catalog: Catalog
    first: Sequence[Skill]
    layout: ListingLayout
    settings: CatalogSettings
    twins: Twins
    read: int
    """How many of the ordered skills were read so far; topics are those of the first `MAX_SKILLS`."""

    def texts(self) -> CatalogTexts:
        """Return the texts, with the entries of the catalog where the layout places them."""
        lead = self._lead()
        after = _lines([loading_text(self.catalog), self._always(), self._preferred()])
        total = len(self.catalog.offered)
        rooms = [entries_budget(self.layout.catalog, self._rule)]
        if self.layout.place is CatalogPlace.EVERYWHERE:
            # The longest instructions without entries.
            head = _lines([lead, self._where(total, total), after])
            rooms += [self.layout.instructions - utf16_length(head) - _MARGIN, self.layout.catalog - MAX_SEARCH]
        # An empty room is none.
        rooms = [max(room, 0) for room in rooms]
        pages = self._entries(rooms)
        listed, *further = pages
        shown = sum(map(len, pages))
        hidden = total - shown
        names = self._further_names(pages) if hidden else ""
        # A description that the client cuts has no room besides the entries.
        names, in_search = ("", names) if self._is_short else (names, "")
        goes_on = shown > len(listed)
        listing = _lines([*render_entries(listed, 0 if goes_on else hidden), names])
        if self.layout.place is CatalogPlace.INSTRUCTIONS:
            rule = f"{self._rule} The server's instructions list them; find_skills searches them."
            instructions = _lines([lead, self._rule, listing, after])
            return CatalogTexts(rule, instructions, self._topics(hidden), hidden)
        if goes_on:
            listing = (
                f"{listing}\nMore skills stand in the server's instructions and in the description of find_skills."
            )
        in_instructions, continued = map(_continued, further) if further else ("", "")
        return CatalogTexts(
            _lines([self._rule, listing]),
            _lines([lead, self._where(shown, hidden), after, in_instructions]),
            _lines([continued, _more(hidden)]) if goes_on else in_search or self._topics(hidden),
            hidden,
        )

    @property
    def _ordered(self) -> Iterator[Skill]:
        """The offered skills in order; few of very many fit, so that most are never looked at."""
        for number, skill in enumerate(listing_order(self.catalog, self.first), 1):
            self.read = max(self.read, number)
            yield skill

    def _entries(self, rooms: Sequence[int]) -> list[list[str]]:
        """Return the entries for texts with as many characters as `rooms` say."""
        pages = fit_entries(rooms, self._ordered, self.settings.entry_limit)
        if not self.twins or sum(map(len, pages)) == len(self.catalog.offered):
            return pages
        alike: dict[str, int] = {}
        return fit_entries(rooms, self._heads(alike), self.settings.entry_limit, alike)

    def _heads(self, alike: dict[str, int]) -> Iterator[Skill]:
        """Yield the offered skills for which no other one stands; first note in `alike` for how many each stands."""
        groups: dict[int, tuple[Skill | None, int]] = {}
        rank_of = self._rank()
        for skill in self._ordered:
            group = self.twins.group_of(skill)
            if (found := groups.get(id(group))) is None:
                now = (self.catalog.at(each.path) for each in group)
                members = [each for each in now if each is not None and each.model_invocable]
                found = groups[id(group)] = min(members, key=rank_of, default=None), len(members) - 1
            head, others = found
            if head is None or head is skill:
                alike[skill.path] = max(others, 0)
                yield skill

    def _rank(self) -> Callable[[Skill], tuple[bool, int, int]]:
        """Return the order of alike skills: a pinned or used one, else the one whose source wins conflicts over names.

        A group has the others in the order of the list.
        """
        preferred = {skill.path: number for number, skill in enumerate(self.first)}
        ranks = {found.source.root: number for number, found in enumerate(self.catalog.sources)}

        def rank_of(skill: Skill) -> tuple[bool, int, int]:
            number = preferred.get(skill.path)
            return number is None, ranks.get(skill.source.root, len(ranks)), number or 0

        return rank_of

    def beside_stubs(self) -> CatalogTexts:
        """Return the texts without the catalog, which the client's own list of skills has."""
        description = f"{self._rule} Your own list of skills has them, each as a note to call this tool; find_skills "
        instructions = _lines([self._lead(), loading_text(self.catalog), self._always()])
        return CatalogTexts(f"{description}searches them all.", instructions)

    @property
    def _is_short(self) -> bool:
        return self.layout.description is not None and self.layout.description < MAX_FURTHER_NAMES

    @property
    def _rule(self) -> str:
        rule = activation_rule(self.layout.activation_tool, self.layout.link_reader)
        return " ".join(filter(None, (rule, loading_text(self.catalog))))

    def _lead(self) -> str:
        """Return the beginning of the instructions, which every client shows that shows any."""
        tool = self.layout.activation_tool
        others = (
            '. Tools not in sight? Search for "skills".' if self.layout.deferred else ", read_skill_file reads files."
        )
        lead = f"Before a task that a skill fits, call {tool}(name). find_skills searches them{others} "
        if not self.catalog.offered:
            return lead.rstrip()
        return lead + self._summary(MAX_LEAD - utf16_length(lead))

    def _summary(self, room: int) -> str:
        """Return how many skills there are and their names, or some names and the topics, within `room` characters.

        Where the model sees the catalog anyway, they are only counted.
        """
        ordered = tuple(islice(self._ordered, _MAX_NAMED))
        total = len(self.catalog.offered)
        count = f"{total} skill{'s' if total > 1 else ''}"
        if self.layout.in_sight:
            return f"{count}."
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

    def _where(self, shown: int, hidden: int) -> str:
        which = f"{shown} of {shown + hidden} skills; find_skills finds the others" if hidden else "the skills"
        reader = self.layout.link_reader
        link = f"A skill returns a link: read it with {reader}, and follow what it says."
        then = link if reader else "Follow the instructions that a skill returns."
        return f"{then} The description of {self.layout.activation_tool} lists {which}."

    def _topics(self, hidden: int) -> str:
        """Return what the skills are about, for a model that may not see the entries of all."""
        if self.layout.in_sight and not hidden:
            return ""
        topics = topics_within(min(self.layout.topics, self._search_room), self.catalog.offered, self.first)
        return f"{TOPICS}: {topics}." if topics else ""

    def _always(self) -> str:
        """Return the line with the names of the skills that apply to every task; their entries stand first."""
        return _named(_ALWAYS, always_on(self.catalog), MAX_INSTRUCTIONS // 2)

    def _preferred(self) -> str:
        """Return the line with the names of the skills that are pinned or used most, unless their entries are seen."""
        if self.layout.in_sight:
            return ""
        return _named(_PREFERRED, (skill for skill in self.first if not skill.frontmatter.always_on), _PREFERRED_ROOM)

    def _further_names(self, pages: Iterable[Sequence[str]]) -> str:
        """Return a line with the names that no entry shows, for clients whose schema lists no names."""
        if enum_names(self.catalog, self.first, self.layout, self.settings.enum_limit):
            return ""
        entries = frozenset(entry.partition(": ")[0] for page in pages for entry in page)
        unlisted = (skill for skill in self._ordered if entry_beginning(skill).removesuffix(":") not in entries)
        return _named(_FURTHER, unlisted, self._search_room, most=None)

    @property
    def _search_room(self) -> int:
        """The characters that further names or topics may take in a description, besides what it always says."""
        shown = self.layout.description
        return MAX_FURTHER_NAMES if shown is None else min(shown - _USUAL_SEARCH, MAX_FURTHER_NAMES)


def _continued(entries: Sequence[str]) -> str:
    """Return the lines with entries that the description of `activate_skill` does not hold."""
    return _lines(["More skills:", *render_entries(entries, 0)]) if entries else ""


def _more(hidden: int) -> str:
    return f"{hidden} more skills are not listed: search for them." if hidden else ""


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
