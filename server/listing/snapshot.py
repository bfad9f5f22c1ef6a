"""The lists of one catalog, each built once.

A request is answered from one snapshot, so it never mixes two states of the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import islice
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

from server.listing import prompts, resources, tools
from server.listing.catalog_texts import NO_TEXTS, CatalogTexts, catalog_texts, faults_text
from server.listing.envelope import cacheable
from server.listing.layout import ListingLayout, first_of
from server.wire.kept_result import KeptResult
from skills_core.live.watch_options import WatchMode
from skills_core.rendering.catalog import listing_order
from skills_core.selection.twins import NO_TWINS

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from server.listing.resources import FolderChild
    from server.wire.paging import Pager
    from skills_core.catalog.catalog import Catalog
    from skills_core.format.frontmatter import ToolDeclaration
    from skills_core.live.library import Change
    from skills_core.selection.twins import Twins
    from skills_core.skills.skill import Skill, SkillFile

_MAX_DIRECTORIES = 1000
# Most folders whose pages are cached.

_MAX_ENTRIES = 1000
# Most skills whose entries are cached.

_MAX_CONTENTS = 200
_SHORT = 16_384
# Most files whose contents are cached as results, and the longest of them in bytes.


class Regrouped(NamedTuple):
    """What the lists become once other skills share an entry: the texts, and the tools before and after, by layout."""

    twins: Twins
    texts: dict[ListingLayout, CatalogTexts]
    tools: dict[ListingLayout, tuple[dict[str, Any], dict[str, Any]]]


def allow_all(_: str) -> bool:
    """Allow every tool."""
    return True


class Snapshot:
    """The lists of one catalog; each is built at its first use."""

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings,
        used: Mapping[str, int] | None = None,
        layouts: Iterable[ListingLayout] = (),
        *,
        shared: bool = True,
        allows: Callable[[str], bool] = allow_all,
        twins: Twins = NO_TWINS,
    ) -> None:
        """Build no list yet.

        `used` counts the uses of each skill by its key; `layouts` are those for which clients have listed the tools of
        an earlier catalog. `shared` tells whether all callers see the catalog, `allows` whether they may use a
        tool by its name. `twins` tells which skills are alike.
        """
        self.catalog = catalog
        self.settings = settings
        self.allows = allows
        self.twins = twins
        self._used = used or {}
        self._layouts = frozenset(layouts)
        self.envelope = cacheable(settings, shared=shared)
        if catalog.is_loading:
            self.envelope["ttlMs"] = 0
        self._texts: dict[ListingLayout, CatalogTexts] = {}
        self._tools: dict[ListingLayout, dict[str, Any]] = {}
        self._directories: dict[str, Pager[FolderChild]] = {}
        self._entries: dict[str, KeptResult] = {}
        self._contents: dict[tuple[str, str], KeptResult] = {}

    def apart(self) -> Snapshot:
        """Return the same lists for other purposes than answers to clients, which are told of changes of theirs."""
        return Snapshot(self.catalog, self.settings, self._used, allows=self.allows, twins=self.twins)

    @cached_property
    def first(self) -> tuple[Skill, ...]:
        """The skills that are offered to models first."""
        return first_of(self.catalog, self.settings.catalog.pinned, self._used)

    def tools(self, layout: ListingLayout) -> dict[str, Any]:
        """Return the result of `tools/list` for a client's layout."""
        if layout not in self._tools:
            texts = self.texts(layout)
            entries = tools.entries(self.catalog, self.settings, self.first, layout, texts, self.declared, self.faults)
            # The list depends on the layout for the client, so no cache may share it.
            self._tools[layout] = KeptResult({"tools": entries, **self.envelope, "cacheScope": "private"})
        return self._tools[layout]

    @property
    def default_layout(self) -> ListingLayout:
        """The layout for unknown clients."""
        return ListingLayout(self.settings.catalog.budget, structured=self.settings.clients.structured_results)

    @property
    def layouts(self) -> frozenset[ListingLayout]:
        """The layouts for which clients may have listed the tools: the default one, and those of earlier requests."""
        return frozenset({self.default_layout, *self._layouts, *self._tools})

    @property
    def built_layouts(self) -> frozenset[ListingLayout]:
        """The layouts for which the tools of this catalog have been listed."""
        return frozenset(self._tools)

    @cached_property
    def tool_schemas(self) -> dict[str, dict[str, Any]]:
        """The input schema of each tool by its name, in the default layout."""
        return {tool["name"]: tool["inputSchema"] for tool in self.tools(self.default_layout)["tools"]}

    @cached_property
    def declared(self) -> dict[str, tuple[Skill, ToolDeclaration]]:
        """The tools that skills declare and clients may call, by name."""
        declared = tools.tools_of_skills()
        return {} if declared is None else declared.served(self.catalog, self.settings, self.allows)

    def instructions(self, layout: ListingLayout) -> str | None:
        """Return the server's instructions for a client's layout, None if there is nothing to tell models."""
        offer = self.texts(layout).instructions
        return "\n\n".join(filter(None, (self.faults, offer))) or None

    @cached_property
    def faults(self) -> str:
        """What models tell their users of folders that cannot be used; empty if there are none."""
        return faults_text(self.catalog, is_watched=self.settings.watch.mode is not WatchMode.OFF)

    def texts(self, layout: ListingLayout) -> CatalogTexts:
        """Return what tells a model of skills, in a client's layout."""
        if not self.catalog.offered and not self.catalog.is_loading:
            return NO_TEXTS
        if layout not in self._texts:
            self._texts[layout] = catalog_texts(self.catalog, self.first, layout, self.settings.catalog, self.twins)
        return self._texts[layout]

    def keep_texts(self, before: Snapshot, change: Change) -> None:
        """Use the texts of the snapshot before a change of skills that these were not made of.

        Most edits of a large catalog are such ones, as its texts show few of its skills.
        """
        if change.added or change.removed or self.catalog.is_loading or self.twins is not before.twins:
            return
        if any(old.is_offered is not new.is_offered for old, new in change.updated):
            return
        # Another thread may make texts of the snapshot before.
        known = dict(before._texts)
        read = max((texts.read for texts in known.values()), default=0)
        now, was = (listing_order(each.catalog, each.first) for each in (self, before))
        if all(map(is_, islice(now, read), islice(was, read))):
            self._texts = known

    @property
    def hides_entries(self) -> bool:
        """Whether the catalog of a client had no room for all skills."""
        return any(texts.hidden for texts in self._texts.values())

    def regrouped(self, twins: Twins) -> Regrouped:
        """Return the texts of models and the tools as they are if other skills are alike; any thread may call it.

        Where all skills have an entry, they are the same, and not made again.
        """
        after = self.apart()
        after.twins, after.envelope = twins, self.envelope
        found = Regrouped(twins, {}, {})
        for layout in {*self._layouts, *self._tools, *self._texts}:
            if self.texts(layout).hidden:
                found.texts[layout] = after.texts(layout)
                if layout in self._tools or layout in self._layouts:
                    found.tools[layout] = self.tools(layout), after.tools(layout)
        return found

    def take_groups(self, found: Regrouped) -> bool:
        """Let skills share entries as `regrouped` has found; return whether a client may have another list of tools.

        What was made meanwhile is made again.
        """
        late = [layout for layout, texts in self._texts.items() if texts.hidden and layout not in found.texts]
        for layout in late:
            del self._texts[layout]
            self._tools.pop(layout, None)
        self.twins = found.twins
        self._texts |= found.texts
        self._tools |= {layout: after for layout, (_, after) in found.tools.items()}
        return bool(late) or any(before != after for before, after in found.tools.values())

    @cached_property
    def prompts(self) -> Pager[Skill | None]:
        """The pages of `prompts/list`."""
        return prompts.pager(self.catalog, self.settings, self.envelope)

    @cached_property
    def resources(self) -> Pager[resources.Listed]:
        """The pages of `resources/list`."""
        return resources.pager(self.catalog, self.settings, self.envelope)

    @cached_property
    def templates(self) -> dict[str, Any]:
        """The result of `resources/templates/list`."""
        return KeptResult({"resourceTemplates": resources.templates(self.catalog), **self.envelope})

    @cached_property
    def skills(self) -> Pager[Skill]:
        """The pages of `skills/list`."""
        return resources.skill_pager(self.catalog, self.envelope)

    def skill(self, skill: Skill) -> KeptResult:
        """Return the result of `skills/get` for a skill of the catalog."""
        found = self._entries.get(skill.path)
        if found is None:
            if len(self._entries) >= _MAX_ENTRIES:
                self._entries.clear()
            entry = {"skill": resources.skill_entry(skill), **self.envelope}
            found = self._entries[skill.path] = KeptResult(entry)
        return found

    def contents(self, uri: str, file: SkillFile, raw: bytes) -> KeptResult:
        """Return the result of reading a file with the verified bytes `raw`, which is served at `uri`."""
        key = (uri, file.digest)
        found = self._contents.get(key)
        if found is None:
            found = KeptResult({"contents": [resources.contents_of(uri, file, raw)], **self.envelope})
            if len(raw) <= _SHORT:
                if len(self._contents) >= _MAX_CONTENTS:
                    self._contents.clear()
                self._contents[key] = found
        return found

    def directory(self, uri: str) -> Pager[FolderChild] | None:
        """Return the pages of `resources/directory/read`, None if the URI does not name a folder."""
        pages = self._directories.get(uri) or resources.folder_pager(self.catalog, self.settings, uri)
        # A miss is not cached: a client could fill the memory with misses.
        if pages is not None and uri not in self._directories:
            if len(self._directories) >= _MAX_DIRECTORIES:
                self._directories.clear()
            self._directories[uri] = pages
        return pages
