"""Predict what a client shows of the skills that this server serves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import unescape

from server.clients import layout_for
from server.listing.order import size_of
from server.listing.tools import ACTIVATE
from server.visibility.entry_state import EntryState, Obstacle
from skills_core.diagnostics import printable
from skills_core.rendering import listing_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server.clients import ClientProfile
    from server.listing.snapshot import Snapshot
    from skills_core.skill import Skill

__all__ = ["ServedSkill", "ServedSkills", "activation_tool", "entry_states", "instructions_for", "served_skills"]

_OPENING = re.compile(r'<skill name="([^"]*)">')
_CLOSING = "</skill>"
_QUOTED = {"&quot;": '"', "&#10;": "\n", "&#13;": "\r"}


@dataclass(frozen=True, slots=True)
class ServedSkill:
    """What a client shows of one active skill; `prompt` is None if it is unknown whether the client shows prompts."""

    skill: Skill
    entry: EntryState
    in_enum: bool
    prompt: bool | None
    obstacles: tuple[Obstacle, ...]


@dataclass(frozen=True, slots=True)
class ServedSkills:
    """What a client shows of all active skills, those for models first, in the catalog's order.

    `length` is the number of characters of the tool's description and `seen` of those that reach the model; `schema` is
    the size of the tool's input schema in bytes.
    """

    skills: tuple[ServedSkill, ...]
    budget: int
    length: int
    seen: int
    schema: int


def served_skills(snapshot: Snapshot, client: ClientProfile) -> ServedSkills:
    """Return what `client` shows of a snapshot: the tool as sent to it, after the client's cut."""
    layout = layout_for(client, snapshot.settings)
    tool = activation_tool(snapshot, client) or {}
    description, schema = tool.get("description", ""), tool.get("inputSchema", {})
    cut = client.description_budget or len(description)
    entries = entry_states(description, cut)
    names = frozenset(schema.get("properties", {}).get("name", {}).get("enum", ()))
    catalog = snapshot.catalog
    others = (skill for skill in catalog.active if not skill.model_invocable)
    offered = listing_order(catalog, snapshot.first)
    shown = tuple(_shown(skill, entries, names, client) for skill in (*offered, *others))
    return ServedSkills(shown, layout.catalog, len(description), min(cut, len(description)), size_of(schema))


def activation_tool(snapshot: Snapshot, client: ClientProfile) -> dict[str, Any] | None:
    """Return the tool whose description is the catalog, as it is sent to `client`; None if no skill is for models."""
    tools = snapshot.tools(layout_for(client, snapshot.settings))["tools"]
    return next((tool for tool in tools if tool["name"] == ACTIVATE), None)


def instructions_for(snapshot: Snapshot, client: ClientProfile) -> str | None:
    """Return the instructions as they are sent to `client`."""
    return snapshot.instructions(layout_for(client, snapshot.settings))


def entry_states(description: str, cut: int) -> dict[str, EntryState]:
    """Return the state of each entry in `description` once it is cut, by the skill's key as written there."""
    found: dict[str, EntryState] = {}
    for opening in _OPENING.finditer(description):
        if opening.start() >= cut:
            break
        end = description.find(_CLOSING, opening.end())
        whole = 0 <= end <= cut - len(_CLOSING)
        found[unescape(opening[1], _QUOTED)] = EntryState.WHOLE if whole else EntryState.CUT
    return found


def _shown(skill: Skill, entries: dict[str, EntryState], names: frozenset[str], client: ClientProfile) -> ServedSkill:
    entry = entries.get(printable(skill.key), EntryState.MISSING) if skill.model_invocable else EntryState.MISSING
    in_enum = skill.key in names
    prompt = client.prompts.value if client.prompts else None
    obstacles = (*_from_models(skill, entry, in_enum=in_enum), *_from_users(skill, prompt=prompt))
    return ServedSkill(skill, entry, in_enum, prompt if skill.user_invocable else False, obstacles)


def _from_models(skill: Skill, entry: EntryState, *, in_enum: bool) -> Iterator[Obstacle]:
    if not skill.model_invocable:
        yield Obstacle.NOT_FOR_MODELS
    else:
        if entry is EntryState.CUT:
            yield Obstacle.CUT_ENTRY
        if entry is EntryState.MISSING:
            yield Obstacle.BEYOND_BUDGET
        if not in_enum:
            yield Obstacle.BEYOND_ENUM


def _from_users(skill: Skill, *, prompt: bool | None) -> Iterator[Obstacle]:
    if not skill.user_invocable:
        yield Obstacle.NOT_FOR_USERS
    elif prompt is False:
        yield Obstacle.NO_PROMPTS
