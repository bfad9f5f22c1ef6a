"""How the lists are laid out for a client, the order in which skills are offered, and what of them fits into a size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from skills_core.rendering.catalog import ACTIVATION_TOOL, listing_order, texts_within

if TYPE_CHECKING:
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill


MAX_INSTRUCTIONS = 2000
"""Longest instructions in characters for clients whose limit is not known: some cut them here."""

MAX_TOPICS = 1000
"""Longest list of topics in the description of `find_skills`, in characters."""


MAX_HINT = 4000
"""Longest words for a client's own search of tools: Claude Code reads 4,096."""


MAX_NEWS = 2000
"""Most characters of all news in one result. An activation that is cut to a client's limit leaves room for them."""


class CatalogPlace(StrEnum):
    """The text that carries the catalog."""

    DESCRIPTION = "description of activate_skill"
    INSTRUCTIONS = "instructions"
    EVERYWHERE = "everywhere"
    """The description; the instructions go on where it ends, and the description of find_skills where they end."""

    CLIENT = "the client's own list"
    """None: stubs in a folder of the client make it list the skills itself."""


class NameEnum(StrEnum):
    """When the schema of `activate_skill` lists the names of skills."""

    ALWAYS = "always"
    COMPLETE = "complete"
    """Only if it lists all names: the client refuses any other, but fetches a changed list."""

    NEVER = "never"
    """The client refuses any other name, and does not fetch a changed list; or no model sees the names."""


class ListingLayout(NamedTuple):
    """What one kind of client receives; lists are built once for each layout.

    - `catalog`: characters of the catalog's text; `place`: where it stands.
    - `instructions`: characters of the instructions, without a catalog that stands there alone.
    - `topics`: characters of the topics in the description of `find_skills`.
    - `description`: characters of any tool's description; None is unlimited, or not known.
    - `schema`: bytes of a tool's input schema; None is unlimited. `enum`: when the schema lists names.
    - `structured`: results have `structuredContent` beside their text.
    - `deferred`: models have to search for tools first; `in_sight`: they are known to see the tools from the start.
    - `search_hint`: tools carry words for the client's search.
    - `activation_tool`: what models call our tool `activate_skill`.
    - `link_reader`: the client's tool for resources, if activations link the instructions; else None.
    - `extensions`: the extensions of the protocol that the client takes part in.
    """

    catalog: int
    place: CatalogPlace = CatalogPlace.DESCRIPTION
    instructions: int = MAX_INSTRUCTIONS
    topics: int = MAX_TOPICS
    description: int | None = None
    schema: int | None = None
    enum: NameEnum = NameEnum.ALWAYS
    structured: bool = False
    deferred: bool = False
    in_sight: bool = False
    search_hint: bool = False
    activation_tool: str = ACTIVATION_TOOL
    link_reader: str | None = None
    extensions: frozenset[str] = frozenset()


def first_of(catalog: Catalog, pinned: tuple[str, ...], used: Mapping[str, int]) -> tuple[Skill, ...]:
    """Return the skills that precede the alphabetical rest of the list, each once.

    Pinned skills come first, in the order of the setting, then those that are always on, then those that were used,
    most used first. The cost depends on the number of returned skills, not on the size of the catalog.
    """
    by_use = sorted(used, key=lambda key: (-used[key], key))
    first = [skill for name in pinned if (skill := catalog.offer(name)) is not None]
    often = [skill for key in by_use if (skill := catalog.offer(key)) is not None]
    return tuple({skill.path: skill for skill in (*first, *always_on(catalog), *often)}.values())


def always_on(catalog: Catalog) -> tuple[Skill, ...]:
    """Return the offered skills that apply to every message."""
    return tuple(takewhile(lambda skill: skill.frontmatter.always_on, catalog.offered))


def enum_names(catalog: Catalog, first: Sequence[Skill], layout: ListingLayout, most: int) -> list[str]:
    """Return the names that the schema of `activate_skill` lists, at most `most`.

    There are none if the client would refuse the names that the schema does not list.
    """
    is_complete = len(catalog.offered) <= most
    if layout.enum is NameEnum.NEVER or (layout.enum is NameEnum.COMPLETE and not is_complete):
        return []
    return [skill.key for skill in islice(listing_order(catalog, first), most)]


def names_within(room: int, names: Iterable[str]) -> list[str]:
    """Return the first names that fit into a JSON array of `room` bytes.

    A name that would not fit by itself is skipped, so that it does not hide the others.
    """
    return texts_within(room, names, lambda name: size_of(name) + 1)


def size_of(value: object) -> int:
    """Return the size of a value as compact JSON, in bytes."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
