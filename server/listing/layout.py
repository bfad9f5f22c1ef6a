"""How the lists are laid out for a client: which texts carry the catalog, and how much of it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from skills_core.rendering.catalog import ACTIVATION_TOOL

__all__ = ["MAX_HINT", "MAX_INSTRUCTIONS", "MAX_TOPICS", "CatalogPlace", "ListingLayout", "NameEnum"]

MAX_INSTRUCTIONS = 2000
"""Longest instructions in characters for clients whose limit is not known: some cut them here."""

MAX_TOPICS = 1000
"""Longest list of topics in the description of `find_skills`, in characters."""


MAX_HINT = 4000
"""Longest words for a client's own search of tools: Claude Code reads 4,096."""


class CatalogPlace(StrEnum):
    """The text that carries the catalog."""

    DESCRIPTION = "description of activate_skill"
    INSTRUCTIONS = "instructions"
    BOTH = "both"
    """The description, and the instructions go on where it ends."""


class NameEnum(StrEnum):
    """When the schema of `activate_skill` lists the names of skills."""

    ALWAYS = "always"
    COMPLETE = "complete"
    """Only if it lists all names: the client refuses any other, but fetches a changed list."""

    NEVER = "never"
    """The client refuses any other name, and does not fetch a changed list."""


class ListingLayout(NamedTuple):
    """What one kind of client receives; lists are built once for each layout.

    - `catalog`: characters of the catalog's text; `place`: where it stands.
    - `instructions`: characters of the instructions, without a catalog that stands there alone.
    - `topics`: characters of the topics in the description of `find_skills`.
    - `schema`: bytes of a tool's input schema; None is unlimited. `enum`: when the schema lists names.
    - `structured`: results have `structuredContent` beside their text.
    - `deferred`: models have to search for tools first; `search_hint`: tools carry words for the client's search.
    - `activation_tool`: what models call our tool `activate_skill`.
    - `link_reader`: the client's tool for resources, if activations link the instructions; else None.
    """

    catalog: int
    place: CatalogPlace = CatalogPlace.DESCRIPTION
    instructions: int = MAX_INSTRUCTIONS
    topics: int = MAX_TOPICS
    schema: int | None = None
    enum: NameEnum = NameEnum.ALWAYS
    structured: bool = True
    deferred: bool = False
    search_hint: bool = False
    activation_tool: str = ACTIVATION_TOOL
    link_reader: str | None = None
