"""Assemble the tools of one run: those of the workspace, the user, the skill and MCP servers that settings allow."""

from __future__ import annotations

import logging
import os
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from server.capabilities.runs.settings import RunSettings
from server.capabilities.scripts.declared_listing import allows, settings_name
from server.capabilities.scripts.settings import RUN_SKILL_SCRIPT
from server.config.files import ConfigurationError
from server.config.machine import private_folders, private_places
from server.listing.snapshot import allow_all
from skills_core.diagnostics import one_line
from skills_core.disk.sources import real_path
from skills_core.guard.allowed_tools import AllowedTools
from skills_core.runs.tools.own_tools import (
    activate_skill_tool,
    ask_user_tool,
    read_skill_file_tool,
    recipient_for,
    run_skill_script_tool,
)
from skills_core.runs.tools.workspace import workspace_tools
from skills_core.runs.tools.workspace.commands import sandboxed_runner
from skills_core.runs.tools.workspace_names import WorkspaceTool
from skills_core.scripts.declared_tools import declared_tools
from skills_core.scripts.environment import SCHEDULED_RUN
from skills_core.toolboxes import Capability

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping

    from server.config.settings.model import Settings
    from skills_core.format.frontmatter import ToolDeclaration
    from skills_core.guard.tool import Tool
    from skills_core.runs.run_skills import RunSkills
    from skills_core.scripts.runner import ScriptRunner

__all__ = ["Toolset", "check_tool_settings", "open_toolset", "workspace_root"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Toolset:
    """The tools of a run, and the secrets that the tools use."""

    tools: tuple[Tool, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@asynccontextmanager
async def open_toolset(
    settings: Settings,
    skills: RunSkills | None = None,
    runner: ScriptRunner | None = None,
    variables: Mapping[str, Mapping[str, str]] | None = None,
    host: Mapping[str, str] = os.environ,
    may_use: Callable[[str], bool] = allow_all,
) -> AsyncGenerator[Toolset]:
    """Yield the tools for a run with `skills`; connections to MCP servers stay open until the block ends.

    A run without `skills` has the tools that belong to none. `runner` runs scripts of the skills and the tools that the
    performed one declares; without it they are left out. `variables` are the user's environment variables for them, by
    the key of the skill. Commands get a part of the environment `host`. `may_use` tells which tools of skills there
    are, by the names of settings.

    Raises:
        ConfigurationError: a setting cannot be used.
    """
    runs = settings.section(RunSettings)
    root = await anyio.to_thread.run_sync(workspace_root, runs)
    permits = AllowedTools(None if skills is None else skills.performed.frontmatter.allowed_tools)
    problems = [*permits.notes]
    tools: list[Tool] = []
    if root is not None:
        tools += _workspace_tools(settings, root, runner, problems, host)
    tools.append(ask_user_tool())
    if skills is not None:
        _add_skill_tools(settings, skills, permits, runner, variables or {}, may_use, tools, problems)
    run_name = "a task" if skills is None else f"{one_line(skills.performed.key)} {skills.performed.digest}"
    starts_programs = any(tool.declared_name or Capability.RUN_COMMAND in tool.role.capabilities for tool in tools)
    if runner is not None and starts_programs and (warning := runner.setup.isolation.warning):
        logger.warning("tools of a run of %s: %s", run_name, warning)
    async with AsyncExitStack() as stack:
        secrets = {}
        if servers := runs.mcp_servers:
            secrets = await _connect_servers(servers, permits, stack, tools, problems, host)
        problems += [f"allowed-tools: {one_line(name)[:100]}: there is no such tool" for name in permits.absent(tools)]
        for problem in problems:
            logger.info("tools of a run of %s: %s", run_name, problem)
        yield Toolset(tuple(tools), secrets)


def _add_skill_tools(
    settings: Settings,
    skills: RunSkills,
    permits: AllowedTools,
    runner: ScriptRunner | None,
    variables: Mapping[str, Mapping[str, str]],
    may_use: Callable[[str], bool],
    tools: list[Tool],
    problems: list[str],
) -> None:
    """Add the tools that belong to the skills of a run."""
    skill = skills.performed
    tools.append(read_skill_file_tool(skills))
    if skills.offers:
        tools.append(activate_skill_tool(skills, lambda: recipient_for(filter(permits.offers, tools))))
    if runner is None:
        return
    runs_scripts = RUN_SKILL_SCRIPT in settings.tools.enabled and may_use(RUN_SKILL_SCRIPT)
    if not runner.setup.refuses and runs_scripts:
        tools.append(run_skill_script_tool(skills, runner, variables))

    def has(tool: ToolDeclaration) -> bool:
        return allows(settings.tools, skill, tool) and may_use(settings_name(skill, tool))

    declared = declared_tools(skill, runner, variables.get(skill.key), allows=has)
    tools += declared.tools
    problems += declared.problems


def check_tool_settings(settings: RunSettings) -> dict[str, str]:
    """Check the settings for tools, and return the secrets in them.

    Raises:
        ConfigurationError: a setting cannot be used.
    """
    from server.capabilities.runs.mcp_servers.config_file import file_secrets, read_servers

    workspace_root(settings)
    if settings.mcp_servers is None:
        return {}
    return file_secrets(read_servers(Path(settings.mcp_servers), os.environ))


def workspace_root(settings: RunSettings) -> Path | None:
    """Return the folder that confines the workspace tools, None if no workspace tool is allowed.

    Raises:
        ConfigurationError: no folder is named, or the path is not a folder.
    """
    if not settings.tools:
        return None
    if settings.workspace is None:
        names = ", ".join(settings.tools)
        raise ConfigurationError(f"runs.tools: {names}: name the folder that they may use with --workspace DIR")
    root = Path(settings.workspace).expanduser().resolve()
    if not root.is_dir():
        raise ConfigurationError(f"runs.workspace: {root}: expected a folder")
    _refuse_within(map(real_path, private_folders()), root)
    if settings.store is not None and _is_file_in(settings.store.get_secret_value(), root):
        message = "it contains the record of runs (runs.store), which runs must not change; keep that elsewhere"
        raise ConfigurationError(f"runs.workspace: {root}: {message}")
    return root


def _refuse_within(places: Iterable[Path], root: Path) -> None:
    for place in places:
        if root.is_relative_to(place):
            raise ConfigurationError(f"runs.workspace: {root}: runs must not change what is in {place}; name another")


def _is_file_in(store: str, root: Path) -> bool:
    return "://" not in store and Path(store).expanduser().resolve().is_relative_to(root)


def _workspace_tools(
    settings: Settings, root: Path, runner: ScriptRunner | None, problems: list[str], host: Mapping[str, str]
) -> tuple[Tool, ...]:
    allowed, private = list(settings.section(RunSettings).tools), private_places(settings)
    _refuse_within(private, root)
    if runner is None:
        return workspace_tools(root, allowed, host, private=private)
    if runner.setup.refuses and WorkspaceTool.RUN_COMMAND in allowed:
        allowed.remove(WorkspaceTool.RUN_COMMAND)
        problems.append(f"run_command is left out because a sandbox is required: {runner.setup.isolation.fault}")
    return workspace_tools(root, allowed, host, sandboxed_runner(runner.setup, root), private)


async def _connect_servers(
    file: str,
    permits: AllowedTools,
    stack: AsyncExitStack,
    tools: list[Tool],
    problems: list[str],
    host: Mapping[str, str],
) -> dict[str, str]:
    """Add the tools of the MCP servers that the skill may use; return the secrets in the servers' file."""
    from server.capabilities.runs.mcp_servers.config_file import file_secrets, read_servers
    from server.capabilities.runs.mcp_servers.connections import connect_servers, prefixes_of, sanitized

    specs = await anyio.to_thread.run_sync(read_servers, Path(file), os.environ)
    wanted = [
        spec
        for spec in specs
        if any(permits.may_name(prefix) for prefix in (*prefixes_of(spec.name), f"{sanitized(spec.name)}__"))
    ]
    # A skillserve among them makes no schedules for the run of a schedule.
    marks = {name: host[name] for name in (SCHEDULED_RUN,) if name in host}
    marked = [replace(spec, environment={**spec.environment, **marks}) for spec in wanted]
    connected = await stack.enter_async_context(connect_servers(marked))
    tools += connected.tools
    problems += connected.problems
    return file_secrets(specs)
