"""What clients can list, derived once from one catalog and then only handed out.

A request takes the snapshot of the catalog it saw, so it never mixes two states.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from server.listing import prompts, resources, skills, tools

if TYPE_CHECKING:
    from server.config import Settings
    from server.listing.paging import Pager
    from server.listing.skills import Child
    from skills_core.catalog import Catalog
    from skills_core.skill import Skill

__all__ = ["Snapshot"]

_MAX_DIRECTORIES = 1000
# Folders whose pages are kept.


class Snapshot:
    """The lists of one catalog; each is built when it is first asked for."""

    def __init__(self, catalog: Catalog, settings: Settings) -> None:
        """Nothing is built yet."""
        self.catalog = catalog
        self.settings = settings
        self._directories: dict[str, Pager[Child]] = {}

    @cached_property
    def tools(self) -> dict[str, Any]:
        """The result of `tools/list`."""
        return tools.list_result(self.catalog, self.settings)

    @cached_property
    def tool_schemas(self) -> dict[str, dict[str, Any]]:
        """The input schema of each tool by its name."""
        return {tool["name"]: tool["inputSchema"] for tool in self.tools["tools"]}

    @cached_property
    def instructions(self) -> str | None:
        """The server's instructions, None where there is nothing to use."""
        return tools.instructions(self.catalog)

    @cached_property
    def prompts(self) -> Pager[Skill | None]:
        """The pages of `prompts/list`."""
        return prompts.pager(self.catalog, self.settings)

    @cached_property
    def resources(self) -> Pager[resources.Listed]:
        """The pages of `resources/list`."""
        return resources.pager(self.catalog, self.settings)

    @cached_property
    def skills(self) -> Pager[Skill]:
        """The pages of `skills/list`."""
        return skills.pager(self.catalog, self.settings)

    def directory(self, uri: str) -> Pager[Child] | None:
        """Return the pages of `resources/directory/read`, None where the URI names no folder."""
        pages = self._directories.get(uri) or skills.directory(self.catalog, self.settings, uri)
        # What names no folder is not kept: a client could fill the memory with it.
        if pages is not None and uri not in self._directories:
            if len(self._directories) >= _MAX_DIRECTORIES:
                self._directories.clear()
            self._directories[uri] = pages
        return pages
