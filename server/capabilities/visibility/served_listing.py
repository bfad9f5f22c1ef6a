"""Predict what a client shows of the skills that this server serves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING
from xml.sax.saxutils import unescape

from server.capabilities.visibility.visible_texts import names_in, visible_texts
from server.clients.layout import layout_for
from server.clients.profile import CHARACTERS_A_TOKEN, holds
from server.listing.catalog_texts import topic_of
from skills_core.diagnostics import printable
from skills_core.rendering.catalog import listing_order, utf16_length
from skills_core.rendering.escaping import escape_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server.capabilities.visibility.visible_texts import VisibleTexts
    from server.clients.profile import ClientProfile
    from server.listing.snapshot import Snapshot
    from skills_core.skills.skill import Skill

__all__ = [
    "EntryState",
    "Obstacle",
    "ServedSkill",
    "ServedSkills",
    "Sight",
    "entry_states",
    "served_skills",
    "tokens",
]


class EntryState(StrEnum):
    """How much of a skill the list for the model shows."""

    WHOLE = "whole"
    CUT = "cut"
    NAME = "name"
    MISSING = "missing"


class Sight(StrEnum):
    """What a model has to do before it sees that a skill exists."""

    DESCRIBED = "described"
    """Nothing: it sees the skill's entry from the start."""

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


_OPENING = re.compile(r'<skill name="([^"]*)">')
_CLOSING = "</skill>"
_QUOTED = {"&quot;": '"', "&#10;": "\n", "&#13;": "\r"}


@dataclass(frozen=True, slots=True)
class ServedSkill:
    """What a client shows of one active skill.

    `entry` is the best state of the skill's entries, once the tool is loaded. `sight` is None for a skill that is not
    for models, `prompt` if it is unknown whether the client shows prompts.
    """

    skill: Skill
    entry: EntryState
    sight: Sight | None
    in_enum: bool
    prompt: bool | None
    obstacles: tuple[Obstacle, ...]


@dataclass(frozen=True, slots=True)
class ServedSkills:
    """What a client shows of all active skills, those for models first, in the catalog's order.

    `budget` is that of the catalog in characters.
    """

    skills: tuple[ServedSkill, ...]
    budget: int
    texts: VisibleTexts

    @property
    def length(self) -> int:
        """The characters of the description of `activate_skill`."""
        return utf16_length(self.texts.description.text)

    @property
    def seen(self) -> int:
        """The characters of it that reach the model once the tool is loaded."""
        return utf16_length(self.texts.description.loaded)

    @property
    def schema(self) -> int:
        """The bytes of the tool's input schema."""
        return self.texts.schema


def served_skills(snapshot: Snapshot, client: ClientProfile) -> ServedSkills:
    """Return what `client` shows of a snapshot: the texts as sent to it, after the client's cuts."""
    texts = visible_texts(snapshot, client)
    view = _View(texts, client)
    catalog = snapshot.catalog
    others = (skill for skill in catalog.active if not skill.model_invocable)
    offered = listing_order(catalog, snapshot.first)
    shown = tuple(view.served(skill) for skill in (*offered, *others))
    return ServedSkills(shown, layout_for(client, snapshot.settings).catalog, texts)


def entry_states(text: str, cut: int) -> dict[str, EntryState]:
    """Return the state of each entry in `text` once it is cut, by the skill's key as written there."""
    found: dict[str, EntryState] = {}
    for opening in _OPENING.finditer(text):
        if opening.start() >= cut:
            break
        end = text.find(_CLOSING, opening.end())
        whole = 0 <= end <= cut - len(_CLOSING)
        found[unescape(opening[1], _QUOTED)] = EntryState.WHOLE if whole else EntryState.CUT
    return found


class _View:
    """The entries and names in all texts of one client: as sent, once the tool is loaded, and at once."""

    def __init__(self, texts: VisibleTexts, client: ClientProfile) -> None:
        self._search = texts.search
        self._enum = texts.enum
        self._checks_enum = holds(client.checks_enum)
        self._prompt = client.prompts.value if client.prompts else None
        self._sent: dict[str, EntryState] = {}
        self._loaded: dict[str, EntryState] = {}
        self._at_once: dict[str, EntryState] = {}
        self._names: set[str] = set()
        self._loaded_names: set[str] = set()
        for text in texts.all:
            _merge(self._sent, entry_states(text.text, len(text.text)))
            _merge(self._loaded, entry_states(text.text, len(text.loaded)))
            _merge(self._at_once, entry_states(text.text, len(text.at_once)))
            self._names |= names_in(text.text, text.at_once)
            self._loaded_names |= names_in(text.text, text.loaded)

    def served(self, skill: Skill) -> ServedSkill:
        obstacles = (*self._from_models(skill), *self._from_users(skill))
        prompt = self._prompt if skill.user_invocable else False
        in_enum = skill.key in self._enum
        if not skill.model_invocable:
            return ServedSkill(skill, EntryState.MISSING, None, in_enum, prompt, obstacles)
        return ServedSkill(skill, _state(skill, self._loaded), self._sight(skill), in_enum, prompt, obstacles)

    def _sight(self, skill: Skill) -> Sight:
        at_once = _state(skill, self._at_once)
        if at_once is EntryState.WHOLE:
            return Sight.DESCRIBED
        names = {escape_line(skill.key), topic_of(skill)}
        in_enum = skill.key in self._enum
        if at_once is EntryState.CUT or names & self._names or (in_enum and not self._search.deferred):
            return Sight.NAMED
        after_search = in_enum and not self._search.is_too_long
        if _state(skill, self._loaded) is not EntryState.MISSING or names & self._loaded_names or after_search:
            return Sight.TOOL_SEARCH
        return Sight.FIND_SKILLS

    def _from_models(self, skill: Skill) -> Iterator[Obstacle]:
        if not skill.model_invocable:
            yield Obstacle.NOT_FOR_MODELS
            return
        entry = _state(skill, self._loaded)
        if entry is EntryState.CUT:
            yield Obstacle.CUT_ENTRY
        if entry is EntryState.MISSING:
            is_sent = _state(skill, self._sent) is not EntryState.MISSING
            yield Obstacle.LONG_ANSWER if is_sent and self._search.is_too_long else Obstacle.BEYOND_BUDGET
        elif entry is not _state(skill, self._at_once):
            yield Obstacle.DEFERRED
        if self._enum and skill.key not in self._enum:
            yield Obstacle.REFUSED_NAME if self._checks_enum else Obstacle.BEYOND_ENUM

    def _from_users(self, skill: Skill) -> Iterator[Obstacle]:
        if not skill.user_invocable:
            yield Obstacle.NOT_FOR_USERS
        elif self._prompt is False:
            yield Obstacle.NO_PROMPTS


def _state(skill: Skill, entries: dict[str, EntryState]) -> EntryState:
    return entries.get(printable(skill.key), EntryState.MISSING)


def _merge(found: dict[str, EntryState], more: dict[str, EntryState]) -> None:
    """Add entries; a whole one counts more than a cut one."""
    for key, state in more.items():
        if found.get(key) is not EntryState.WHOLE:
            found[key] = state
