"""In which order skills are offered to models, and how much room there is for them."""

from __future__ import annotations

import json
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from skills_core.rendering import texts_within

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skills_core.catalog import Catalog
    from skills_core.skill import Skill

__all__ = ["ListingBudget", "always_on", "first_of", "names_within", "size_of"]


class ListingBudget(NamedTuple):
    """How much a client shows: characters of the catalog, and bytes of a tool's input schema, None for any."""

    catalog: int
    schema: int | None = None


def first_of(catalog: Catalog, pinned: tuple[str, ...], used: Mapping[str, int]) -> tuple[Skill, ...]:
    """Return the skills that stand before those that come by name, each once.

    Those that are pinned are first, in the order in which they are named, then those that are always on, then those
    that were used, the most used first. It costs what it returns, whatever the size of the catalog.
    """
    by_use = sorted(used, key=lambda key: (-used[key], key))
    named = [skill for key in (*pinned, *by_use) if (skill := catalog.offer(key)) is not None]
    known = set(pinned)
    front = [skill for skill in named if skill.key in known]
    return tuple({skill.path: skill for skill in (*front, *always_on(catalog), *named)}.values())


def always_on(catalog: Catalog) -> tuple[Skill, ...]:
    """Return the offered skills that apply to every message."""
    return tuple(takewhile(lambda skill: skill.frontmatter.always_on, catalog.offered))


def names_within(room: int, names: Iterable[str]) -> list[str]:
    """Return as many of `names`, from the first on, as have room as members of a list in JSON, in bytes.

    One that is longer than all the room is passed over, for it must not hide the others.
    """
    return texts_within(room, names, lambda name: size_of(name) + 1)


def size_of(value: object) -> int:
    """Return how many bytes a value takes as JSON without blanks."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
