"""The rights of a schedule's runs: those that its creator had and chose, as far as settings still allow them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from server.config.settings import OptionalTool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from server.config.settings import Settings
    from skills_core.catalog import Catalog

__all__ = ["Rights", "limited_settings", "rights_of", "visible_to"]


class Rights(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run may use besides the model: tools for a workspace, MCP servers, and programs of skills.

    `skills` are the keys of the skills that the creator saw, None if that were all.
    """

    run_tools: tuple[str, ...] = ()
    workspace: str | None = None
    mcp_servers: str | None = None
    skill_tools: tuple[str, ...] = ()
    scripts: bool = False
    skills: tuple[str, ...] | None = None


def rights_of(settings: Settings, seen: Catalog | None = None) -> Rights:
    """Return the rights that settings give; `seen` is what the creator sees if that is not everything."""
    runs = settings.runs
    return Rights(
        run_tools=tuple(each.value for each in runs.tools),
        workspace=_absolute(runs.workspace),
        mcp_servers=_absolute(runs.mcp_servers),
        skill_tools=settings.tools.declared,
        scripts=OptionalTool.RUN_SKILL_SCRIPT in settings.tools.enabled,
        skills=None if seen is None else tuple(sorted({skill.key for skill in seen.active})),
    )


def limited_settings(settings: Settings, rights: Rights, model: str | None) -> Settings:
    """Return the settings of a run: what they allow now, no more than `rights`, and `model` if there is one."""
    runs, enabled = settings.runs, settings.tools.enabled
    same_folder = rights.workspace is not None and rights.workspace == _absolute(runs.workspace)
    same_servers = rights.mcp_servers is not None and rights.mcp_servers == _absolute(runs.mcp_servers)
    limited = structs.replace(
        runs,
        model=model or runs.model,
        tools=tuple(each for each in runs.tools if same_folder and each.value in rights.run_tools),
        workspace=runs.workspace if same_folder else None,
        mcp_servers=runs.mcp_servers if same_servers else None,
    )
    if not rights.scripts:
        enabled = tuple(each for each in enabled if each is not OptionalTool.RUN_SKILL_SCRIPT)
    declared = tuple(dict.fromkeys(_common(settings.tools.declared, rights.skill_tools)))
    tools = structs.replace(settings.tools, enabled=enabled, declared=declared)
    return structs.replace(settings, runs=limited, tools=tools)


def visible_to(rights: Rights, catalog: Catalog) -> Catalog:
    """Return the part of the catalog that the creator of a schedule saw."""
    if rights.skills is None:
        return catalog
    seen = frozenset(rights.skills)
    return catalog.restricted(lambda skill: skill.key in seen)


def _common(ours: Iterable[str], theirs: tuple[str, ...]) -> Iterator[str]:
    """Yield what two lists of `SKILL/TOOL` and `SKILL/*` both allow."""
    for one in ours:
        skill, _, tool = one.rpartition("/")
        for other in theirs:
            other_skill, _, other_tool = other.rpartition("/")
            if skill == other_skill and "*" in {tool, other_tool}:
                yield other if tool == "*" else one
            elif one == other:
                yield one


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().resolve())
