"""In which order skills are offered to models."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.catalog import Catalog
    from skills_core.skill import Skill

__all__ = ["always_on", "first_of"]


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
