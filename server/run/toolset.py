"""The tools of one run, from everywhere that settings allow: the workspace, the user, the skill, other servers."""

from __future__ import annotations

import logging
import os
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from server.config.settings import ConfigurationError, OptionalTool
from server.listing.declared import allows
from skills_core.diagnostics import one_line
from skills_core.run.tools.ask_user import ask_user_tool
from skills_core.run.tools.declared import declared_tools
from skills_core.run.tools.sandboxed_commands import confined_commands
from skills_core.run.tools.skill_files import read_skill_file_tool
from skills_core.run.tools.skill_scripts import run_skill_script_tool
from skills_core.run.tools.workspace import workspace_tools
from skills_core.run.tools.workspace_names import WorkspaceTool
from skills_core.toolboxes import Capability

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from server.config.settings import Settings
    from skills_core.run.scripts.runner import ScriptRunner
    from skills_core.run.tools.allowed_tools import Permits
    from skills_core.run.tools.tool import Tool
    from skills_core.skill import Skill

__all__ = ["RunTools", "run_tools", "tool_secrets", "workspace_root"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunTools:
    """The tools of a run, what is not as skill or settings want it, and the secrets that its tools were given."""

    tools: tuple[Tool, ...] = ()
    problems: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@asynccontextmanager
async def run_tools(
    settings: Settings,
    skill: Skill,
    permits: Permits,
    runner: ScriptRunner | None = None,
    variables: Mapping[str, str] | None = None,
) -> AsyncGenerator[RunTools]:
    """Give the tools for a run of `skill`, as long as the block lasts; other servers live as long.

    `runner` carries out what the skill declares and settings switch on, None where there is no way to; `variables` are
    the user's for its scripts.

    Raises:
        ConfigurationError: a setting cannot be used.
    """
    root = await anyio.to_thread.run_sync(workspace_root, settings)
    problems = [*permits.notes]
    tools: list[Tool] = []
    if root is not None:
        tools += _of_workspace(settings, root, runner, problems)
    tools += [ask_user_tool(), read_skill_file_tool(skill)]
    if runner is not None and not runner.setup.refuses and OptionalTool.RUN_SKILL_SCRIPT in settings.tools:
        tools.append(run_skill_script_tool(skill, runner, variables or {}))
    if runner is not None:
        declared = declared_tools(skill, runner, variables, allows=lambda each: allows(settings, skill, each))
        tools += declared.tools
        problems += declared.problems
        starts_programs = declared.tools or any(Capability.RUN_COMMAND in tool.role.capabilities for tool in tools)
        if starts_programs and (warning := runner.setup.isolation.warning):
            logger.warning("tools of a run of %s %s: %s", one_line(skill.key), skill.digest, warning)
    async with AsyncExitStack() as stack:
        secrets = {}
        if settings.mcp_servers is not None:
            secrets = await _connect(settings.mcp_servers, permits, stack, tools, problems)
        problems += [f"allowed-tools: {one_line(name)[:100]}: there is no such tool" for name in permits.absent(tools)]
        for problem in problems:
            logger.info("tools of a run of %s %s: %s", one_line(skill.key), skill.digest, problem)
        yield RunTools(tuple(tools), tuple(problems), secrets)


def tool_secrets(settings: Settings) -> dict[str, str]:
    """See that what settings say of tools can be used, and return what must not be told of it.

    Raises:
        ConfigurationError: it cannot.
    """
    from server.run.mcp_servers.config_file import read_servers, secrets_of

    workspace_root(settings)
    if settings.mcp_servers is None:
        return {}
    return secrets_of(read_servers(Path(settings.mcp_servers), os.environ))


def workspace_root(settings: Settings) -> Path | None:
    """Return the folder that the tools of the workspace are bound to, None where none of them is allowed.

    Raises:
        ConfigurationError: no folder is named, or it is none.
    """
    if not settings.run_tools:
        return None
    if settings.workspace is None:
        named = ", ".join(settings.run_tools)
        raise ConfigurationError(f"run_tools: {named}: say which folder they may work in, with --workspace DIR")
    root = Path(settings.workspace).expanduser().resolve()
    if not root.is_dir():
        raise ConfigurationError(f"workspace: {root}: this is no folder")
    return root


def _of_workspace(settings: Settings, root: Path, runner: ScriptRunner | None, problems: list[str]) -> tuple[Tool, ...]:
    allowed = list(settings.run_tools)
    if runner is None:
        return workspace_tools(root, allowed, os.environ)
    if runner.setup.refuses and WorkspaceTool.RUN_COMMAND in allowed:
        allowed.remove(WorkspaceTool.RUN_COMMAND)
        problems.append(f"run_command is left out, as a sandbox is required: {runner.setup.isolation.fault}")
    return workspace_tools(root, allowed, os.environ, confined_commands(runner.setup, root))


async def _connect(
    file: str, permits: Permits, stack: AsyncExitStack, tools: list[Tool], problems: list[str]
) -> dict[str, str]:
    """Add the tools of those servers that the skill may use; return what must not be told of them."""
    from server.run.mcp_servers.config_file import read_servers, secrets_of
    from server.run.mcp_servers.connections import other_servers
    from server.run.mcp_servers.tool_names import plain

    specs = await anyio.to_thread.run_sync(read_servers, Path(file), os.environ)
    wanted = [
        spec
        for spec in specs
        if any(
            permits.may_name(each) for each in (f"mcp__{plain(spec.name)}__", f"{plain(spec.name)}__", f"{spec.name}/")
        )
    ]
    connected = await stack.enter_async_context(other_servers(wanted))
    tools += connected.tools
    problems += connected.problems
    return secrets_of(specs)
