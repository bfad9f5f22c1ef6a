"""Prompts that are not skills: which parts of the server add some, and how they join the list of skills' prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.capability import PromptSource

if TYPE_CHECKING:
    from server.hosting.host import Host
    from skills_core.catalog.catalog import Catalog


def sources_of_prompts(host: Host) -> list[PromptSource]:
    """Return the parts of a server that add prompts."""
    return [part for part in host.parts if isinstance(part, PromptSource) and part.offers_prompts]


def with_added_prompts(page: dict[str, Any], catalog: Catalog, host: Host) -> dict[str, Any]:
    """Return the first page of `prompts/list` with the added prompts at its end; this may read the disk.

    Many clients ask for one page only. A skill that has the name of such a prompt takes its place.
    """
    entries = [entry for source in sources_of_prompts(host) for entry in source.entries()]
    if not entries:
        return page
    return {**page, "prompts": [*page["prompts"], *(each for each in entries if catalog.get(each["name"]) is None)]}


def added_prompt_source(name: str, catalog: Catalog, host: Host) -> PromptSource | None:
    """Return the part that may have the prompt of a name, None if there is none or if a skill has the name."""
    sources = (source for source in sources_of_prompts(host) if source.may_have(name))
    return None if catalog.get(name) is not None else next(sources, None)
