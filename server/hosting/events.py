"""Compare two snapshots: which lists and resources differ for clients, as events."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from server.listing import prompts, resources, tools
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp.server.subscriptions import ServerEvent

    from server.listing.snapshot import Snapshot
    from skills_core.live.library import Change
    from skills_core.skills.skill import Skill

__all__ = ["events_of"]


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
    # With thousands of skills, building a list of tools takes longer than everything else that an edit causes.
    if any(_differ(tools.describe, old, new) for old, new in pairs) and _tools_differ(before, after):
        yield ToolsListChanged()
    if _context_prompt_differs(before, after) or any(_differ(prompts.describe, old, new) for old, new in pairs):
        yield PromptsListChanged()
    describe_files = partial(resources.describe_all, settings=after.settings)
    if any(_differ(describe_files, old, new) for old, new in pairs):
        yield ResourcesListChanged()
    for uri in dict.fromkeys(uri for old, new in pairs for uri in _updated_uris(old, new)):
        yield ResourceUpdated(uri)


def _tools_differ(before: Snapshot, after: Snapshot) -> bool:
    return any(before.tools(layout) != after.tools(layout) for layout in before.layouts)


def _context_prompt_differs(before: Snapshot, after: Snapshot) -> bool:
    return prompts.offers_context(before.catalog) != prompts.offers_context(after.catalog)


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
    before, now = _digests(old), _digests(new)
    yield from (uri for uri in {**before, **now} if before.get(uri) != now.get(uri))


def _digests(skill: Skill | None) -> dict[str, str]:
    if skill is None:
        return {}
    return {skill.file_uri(path): file.digest for path, file in skill.content.files.items()}
