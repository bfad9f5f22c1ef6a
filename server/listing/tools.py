"""The entries of `tools/list`, and which tools there are.

The tools for skills are listed first, while there are skills to use; their names never change. The tools that settings
switch on follow, then those that skills declare. The entry and the handler of a tool are in one module, which is
imported when the tool is first listed: a server pays only for the tools that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from server.capabilities import CAPABILITIES
from server.capability import ToolModule
from server.config.settings.tools import SKILL_CONTEXT
from server.listing.catalog_texts import CatalogTexts, topics_within
from server.listing.extensions import with_tool_meta
from server.listing.layout import MAX_HINT, ListingLayout
from server.listing.schemas import NEWS, with_nullable
from skills_core.rendering.catalog import ACTIVATION_TOOL, render_entry

if TYPE_CHECKING:
    from server.capability import ToolsOfSkills
    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog
    from skills_core.format.frontmatter import ToolDeclaration
    from skills_core.skills.skill import Skill

ACTIVATE = ACTIVATION_TOOL
READ = "read_skill_file"
FIND = "find_skills"

CORE_TOOLS = frozenset({ACTIVATE, READ, FIND})
"""The tools that every server has and every caller may use; their entries ask clients to pass results on uncut."""

MAX_RESULT = 500_000
"""Longest activation in characters that a client is asked to pass on uncut: the maximum that Claude Code allows."""

TOOL_MODULES: Final = (
    ToolModule("server.protocol.tools.activate_skill", (ACTIVATE,)),
    ToolModule("server.protocol.tools.read_skill_file", (READ,)),
    ToolModule("server.protocol.tools.find_skills", (FIND,)),
    ToolModule("server.protocol.tools.skill_context", (SKILL_CONTEXT,)),
    *(module for each in CAPABILITIES for module in each.tools),
)
"""The modules of the tools, in the order of the list."""


class ToolListing(NamedTuple):
    """What the entries of tools depend on.

    `first` are the skills that are offered in front of the others, `texts` are those that offer skills in the client's
    `layout`, and `hint` is for the client's own search. `faults` tells of folders that cannot be used.
    """

    catalog: Catalog
    settings: Settings
    layout: ListingLayout
    first: Sequence[Skill]
    texts: CatalogTexts
    hint: str
    faults: str = ""


class ListedTool(Protocol):
    """What the list needs of a tool's definition; `server.protocol.tool_call.Tool` has the rest."""

    @property
    def name(self) -> str:
        """The tool's name."""

    @property
    def entry(self) -> Callable[[ToolListing], dict[str, Any]]:
        """Return the entry in `tools/list`."""

    @property
    def is_offered(self) -> Callable[[Settings], bool]:
        """Tell whether a server has the tool if its settings switch it on."""

    @property
    def is_listed(self) -> Callable[[Catalog], bool]:
        """Tell whether the tool is listed with a catalog."""


def load_tools(settings: Settings) -> Iterator[ListedTool]:
    """Yield the definitions of the tools that a server with these settings has, except those that skills declare."""
    enabled = {*CORE_TOOLS, *settings.tools.enabled}
    for each in TOOL_MODULES:
        if not enabled.isdisjoint(each.names):
            tools: Sequence[ListedTool] = import_module(each.module).TOOLS
            yield from (tool for tool in tools if tool.name in enabled and tool.is_offered(settings))


@cache
def tools_of_skills() -> ToolsOfSkills | None:
    """Return what serves the tools that skills declare, None if no capability does."""
    return next((each.tools_of_skills() for each in CAPABILITIES if each.tools_of_skills is not None), None)


def entries(
    catalog: Catalog,
    settings: Settings,
    first: Sequence[Skill],
    layout: ListingLayout,
    texts: CatalogTexts,
    of_skills: Mapping[str, tuple[Skill, ToolDeclaration]],
    faults: str = "",
) -> list[dict[str, Any]]:
    """Return the entries of `tools/list` in a client's `layout`, with the skills that are `first` in front.

    `texts` are those that offer skills. `of_skills` are the tools that skills declare. `faults` tells of folders that
    cannot be used.
    """
    hint = topics_within(MAX_HINT, catalog.offered, first) if layout.search_hint else ""
    listing = ToolListing(catalog, settings, layout, first, texts, hint, faults)
    listed = [tool.entry(listing) for tool in load_tools(settings) if tool.is_listed(catalog)]
    tools = [entry if entry["name"] in CORE_TOOLS else _renamed(entry, layout) for entry in listed]
    if of_skills and (declared := tools_of_skills()) is not None:
        tools += declared.entries(of_skills)
    if layout.extensions:
        tools = [with_tool_meta(tool, layout.extensions) for tool in tools]
    tools = [{**tool, "inputSchema": with_nullable(tool["inputSchema"])} for tool in tools]
    return [_with_news(tool) if layout.structured else _without_structure(tool) for tool in tools]


def describe(skill: Skill) -> tuple[object, ...]:
    """Return everything about a skill that the list of tools may depend on."""
    scripts = [bool(tool.script and skill.content.file(tool.script)) for tool in skill.frontmatter.tools]
    own = (skill.frontmatter.tools, scripts)
    return skill.key, skill.model_invocable, skill.frontmatter.always_on, render_entry(skill), own


def metadata_for(layout: ListingLayout, hint: str = "") -> dict[str, Any]:
    """Return what asks a client to load a tool always, and to pass its results on uncut."""
    meta: dict[str, Any] = {"anthropic/alwaysLoad": True, "anthropic/maxResultSizeChars": MAX_RESULT}
    if layout.search_hint:
        # Found by where the user has switched off that tools are always loaded.
        meta["anthropic/searchHint"] = f"skills, {hint}" if hint else "skills"
    return meta


def _with_news(tool: dict[str, Any]) -> dict[str, Any]:
    if (schema := tool.get("outputSchema")) is None:
        return tool
    return {**tool, "outputSchema": {**schema, "properties": {**schema["properties"], "news": NEWS}}}


def _without_structure(tool: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in tool.items() if key != "outputSchema"}


def _renamed(tool: dict[str, Any], layout: ListingLayout) -> dict[str, Any]:
    """Return an entry whose description names our tool as the client calls it."""
    return {**tool, "description": tool["description"].replace(ACTIVATE, layout.activation_tool)}
