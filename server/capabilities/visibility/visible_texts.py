"""Compute what a client's model sees of the texts that it receives: at once, and after the client's own tool search."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from server.clients.layout import layout_for
from server.listing.catalog_texts import ALL_NAMES, NAME_LISTS
from server.listing.layout import size_of
from server.listing.tools import ACTIVATE, FIND, READ
from skills_core.rendering.catalog import utf16_length

if TYPE_CHECKING:
    from server.clients.profile import ClientProfile
    from server.listing.snapshot import Snapshot

__all__ = [
    "ToolSearch",
    "VisibleText",
    "VisibleTexts",
    "activation_tool",
    "instructions_for",
    "names_in",
    "visible_texts",
]

_LIST_OF_NAMES = re.compile(rf"(?:{ALL_NAMES.pattern}|{'|'.join(map(re.escape, NAME_LISTS))}) ([^\n;]*)")
_ENTRY = "<skill "


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
    tools = {tool["name"]: tool for tool in _tools(snapshot, client)}
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


def activation_tool(snapshot: Snapshot, client: ClientProfile) -> dict[str, Any] | None:
    """Return the tool `activate_skill` as it is sent to `client`; None if no skill is for models."""
    return next((tool for tool in _tools(snapshot, client) if tool["name"] == ACTIVATE), None)


def instructions_for(snapshot: Snapshot, client: ClientProfile) -> str | None:
    """Return the instructions as they are sent to `client`."""
    return snapshot.instructions(layout_for(client, snapshot.settings))


def names_in(text: str, seen: str) -> frozenset[str]:
    """Return the names and topics that lists outside of entries give in the beginning of `text` that is `seen`."""
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


def _tools(snapshot: Snapshot, client: ClientProfile) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = snapshot.tools(layout_for(client, snapshot.settings))["tools"]
    return tools


def _tool_search(tools: list[dict[str, Any]], client: ClientProfile) -> ToolSearch:
    answer = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in tools]
    leaves = client.deferred.characters if client.deferred else None
    limit = client.search_answer.characters if client.search_answer else None
    return ToolSearch(client.defers, leaves, utf16_length(json.dumps(answer, ensure_ascii=False)), limit)


def _description(text: str, client: ClientProfile, search: ToolSearch) -> VisibleText:
    """Return what is visible of a description; where that of a deferred tool is not known, nothing is assumed to be."""
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
