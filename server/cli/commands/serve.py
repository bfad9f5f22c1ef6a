"""The command `serve`: start an MCP server."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.commands.options import (
    ConventionFiles,
    Directories,
    FollowSymlinks,
    GitIgnored,
    McpServers,
    NoAdapt,
    RequireSandbox,
    RunTool,
    SkillTool,
    Strict,
    TrustWorkspace,
    Workspace,
)
from server.cli.console import EXIT_USAGE, fail
from server.config.bootstrap import open_library, settings_with_logs
from server.config.machine import Machine, current_places, state_home
from server.config.settings import LogLevel, OptionalTool, Transport
from server.transport.lazy_sdk import defer_packages
from skills_core.diagnostics import one_line
from skills_core.watch_options import WatchMode

if TYPE_CHECKING:
    from server.config.settings import Settings
    from skills_core.library import Library
    from skills_core.skill import Skill

__all__ = ["serve"]

ServedTransport = Annotated[
    Transport | None, typer.Option(help="The transport to clients.", show_default=Transport.STDIO)
]
Host = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="The address to listen on over HTTP.", show_default="127.0.0.1")
]
Port = Annotated[int | None, typer.Option(metavar="PORT", help="The HTTP port.", show_default="8000")]

AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-host",
        metavar="HOST",
        help="Accept HTTP requests with this Host header, besides loopback names; repeatable.",
    ),
]

Tools = Annotated[
    list[OptionalTool] | None,
    typer.Option(
        "--tool", metavar="TOOL", help=f"Offer an optional tool to clients: {', '.join(OptionalTool)}; repeatable."
    ),
]

Pinned = Annotated[
    list[str] | None, typer.Option("--pin", metavar="NAME", help="List this skill before others; repeatable.")
]

ServedModel = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="The model to run skills with: client (the client's own model), anthropic:NAME, openai:NAME, or "
        "http(s)://HOST/v1#NAME.",
    ),
]

Workflows = Annotated[
    list[str] | None,
    typer.Option(
        "--workflow",
        metavar="PATH",
        help="Let clients run the workflow in this file, or all workflows in this folder; repeatable.",
    ),
]

Watch = Annotated[
    WatchMode | None,
    typer.Option(
        help="How to detect changes: with file system events (native), by polling (poll), whichever works here "
        "(auto), or not at all (off).",
        show_default=WatchMode.AUTO,
    ),
]
WatchDebounce = Annotated[
    int | None,
    typer.Option(metavar="MS", help="Reload after this many milliseconds without a change.", show_default="250"),
]
Verbosity = Annotated[
    LogLevel | None, typer.Option(help="The lowest level of log messages on stderr.", show_default=LogLevel.INFO)
]


def serve(  # noqa: PLR0913 - one parameter for each flag
    directories: Directories = None,
    *,
    transport: ServedTransport = None,
    host: Host = None,
    port: Port = None,
    allowed_hosts: AllowedHosts = None,
    strict: Strict = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
    conventions: ConventionFiles = None,
    gitignore: GitIgnored = False,
    no_adapt: NoAdapt = False,
    tools: Tools = None,
    require_sandbox: RequireSandbox = False,
    model: ServedModel = None,
    workflows: Workflows = None,
    run_tools: RunTool = None,
    workspace: Workspace = None,
    mcp_servers: McpServers = None,
    skill_tools: SkillTool = None,
    pinned: Pinned = None,
    watch: Watch = None,
    watch_debounce_ms: WatchDebounce = None,
    log_level: Verbosity = None,
) -> None:
    """Serve folders of skills to MCP clients.

    The server watches the folders and notifies clients of changes.
    """
    flags = {name: flag for name, flag in locals().items() if name != "directories"}
    machine = Machine(current_places())
    settings = settings_with_logs(machine, **flags)
    _run(open_library(directories, settings, machine), settings, machine)


def _require_streams(settings: Settings) -> None:
    if settings.server.transport is Transport.STDIO and (sys.stdin is None or sys.stdout is None):
        fail("the stdio transport needs open stdin and stdout; to serve over HTTP, use --transport http", EXIT_USAGE)


def _run(library: Library, settings: Settings, machine: Machine) -> None:
    _require_streams(settings)
    defer_packages()
    from server.hosting.catalog_log import log_catalog
    from server.hosting.usage import Usage, usage_file
    from server.transport.serving import serve as run

    log_catalog(library.catalog)
    _log_unknown_names(library, settings)
    usage = Usage(usage_file(state_home()) if settings.catalog.usage else None)
    try:
        run(library, settings, machine.files, usage)
    except KeyboardInterrupt:
        return


def _log_unknown_names(library: Library, settings: Settings) -> None:
    """Log names of skills and clients in the settings that do not exist."""
    from server.clients import KNOWN_CLIENTS, UNKNOWN

    logger = logging.getLogger("server")
    for name in settings.catalog.pinned:
        if library.catalog.offer(name) is None:
            logger.warning("catalog.pinned: no skill %s is offered to models", one_line(name))
    names = {name for skill in library.catalog.skills for name in skill.content.names}
    for setting in ("enabled", "disabled"):
        for choice in getattr(settings.catalog, setting):
            if ":" not in choice and choice not in names:
                logger.warning("catalog.%s: there is no skill %s", setting, one_line(choice))
    tools = {f"{skill.key}/{tool}" for skill in library.catalog.skills for tool in _declared_tools(skill)}
    for entry in settings.tools.declared:
        if entry not in tools:
            logger.warning("tools.declared: no skill declares the tool %s", one_line(entry))
    known = [client.key for client in (*KNOWN_CLIENTS, UNKNOWN)]
    for key in settings.clients.budgets:
        if key not in known:
            logger.warning("clients.budgets: unknown client %s; expected one of %s", one_line(key), ", ".join(known))


def _declared_tools(skill: Skill) -> tuple[str, ...]:
    """Return the names of the tools that a skill declares, and `*` if there are any."""
    names = tuple(declaration.name for declaration in skill.frontmatter.tools)
    return ("*", *names) if names else ()
