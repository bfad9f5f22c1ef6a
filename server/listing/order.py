"""The order in which skills are offered to models, and what of them fits into a size."""

from __future__ import annotations

import json
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from server.listing.layout import NameEnum
from skills_core.rendering.catalog import listing_order, texts_within

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from server.listing.layout import ListingLayout
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill

__all__ = ["always_on", "enum_names", "first_of", "names_within", "size_of"]


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
