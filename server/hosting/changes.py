"""How two catalogs of a view differ: as events for clients, and as news of the offered skills for models."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from server.listing import prompts, resources, tools
from skills_core.rendering.catalog import render_entry
from skills_core.skills.skill import Skill, State

if TYPE_CHECKING:
    from mcp.server.subscriptions import ServerEvent

    from server.listing.snapshot import Snapshot
    from skills_core.catalog.catalog import Catalog
    from skills_core.live.library import Change


def events_of(before: Snapshot, after: Snapshot, change: Change) -> Iterator[ServerEvent]:
    """Yield the events of `change`: that of a list only if the list differs for some client.

    What capabilities add may differ although no skill has changed.
    """
    from mcp.server.subscriptions import ResourceUpdated  # noqa: PLC0415 - views are made before the SDK is loaded

    if change:
        yield from _events_of_skills(before, after, change)
    for each in resources.extra_resources(after.settings):
        if each.differs(change):
            yield ResourceUpdated(each.uri)


def _events_of_skills(before: Snapshot, after: Snapshot, change: Change) -> Iterator[ServerEvent]:
    # Views are made before the SDK is loaded.
    from mcp.server.subscriptions import (  # noqa: PLC0415
        PromptsListChanged,
        ResourcesListChanged,
        ResourceUpdated,
        ToolsListChanged,
    )

    pairs = _active_pairs(change)
    if any(_differ(tools.describe, old, new) for old, new in pairs) and _tools_differ(before, after):
        yield ToolsListChanged()
    offers_other_context = prompts.offers_context(before.catalog) != prompts.offers_context(after.catalog)
    if offers_other_context or any(_differ(prompts.describe, old, new) for old, new in pairs):
        yield PromptsListChanged()
    describe_files = partial(resources.describe_all, settings=after.settings)
    if any(_differ(describe_files, old, new) for old, new in pairs):
        yield ResourcesListChanged()
    for uri in dict.fromkeys(uri for old, new in pairs for uri in _updated_uris(old, new)):
        yield ResourceUpdated(uri)


def _tools_differ(before: Snapshot, after: Snapshot) -> bool:
    """Tell whether the list of tools differs for some client, after a change of what it may depend on."""
    # With thousands of skills, building a list takes longer than everything else that a change causes. The one for
    # unknown clients has an entry for each offered skill, or counts those that have none.
    if len(before.catalog.offered) != len(after.catalog.offered):
        return True
    return any(before.tools(layout) != after.tools(layout) for layout in before.layouts)


def _pairs(change: Change) -> list[tuple[Skill | None, Skill | None]]:
    """Return each changed skill before and after the change; None if it did not exist."""
    return [*((None, skill) for skill in change.added), *((skill, None) for skill in change.removed), *change.updated]


def _active_pairs(change: Change) -> list[tuple[Skill | None, Skill | None]]:
    """Return each changed skill before and after the change; None if it was not served."""
    seen = [(_if_active(old), _if_active(new)) for old, new in _pairs(change)]
    return [pair for pair in seen if pair != (None, None)]


def _if_active(skill: Skill | None) -> Skill | None:
    return skill if skill is not None and skill.state is State.ACTIVE else None


def _differ(describe: Any, old: Skill | None, new: Skill | None) -> bool:  # noqa: ANN401 - any description compares
    return (describe(old) if old else None) != (describe(new) if new else None)


def _updated_uris(old: Skill | None, new: Skill | None) -> Iterator[str]:
    """Yield the URIs of files that were added, removed or changed."""
    if old is not None and new is not None and old.path == new.path:
        yield from map(new.file_uri, old.content.files.differing(new.content.files))
    else:
        # A load adds thousands of skills.
        yield from (skill.file_uri(path) for skill in (old, new) if skill is not None for path in skill.content.files)


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
        self._entries: deque[_EntryBefore] = deque()
        self._forgotten = 0
        self.last = 0

    def record(self, change: Change) -> None:
        """Record how two successive catalogs of the view differ in the skills that they offer."""
        skills = chain(change.added, change.removed, chain.from_iterable(change.updated))
        keys: dict[str, None] = {}
        for skill in skills:
            if skill.is_offered:
                keys[skill.key] = None
            if len(keys) > MAX_CHANGES:
                break
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

        The news leaves out the keys in `without`.
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
