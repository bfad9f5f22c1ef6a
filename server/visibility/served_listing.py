"""What a client shows of the skills that this server offers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import unescape

from server.clients import budget_for
from server.listing.offer import size_of
from server.listing.tools import ACTIVATE
from server.visibility.entry_state import Entry, Obstacle
from skills_core.diagnostics import printable
from skills_core.rendering import listing_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server.clients import ClientProfile
    from server.listing.offer import ListingBudget
    from server.listing.snapshot import Snapshot
    from skills_core.skill import Skill

__all__ = ["Served", "Shown", "entries_in", "served"]

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
    the tool's input schema in bytes.
    """

    skills: tuple[Shown, ...]
    budget: int
    length: int
    seen: int
    schema: int


def served(snapshot: Snapshot, client: ClientProfile) -> Served:
    """Return what `client` shows of a catalog: the tool as it is sent to it, after the client's cut."""
    budget = budget_for(client, snapshot.settings)
    tool = _tool(snapshot, budget)
    description, schema = tool.get("description", ""), tool.get("inputSchema", {})
    cut = client.description_budget or len(description)
    entries = entries_in(description, cut)
    names = frozenset(schema.get("properties", {}).get("name", {}).get("enum", ()))
    catalog = snapshot.catalog
    others = (skill for skill in catalog.active if not skill.model_invocable)
    offered = listing_order(catalog, snapshot.first)
    shown = tuple(_shown(skill, entries, names, client) for skill in (*offered, *others))
    return Served(shown, budget.catalog, len(description), min(cut, len(description)), size_of(schema))


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


def _tool(snapshot: Snapshot, budget: ListingBudget) -> dict[str, Any]:
    """Return the tool whose description is the catalog, empty where there is none."""
    return next((tool for tool in snapshot.tools(budget)["tools"] if tool["name"] == ACTIVATE), {})


def _shown(skill: Skill, entries: dict[str, Entry], names: frozenset[str], client: ClientProfile) -> Shown:
    entry = entries.get(printable(skill.key), Entry.MISSING) if skill.model_invocable else Entry.MISSING
    in_enum = skill.key in names
    prompt = client.prompts.value if client.prompts else None
    obstacles = (*_from_models(skill, entry, in_enum=in_enum), *_from_users(skill, prompt=prompt))
    return Shown(skill, entry, in_enum, prompt if skill.user_invocable else False, obstacles)


def _from_models(skill: Skill, entry: Entry, *, in_enum: bool) -> Iterator[Obstacle]:
    if not skill.model_invocable:
        yield Obstacle.NOT_FOR_MODELS
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
