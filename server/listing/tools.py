"""The entries of `tools/list`, and the server's instructions.

The tools for skills are listed first, while there are skills to use; their names never change. The tools that settings
switch on follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.listing import admin, context, declared, guard, history, runs, schedules
from server.listing.layout import MAX_HINT, ListingLayout
from server.listing.order import enum_names, names_within, size_of
from server.listing.schemas import MAX_TAGS, NEWS, SCORED, TEXT, TEXTS, hints, list_of, object_of
from server.listing.topics import TOPICS, shortened_topics, topics_within
from skills_core.rendering import ACTIVATION_TOOL, render_entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from server.config.settings import Settings
    from skills_core.catalog import Catalog
    from skills_core.format.frontmatter import ToolDeclaration
    from skills_core.run.scripts.runner import ScriptSetup
    from skills_core.skill import Skill

__all__ = [
    "ACTIVATE",
    "DEFAULT_MATCHES",
    "FIND",
    "MAX_MATCHES",
    "MAX_QUERY",
    "MAX_RESULT",
    "RAISED",
    "READ",
    "describe",
    "entries",
]

ACTIVATE = ACTIVATION_TOOL
READ = "read_skill_file"
FIND = "find_skills"

DEFAULT_MATCHES = 10
MAX_MATCHES = 100
MAX_QUERY = 2000

MAX_RESULT = 500_000
"""Longest activation in characters that a client is asked to pass on uncut: the maximum that Claude Code allows."""

RAISED = frozenset({ACTIVATE, READ, FIND})
"""The tools whose entries ask for this."""

_MATCH = object_of(name=TEXT, description=TEXT, **SCORED, uri=TEXT)
_MENU = {
    **object_of(names=TEXTS, hint=TEXT),
    "description": "Where the first matches lie close together: a choice to make, not a best one.",
}
_FOUND = {
    "type": "object",
    "properties": {
        "matches": list_of(_MATCH),
        "menu": _MENU,
        "note": {**TEXT, "description": "What to do where nothing matches."},
        "left_out": {**TEXT, "description": "How many more matches there are, if the result would be too long."},
    },
    "required": ["matches"],
}


def entries(
    catalog: Catalog,
    settings: Settings,
    first: Sequence[Skill],
    layout: ListingLayout,
    description: str,
    scripts: ScriptSetup | None,
    of_skills: Mapping[str, tuple[Skill, ToolDeclaration]],
) -> list[dict[str, Any]]:
    """Return the entries of `tools/list` in a client's `layout`, with the skills that are `first` in front.

    `description` is that of the tool that activates skills. The tools for skills are listed while there are skills to
    use them with, the one for scripts if there is a `scripts` setup. `of_skills` are the tools that skills declare.
    """
    skills = catalog.offered
    topics = topics_within(MAX_HINT if layout.search_hint else layout.topics, skills, first) if skills else ""
    tools = [_activate(catalog, settings, first, layout, description, topics)] if skills else []
    # A skill that only users may call also has files to read.
    tools += [_read_file(layout)] if catalog.active else []
    tools += [_find(layout, topics)] if skills else []
    tools += _script_tools(catalog, scripts)
    tools += [_renamed(tool, layout) for tool in _run_tools(settings)] if skills else []
    tools += [_renamed(tool, layout) for tool in context.tools(catalog, settings)]
    tools += [*guard.tools(settings), *admin.tools(settings), *history.tools(settings)]
    tools += schedules.tools(settings)
    tools += declared.tools(of_skills)
    return [_with_news(tool) if layout.structured else _without_structure(tool) for tool in tools]


def describe(skill: Skill) -> tuple[object, ...]:
    """Return everything about a skill that the list of tools may depend on."""
    scripts = [bool(tool.script and skill.content.file(tool.script)) for tool in skill.frontmatter.tools]
    own = (skill.frontmatter.tools, scripts)
    return skill.key, skill.model_invocable, skill.frontmatter.always_on, render_entry(skill), own


def _activate(
    catalog: Catalog,
    settings: Settings,
    first: Sequence[Skill],
    layout: ListingLayout,
    description: str,
    topics: str,
) -> dict[str, Any]:
    offered = len(catalog.offered)
    names = enum_names(catalog, first, layout, settings.catalog.enum_limit)
    schema = _activation_schema(names, offered)
    if layout.schema is not None and size_of(schema) > layout.schema:
        # A client that drops a tool with a large schema would lose the tool for skills.
        bare = size_of(_activation_schema([""], offered))
        schema = _activation_schema(names_within(layout.schema - bare, names), offered)
    return {
        "name": ACTIVATE,
        "title": "Activate a skill",
        "description": description,
        "inputSchema": schema,
        "annotations": hints("Activate a skill"),
        "_meta": _meta(layout, topics),
    }


def _meta(layout: ListingLayout, topics: str = "") -> dict[str, Any]:
    """Return what asks a client to load a tool always, and to pass its results on uncut."""
    meta: dict[str, Any] = {"anthropic/alwaysLoad": True, "anthropic/maxResultSizeChars": MAX_RESULT}
    if layout.search_hint:
        # Found by where the user has switched off that tools are always loaded.
        meta["anthropic/searchHint"] = f"skills, {topics}" if topics else "skills"
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


def _script_tools(catalog: Catalog, setup: ScriptSetup | None) -> list[dict[str, Any]]:
    if setup is None or not catalog.active:
        return []
    # The modules that run programs are imported only where programs are run.
    from server.listing.scripts import tool  # noqa: PLC0415

    return [tool(setup)]


def _run_tools(settings: Settings) -> list[dict[str, Any]]:
    if not runs.offers_runs(settings):
        return []
    # The entries of runs are imported only where there are runs.
    from server.listing.run_tools import tools  # noqa: PLC0415

    return tools(settings)


def _activation_schema(names: Sequence[str], offered: int) -> dict[str, Any]:
    name: dict[str, Any] = {"type": "string", "description": "The skill's name."}
    if names:
        # An empty enum would accept no name.
        name["enum"] = names
    if offered > len(names):
        name["description"] += (
            " Any other name that find_skills returns is accepted as well."
            if names
            else " Any name that the list of skills or find_skills gives is accepted."
        )
    properties = {
        "name": name,
        "arguments": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Values for the skill's {{parameters}}, by name.",
        },
        "message": {
            "type": "string",
            "description": "The user's own words, where they bind how the skill is carried out.",
        },
        "have": {
            "type": "string",
            "description": "The digest in the receipt of the text that you still have: answered by one line if the "
            "skill has not changed.",
        },
        "force": {"type": "boolean", "description": "Return the text even if it has not changed."},
    }
    return {"type": "object", "properties": properties, "required": ["name"], "additionalProperties": False}


def _read_file(layout: ListingLayout) -> dict[str, Any]:
    return {
        "name": READ,
        "title": "Read a file of a skill",
        "description": "Read one file of a skill: a script, reference or asset that its instructions name. "
        "An answer that ends before the file does says where to read on.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "skill": {"type": "string", "description": "The skill's name."},
                "path": {"type": "string", "description": "The file's path, relative to the skill root."},
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "To read a part of a text file: its first character, counted from 0.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Most characters of the part; as many as fit if not given.",
                },
            },
            "required": ["skill", "path"],
            "additionalProperties": False,
        },
        "annotations": hints("Read a file of a skill"),
        "_meta": _meta(layout),
    }


def _find(layout: ListingLayout, topics: str) -> dict[str, Any]:
    description = (
        "Search all skills by what they do. Word the query as task, technology, file format and synonyms, "
        "and try again in other words if nothing fits or the matches are marked weak. "
        f"Then call {layout.activation_tool} with a name from the result."
    )
    if topics:
        description += f" {TOPICS}: {shortened_topics(topics, layout.topics)}."
    return {
        "name": FIND,
        "title": "Find skills",
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "maxLength": MAX_QUERY, "description": "What the skill should do."},
                "tags": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": MAX_TAGS,
                    "description": "Only skills with such a tag.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_MATCHES,
                    "description": f"Most results; {DEFAULT_MATCHES} if not given.",
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        "outputSchema": _FOUND,
        "annotations": hints("Find skills"),
        "_meta": _meta(layout, topics),
    }
