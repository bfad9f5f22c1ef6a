"""Log which skills have the same name, once for each group of skills.

Rule: agentskills.io asks for a warning when a skill is shadowed. The operator reads it, so that it names every place.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason, one_line
from skills_core.skill import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.catalog import Catalog
    from skills_core.skill import Skill

__all__ = ["log_collisions"]

logger = logging.getLogger(__name__)

_MAX_PLACES = 10
# The places that one warning names.


def log_collisions(catalog: Catalog, before: Catalog | None = None) -> None:
    """Warn of each group of skills with one name, unless `before` had the same group in the same states."""
    known = frozenset(_collisions(before)) if before is not None else frozenset[str]()
    for message in _collisions(catalog):
        if message not in known:
            logger.warning("%s", message)


def _collisions(catalog: Catalog) -> Iterator[str]:
    named: dict[str, list[Skill]] = defaultdict(list)
    for skill in catalog.skills:
        if _competes(skill):
            named[skill.name].append(skill)
    for name, group in named.items():
        if len(group) > 1:
            rest = len(group) - _MAX_PLACES
            places = [_described(skill) for skill in group[:_MAX_PLACES]] + ([f"{rest} more"] if rest > 0 else [])
            yield f"{len(group)} skills are named {one_line(name[:200])}: {', '.join(places)}"


def _competes(skill: Skill) -> bool:
    return skill.state is not State.INVALID and skill.reason is not Reason.UNTRUSTED


def _described(skill: Skill) -> str:
    place = one_line(str(skill.source.root / skill.content.place))
    return f"{place} (active as {one_line(skill.key)})" if skill.state is State.ACTIVE else f"{place} ({skill.state})"
