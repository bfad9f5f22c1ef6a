"""The rights of a schedule's runs: those that its creator had and chose, as far as settings still allow them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from server.capabilities.runs.settings import RunSettings
from server.capabilities.schedules.errors import ScheduleError
from server.capabilities.schedules.settings import ScheduleSettings
from server.config.settings.tools import OptionalTool
from skills_core.runs.models import parse_model
from skills_core.runs.tools import WorkspaceTool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog


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
    runs = settings.section(RunSettings)
    return Rights(
        run_tools=tuple(each.value for each in runs.tools),
        workspace=_absolute(runs.workspace),
        mcp_servers=_absolute(runs.mcp_servers),
        skill_tools=settings.tools.declared,
        scripts=OptionalTool.RUN_SKILL_SCRIPT in settings.tools.enabled,
        skills=None if seen is None else tuple(sorted({skill.key for skill in seen.active})),
    )


def limited_settings(settings: Settings, rights: Rights, model: str | None, *, is_confined: bool = True) -> Settings:
    """Return the settings of a run: what they allow now, no more than `rights`, and `model` if there is one.

    Where programs are not confined, the run starts none unless the settings say so: they could make schedules, and
    change the rights of this one.

    Raises:
        ScheduleError: `model` is at an address that the settings do not name.
    """
    if not (is_confined or settings.section(ScheduleSettings).unsandboxed):
        settings = _without_programs(settings)
    runs, enabled = settings.section(RunSettings), settings.tools.enabled
    same_folder = rights.workspace is not None and rights.workspace == _absolute(runs.workspace)
    same_servers = rights.mcp_servers is not None and rights.mcp_servers == _absolute(runs.mcp_servers)
    limited = structs.replace(
        runs,
        model=checked_model(model, runs.model),
        tools=tuple(each for each in runs.tools if same_folder and each.value in rights.run_tools),
        workspace=runs.workspace if same_folder else None,
        mcp_servers=runs.mcp_servers if same_servers else None,
    )
    if not rights.scripts:
        enabled = tuple(each for each in enabled if each is not OptionalTool.RUN_SKILL_SCRIPT)
    declared = tuple(dict.fromkeys(_common(settings.tools.declared, rights.skill_tools)))
    tools = structs.replace(settings.tools, enabled=enabled, declared=declared)
    return settings.with_sections(limited, tools)


def _without_programs(settings: Settings) -> Settings:
    """Return the settings without the tools by which a model starts programs."""
    enabled = tuple(each for each in settings.tools.enabled if each is not OptionalTool.RUN_SKILL_SCRIPT)
    runs = settings.section(RunSettings)
    run_tools = tuple(each for each in runs.tools if each is not WorkspaceTool.RUN_COMMAND)
    return settings.with_sections(
        structs.replace(runs, tools=run_tools),
        structs.replace(settings.tools, enabled=enabled, declared=()),
    )


def no_programs_reason(fault: str) -> str:
    """Return why the runs of schedules start no programs; `fault` is what the sandbox lacks."""
    return (
        f"no sandbox works here ({fault}), and without one a program has all rights of the user. "
        "schedules.unsandboxed = true allows it"
    )


def checked_model(model: str | None, own: str | None) -> str | None:
    """Return the model of a schedule, or that of the settings, `own`, if it has none.

    A schedule names no address of its own: the API key and the texts of the user go to those of the settings alone.

    Raises:
        ScheduleError: it does.
        ModelUnavailableError: a name is not that of a model.
    """
    if model is None:
        return own
    address = parse_model(model).address
    if address is not None and (own is None or parse_model(own).address != address):
        raise ScheduleError(
            f"The schedule names a model at {address}, an address that the settings of this process do not name. If it "
            f"is yours, name the model in them: `--model {model}`, SKILLSERVE_MODEL or runs.model."
        )
    return model


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
