"""What a client shows of the skills that this server offers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import unescape

from server.listing.tools import ACTIVATE, list_result
from server.visibility.entries import Entry, Obstacle
from skills_core.diagnostics import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server.clients import ClientProfile
    from server.config import Settings
    from skills_core.catalog import Catalog
    from skills_core.skill import Skill

__all__ = ["Served", "Shown", "budget_for", "entries_in", "names_that_fit", "served"]

_OPENING = re.compile(r'<skill name="([^"]*)">')
_CLOSING = "</skill>"
_QUOTED = {"&quot;": '"', "&#10;": "\n", "&#13;": "\r"}


@dataclass(frozen=True, slots=True)
class Shown:
    """What a client shows of one active skill; `prompt` is None where it is not known whether it shows prompts."""

    skill: Skill
    entry: Entry
    in_enum: bool
    prompt: bool | None
    obstacles: tuple[Obstacle, ...]


@dataclass(frozen=True, slots=True)
class Served:
    """What a client shows of all active skills, those for models first and in their order.

    `length` are the characters of the tool's description, `seen` those that reach the model; `schema` is the size of
    the tool's input schema in bytes; where the client drops the tool for it, `names_that_fit` are the names that it
    might list.
    """

    skills: tuple[Shown, ...]
    budget: int
    length: int
    seen: int
    schema: int
    dropped: bool
    names_that_fit: int | None = None


def budget_for(client: ClientProfile, settings: Settings) -> int:
    """Return how long the catalog is that `client` is sent, in characters."""
    return min(settings.catalog_budget, client.description_budget or settings.catalog_budget)


def served(catalog: Catalog, settings: Settings, client: ClientProfile) -> Served:
    """Return what `client` shows of `catalog`: the tool as it is sent, after the client's cut."""
    budget = budget_for(client, settings)
    sent = settings.model_copy(update={"catalog_budget": budget})
    tool = _tool(catalog, sent)
    description, schema = tool.get("description", ""), tool.get("inputSchema", {})
    cut = client.description_budget or len(description)
    size = _size(schema)
    most = client.schema.value if client.schema else size
    dropped = size > most
    entries = {} if dropped else entries_in(description, cut)
    names = frozenset(schema.get("properties", {}).get("name", {}).get("enum", ()))
    others = (skill for skill in catalog.active if not skill.model_invocable)
    shown = [_shown(skill, entries, names, client, dropped=dropped) for skill in (*catalog.offered, *others)]
    seen = 0 if dropped else min(cut, len(description))
    fitting = names_that_fit(catalog, settings, most) if dropped else None
    return Served(tuple(shown), budget, len(description), seen, size, dropped, fitting)


def names_that_fit(catalog: Catalog, settings: Settings, most: int) -> int:
    """Return how many names the tool's schema may list so that it has at most `most` bytes."""
    names = [skill.key for skill in catalog.offered]
    bare = _size(_tool(catalog, settings.model_copy(update={"enum_limit": 0})).get("inputSchema", {}))
    used = accumulate(_size(name) + 1 for name in names)
    return sum(bare + size <= most for size in used)


def entries_in(description: str, cut: int) -> dict[str, Entry]:
    """Return what is left of each entry, by the skill's key as it stands there, once `description` is cut."""
    found: dict[str, Entry] = {}
    for opening in _OPENING.finditer(description):
        if opening.start() >= cut:
            break
        end = description.find(_CLOSING, opening.end())
        whole = 0 <= end <= cut - len(_CLOSING)
        found[unescape(opening[1], _QUOTED)] = Entry.WHOLE if whole else Entry.CUT
    return found


def _tool(catalog: Catalog, settings: Settings) -> dict[str, Any]:
    """Return the tool whose description is the catalog, empty where there is none."""
    return next((tool for tool in list_result(catalog, settings)["tools"] if tool["name"] == ACTIVATE), {})


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def _shown(
    skill: Skill, entries: dict[str, Entry], names: frozenset[str], client: ClientProfile, *, dropped: bool
) -> Shown:
    entry = entries.get(printable(skill.key), Entry.MISSING) if skill.model_invocable else Entry.MISSING
    in_enum = not dropped and skill.key in names
    prompt = client.prompts.value if client.prompts else None
    obstacles = (*_from_models(skill, entry, in_enum=in_enum, dropped=dropped), *_from_users(skill, prompt=prompt))
    return Shown(skill, entry, in_enum, prompt if skill.user_invocable else False, obstacles)


def _from_models(skill: Skill, entry: Entry, *, in_enum: bool, dropped: bool) -> Iterator[Obstacle]:
    if not skill.model_invocable:
        yield Obstacle.NOT_FOR_MODELS
    elif dropped:
        yield Obstacle.TOOL_DROPPED
    else:
        if entry is Entry.CUT:
            yield Obstacle.CUT_ENTRY
        if entry is Entry.MISSING:
            yield Obstacle.BEYOND_BUDGET
        if not in_enum:
            yield Obstacle.BEYOND_ENUM


def _from_users(skill: Skill, *, prompt: bool | None) -> Iterator[Obstacle]:
    if not skill.user_invocable:
        yield Obstacle.NOT_FOR_USERS
    elif prompt is False:
        yield Obstacle.NO_PROMPTS
