"""What changed lately in the skills that a view offers to models, for clients that do not show a changed list.

A conversation keeps the number of the last change that it has heard of. The log has the earlier state of each entry
that changed, so that changes which cancel each other are no news.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from skills_core.rendering import render_entry

if TYPE_CHECKING:
    from collections.abc import Container

    from skills_core.catalog.catalog import Catalog
    from skills_core.live.library import Change
    from skills_core.skills.skill import Skill

__all__ = ["MAX_CHANGES", "OfferChanges", "OfferNews"]

MAX_CHANGES = 200
"""Most changes of single skills that a log remembers; with more of them, the news is that the list has changed."""


class OfferNews(NamedTuple):
    """How the offered skills differ from what they were: the skills that are new or changed, the keys of the others."""

    added: tuple[Skill, ...] = ()
    changed: tuple[Skill, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(self)


class _EntryBefore(NamedTuple):
    """The entry of a skill before a change, as a hash; None if the skill was not offered."""

    number: int
    key: str
    before: int | None


class OfferChanges:
    """The log of one view: bounded, and without any catalog or skill."""

    def __init__(self) -> None:
        """Begin empty."""
        self._entries: deque[_EntryBefore] = deque()
        self._forgotten = 0
        self.last = 0

    def record(self, change: Change) -> None:
        """Record how two successive catalogs of the view differ in the skills that they offer."""
        skills = [*change.added, *change.removed, *(skill for pair in change.updated for skill in pair)]
        keys = dict.fromkeys(skill.key for skill in skills if skill.is_offered)
        if not keys:
            return
        self.last += 1
        if len(keys) > MAX_CHANGES:
            # Rendering so many entries would hold up requests, and no text has room for them.
            self._entries.clear()
            self._forgotten = self.last
            return
        for key in keys:
            old = _hash_in(change.before, key)
            if old != _hash_in(change.after, key):
                self._entries.append(_EntryBefore(self.last, key, old))
        while len(self._entries) > MAX_CHANGES:
            self._forgotten = self._entries.popleft().number

    def since(self, number: int, catalog: Catalog, without: Container[str] = ()) -> OfferNews | None:
        """Return the news of `catalog`, the view's current one, after change `number`; None if there is too much.

        The news leave out the keys in `without`.
        """
        if number < self._forgotten:
            return None
        before: dict[str, int | None] = {}
        for entry in reversed(self._entries):
            if entry.number <= number:
                break
            before[entry.key] = entry.before
        added: list[Skill] = []
        changed: list[Skill] = []
        removed: list[str] = []
        for key in sorted(key for key in before if key not in without):
            skill = _offered(catalog, key)
            if skill is None:
                removed += [key] if before[key] is not None else []
            elif before[key] is None:
                added.append(skill)
            elif before[key] != hash(render_entry(skill)):
                changed.append(skill)
        return OfferNews(tuple(added), tuple(changed), tuple(removed))


def _offered(catalog: Catalog, key: str) -> Skill | None:
    skill = catalog.offer(key)
    # A key that is gone may find another skill, by its name.
    return skill if skill is not None and skill.key == key else None


def _hash_in(catalog: Catalog, key: str) -> int | None:
    skill = _offered(catalog, key)
    return hash(render_entry(skill)) if skill is not None else None
