"""Predict what a client shows of the skills that this server serves, and what its model sees of the texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from server.clients.layout import instructions_for, layout_for, tools_for
from server.clients.profile import CHARACTERS_A_TOKEN, holds
from server.listing.catalog_texts import ALL_NAMES, NAME_LISTS, topic_of
from server.listing.layout import CatalogPlace, size_of
from server.listing.tools import ACTIVATE, FIND, READ
from skills_core.rendering.catalog import entry_beginning, listing_order, utf16_length
from skills_core.rendering.escaping import escape_line

if TYPE_CHECKING:
    from server.clients.profile import ClientProfile
    from server.listing.snapshot import Snapshot
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill

_LIST_OF_NAMES = re.compile(rf"(?:{ALL_NAMES.pattern}|{'|'.join(map(re.escape, NAME_LISTS))}) ([^\n;]*)")
_ENTRY = "- "
_COLON = re.compile(":(?= |$)")


@dataclass(frozen=True, slots=True)
class VisibleText:
    """A text, and how much of it the model sees: `at_once`, and once a tool search has `loaded` the tool."""

    text: str
    at_once: str
    loaded: str


@dataclass(frozen=True, slots=True)
class ToolSearch:
    """The client's own search for tools.

    `deferred` tells that the model has to use it before it sees our tools. `leaves` is how much of a description it
    sees before, None if that is not known. `answer` is the length of an answer with all three tools for skills, `limit`
    the longest one that the model sees.
    """

    deferred: bool
    leaves: int | None
    answer: int
    limit: int | None

    @property
    def is_too_long(self) -> bool:
        """Whether the model does not see the answer."""
        return self.deferred and self.limit is not None and self.answer > self.limit


@dataclass(frozen=True, slots=True)
class VisibleTexts:
    """The texts with skills: two descriptions and the instructions, the names in the enum, and the tool search.

    `schema` is the size of the input schema of `activate_skill` in bytes.
    """

    description: VisibleText
    find_skills: VisibleText
    instructions: VisibleText
    enum: frozenset[str]
    schema: int
    search: ToolSearch

    @property
    def all(self) -> tuple[VisibleText, ...]:
        """The texts in the order in which a model reads them."""
        return (self.instructions, self.description, self.find_skills)


def visible_texts(snapshot: Snapshot, client: ClientProfile) -> VisibleTexts:
    """Return the texts as they are sent to `client`, and what its model sees of them."""
    tools = {tool["name"]: tool for tool in tools_for(snapshot, client)}
    search = _tool_search([tools[name] for name in (ACTIVATE, READ, FIND) if name in tools], client)
    activate = tools.get(ACTIVATE, {})
    schema = activate.get("inputSchema", {})
    instructions = instructions_for(snapshot, client) or ""
    shown = _beginning(instructions, client.instructions.characters if client.instructions else None)
    return VisibleTexts(
        _description(activate.get("description", ""), client, search),
        _description(tools.get(FIND, {}).get("description", ""), client, search),
        VisibleText(instructions, shown, shown),
        frozenset(schema.get("properties", {}).get("name", {}).get("enum", ())),
        size_of(schema),
        search,
    )


def names_in(text: str, seen: str) -> frozenset[str]:
    """Return the names and topics in `seen`, the visible beginning of `text`, that stand outside of entries."""
    names: set[str] = set()
    lines = seen.split("\n")
    is_cut = len(seen) < len(text)
    for number, line in enumerate(lines, 1):
        if line.startswith(_ENTRY):
            continue
        for listed in _LIST_OF_NAMES.finditer(line):
            parts = listed[1].split(", ")
            if is_cut and number == len(lines) and listed.end() == len(line):
                # The client cuts within or behind the last name.
                parts.pop()
            names.update(part.removesuffix(".") for part in parts)
    return frozenset(names)


def _tool_search(tools: list[dict[str, Any]], client: ClientProfile) -> ToolSearch:
    answer = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in tools]
    leaves = client.deferred.characters if client.deferred else None
    limit = client.search_answer.characters if client.search_answer else None
    return ToolSearch(client.defers, leaves, utf16_length(json.dumps(answer, ensure_ascii=False)), limit)


def _description(text: str, client: ClientProfile, search: ToolSearch) -> VisibleText:
    """Return what is visible of a description: nothing, if a tool is deferred and it is not known how much."""
    shown = client.loaded if search.deferred and client.loaded else client.description
    loaded = _beginning(text, shown.characters if shown else None)
    if not search.deferred:
        return VisibleText(text, loaded, loaded)
    at_once = _beginning(text, search.leaves or 0)
    return VisibleText(text, at_once, at_once if search.is_too_long else loaded)


def _beginning(text: str, limit: int | None) -> str:
    """Return as much of a text as `limit` UTF-16 code units hold, which JavaScript counts; None stands for all."""
    if limit is None or utf16_length(text) <= limit:
        return text
    return text.encode("utf-16-le", "surrogatepass")[: 2 * limit].decode("utf-16-le", "ignore")


class EntryState(StrEnum):
    """How much of a skill the list for the model shows."""

    WHOLE = "whole"
    SHORTENED = "shortened"
    """This server has shortened its text, so that there is room for others."""
    CUT = "cut"
    """The client has cut its text."""
    NAME = "name"
    MISSING = "missing"


class Sight(StrEnum):
    """What a model has to do before it sees that a skill exists."""

    DESCRIBED = "described"
    """Nothing: it sees the skill's entry from the start, whole or shortened by this server."""

    NAMED = "named"
    """Nothing: it sees the skill's name from the start, and at most a part of its entry."""

    TOOL_SEARCH = "tool_search"
    """Use the client's own search for tools, which loads the tool that lists the skill."""

    FIND_SKILLS = "find_skills"
    """Call `find_skills`, or describe the task to `activate_skill`."""


class Obstacle(StrEnum):
    """Why the client does not show a skill completely, or refuses its name."""

    BEYOND_BUDGET = "beyond_budget"
    """The skill does not fit into the catalog's budget; find_skills finds it."""

    CUT_ENTRY = "cut_entry"
    """The client cuts the text within the skill's entry."""

    DEFERRED = "deferred"
    """The model sees the skill's entry only after the client's own search for tools."""

    LONG_ANSWER = "long_answer"
    """An answer of the client's search for tools with the skill's entry is longer than what the model sees of it."""

    BEYOND_ENUM = "beyond_enum"
    """The tool's schema does not list the skill's name, but the tool accepts it."""

    REFUSED_NAME = "refused_name"
    """The tool's schema does not list the skill's name, and the client refuses such a call itself."""

    NOT_FOR_MODELS = "not_for_models"
    """The skill declares that models may not activate it."""

    NOT_FOR_USERS = "not_for_users"
    """The skill declares that it is not a command for users."""

    NO_PROMPTS = "no_prompts"
    """The client does not show prompts."""


def tokens(characters: int) -> int:
    """Estimate the number of tokens, at four characters of English per token."""
    return -(-characters // CHARACTERS_A_TOKEN)


DESCRIBING = frozenset({EntryState.WHOLE, EntryState.SHORTENED})
"""The states of an entry that says what the skill does."""


@dataclass(frozen=True, slots=True)
class ServedSkill:
    """What a client shows of one active skill.

    `entry` is the best state of the skill's entries, once the tool is loaded, and `characters` the length of its text
    there. `sight` is None for a skill that is not for models, `prompt` if it is unknown whether prompts are shown.
    """

    skill: Skill
    entry: EntryState
    characters: int
    sight: Sight | None
    in_enum: bool
    prompt: bool | None
    obstacles: tuple[Obstacle, ...]


@dataclass(frozen=True, slots=True)
class ServedSkills:
    """What a client shows of all active skills, those for models first, in the catalog's order.

    `budget` is the number of characters of the texts that may have entries.
    """

    skills: tuple[ServedSkill, ...]
    budget: int
    texts: VisibleTexts


def served_skills(snapshot: Snapshot, client: ClientProfile) -> ServedSkills:
    """Return what `client` shows of a snapshot: the texts as sent to it, after the client's cuts."""
    shows = ClientSight(snapshot, client)
    texts, catalog = shows.texts, snapshot.catalog
    others = (skill for skill in catalog.active if not skill.model_invocable)
    offered = listing_order(catalog, snapshot.first)
    shown = tuple(shows.served(skill) for skill in (*offered, *others))
    return ServedSkills(shown, shows.budget, texts)


class ShownEntry(NamedTuple):
    """The state of an entry, and the length of its text."""

    state: EntryState
    characters: int


_NO_ENTRY = ShownEntry(EntryState.MISSING, 0)


def shown_entries(text: str, cut: int, beginnings: Container[str]) -> dict[str, ShownEntry]:
    """Return the entries in `text` once it is cut, by what they begin with.

    `beginnings` are those of the skills that there are: a name may have a colon.
    """
    found: dict[str, ShownEntry] = {}
    at = 0
    for line in text.split("\n"):
        if at >= cut:
            break
        end = at + len(line)
        if line.startswith(_ENTRY) and (beginning := _beginning_of(line, beginnings)) is not None:
            whole = EntryState.SHORTENED if line.endswith("…") else EntryState.WHOLE
            state = whole if end <= cut else EntryState.CUT
            found[beginning] = ShownEntry(state, max(min(end, cut) - at - len(beginning) - 1, 0))
        at = end + 1
    return found


def _beginning_of(line: str, beginnings: Container[str]) -> str | None:
    """Return the longest beginning of an entry that is one of `beginnings`, None if none is."""
    colons = [match.end() for match in _COLON.finditer(line)]
    return next((line[:end] for end in reversed(colons) if line[:end] in beginnings), None)


class _Seen:
    """The skills that the seen parts of all texts show: the best state of each entry, and the names outside of them."""

    def __init__(self, parts: Sequence[tuple[str, str]], beginnings: Container[str]) -> None:
        """Read the seen beginning of each text; `parts` are texts with what is seen of them."""
        self._entries: dict[str, ShownEntry] = {}
        self.names: set[str] = set()
        for text, seen in parts:
            self.names |= names_in(text, seen)
            for beginning, entry in shown_entries(text, len(seen), beginnings).items():
                if self._entries.get(beginning, _NO_ENTRY).state not in DESCRIBING:
                    self._entries[beginning] = entry

    def entry(self, skill: Skill) -> EntryState:
        return self.shown(skill).state

    def shown(self, skill: Skill) -> ShownEntry:
        return self._entries.get(entry_beginning(skill), _NO_ENTRY)


class SeenTexts:
    """The texts of one snapshot as models see them, each read once, as many clients show the same."""

    def __init__(self, catalog: Catalog) -> None:
        """Read nothing yet; `catalog` has the skills that the texts are about."""
        self._beginnings = frozenset(map(entry_beginning, catalog.offered))
        self._known: dict[tuple[tuple[str, str], ...], _Seen] = {}

    def seen(self, texts: VisibleTexts, part: Callable[[VisibleText], str]) -> _Seen:
        """Return what is seen of texts; `part` returns the seen part of one."""
        parts = tuple((text.text, part(text)) for text in texts.all)
        if parts not in self._known:
            self._known[parts] = _Seen(parts, self._beginnings)
        return self._known[parts]


class ClientSight:
    """What one client shows of each skill of a snapshot; the clients of one snapshot may share `seen`.

    `budget` is the number of characters of the texts that may have entries.
    """

    def __init__(self, snapshot: Snapshot, client: ClientProfile, seen: SeenTexts | None = None) -> None:
        """Read the texts that are sent to the client."""
        self.client = client
        self.texts = texts = visible_texts(snapshot, client)
        layout = layout_for(client, snapshot.settings)
        more = layout.catalog + layout.instructions if layout.place is CatalogPlace.EVERYWHERE else 0
        self.budget = layout.catalog + more
        self._search = texts.search
        self._enum = texts.enum
        self._checks_enum = holds(client.checks_enum)
        self._prompt = client.prompts.value if client.prompts else None
        seen = seen or SeenTexts(snapshot.catalog)
        self._sent = seen.seen(texts, attrgetter("text"))
        self._loaded = seen.seen(texts, attrgetter("loaded"))
        self._at_once = seen.seen(texts, attrgetter("at_once"))

    def served(self, skill: Skill) -> ServedSkill:
        """Return what the client shows of an active skill."""
        obstacles = (*self._from_models(skill), *self._from_users(skill))
        prompt = self._prompt if skill.user_invocable else False
        in_enum = skill.key in self._enum
        if not skill.model_invocable:
            return ServedSkill(skill, *_NO_ENTRY, None, in_enum, prompt, obstacles)
        return ServedSkill(skill, *self._loaded.shown(skill), self._sight(skill), in_enum, prompt, obstacles)

    def _sight(self, skill: Skill) -> Sight:
        at_once = self._at_once.entry(skill)
        if at_once in DESCRIBING:
            return Sight.DESCRIBED
        names = {escape_line(skill.key), topic_of(skill)}
        in_enum = skill.key in self._enum
        if at_once is EntryState.CUT or names & self._at_once.names or (in_enum and not self._search.deferred):
            return Sight.NAMED
        after_search = in_enum and not self._search.is_too_long
        if self._loaded.entry(skill) is not EntryState.MISSING or names & self._loaded.names or after_search:
            return Sight.TOOL_SEARCH
        return Sight.FIND_SKILLS

    def _from_models(self, skill: Skill) -> Iterator[Obstacle]:
        if not skill.model_invocable:
            yield Obstacle.NOT_FOR_MODELS
            return
        entry = self._loaded.entry(skill)
        if entry is EntryState.CUT:
            yield Obstacle.CUT_ENTRY
        if entry is EntryState.MISSING:
            is_sent = self._sent.entry(skill) is not EntryState.MISSING
            yield Obstacle.LONG_ANSWER if is_sent and self._search.is_too_long else Obstacle.BEYOND_BUDGET
        elif entry is not self._at_once.entry(skill):
            yield Obstacle.DEFERRED
        if self._enum and skill.key not in self._enum:
            yield Obstacle.REFUSED_NAME if self._checks_enum else Obstacle.BEYOND_ENUM

    def _from_users(self, skill: Skill) -> Iterator[Obstacle]:
        if not skill.user_invocable:
            yield Obstacle.NOT_FOR_USERS
        elif self._prompt is False:
            yield Obstacle.NO_PROMPTS
