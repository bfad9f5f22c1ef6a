"""The command `serve`."""

from __future__ import annotations

import gc
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
from server.cli.console import WRONG_USE, fail
from server.config.bootstrap import open_library, settings_with_logs
from server.config.machine import Machine, current_places, state_home
from server.config.settings import LogLevel, OptionalTool, Transport
from server.transport.lazy_sdk import defer_packages
from skills_core.diagnostics import one_line
from skills_core.watching import WatchMode

if TYPE_CHECKING:
    from server.config.settings import Settings
    from skills_core.library import Library

__all__ = ["serve"]

AllowedHosts = Annotated[
    list[str] | None,
    typer.Option("--allowed-host", help="A Host header to accept over HTTP beside loopback; may be repeated."),
]

Tools = Annotated[list[OptionalTool] | None, typer.Option("--tool", help="Offer this tool too; may be repeated.")]

Pinned = Annotated[
    list[str] | None, typer.Option("--pin", metavar="NAME", help="Offer this skill before others; may be repeated.")
]

ServedModel = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="Perform skills by this model, or by that of the connected client: client."),
]

Workflows = Annotated[
    list[str] | None,
    typer.Option("--workflow", metavar="PATH", help="Let clients run it, or all in a folder."),
]


def serve(  # noqa: PLR0913 - one parameter for each flag
    directories: Directories = None,
    *,
    transport: Annotated[Transport | None, typer.Option(help="stdio by default.")] = None,
    host: Annotated[str | None, typer.Option(help="Address for HTTP; 127.0.0.1 by default.")] = None,
    port: Annotated[int | None, typer.Option(help="Port for HTTP; 8000 by default.")] = None,
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
    watch: Annotated[WatchMode | None, typer.Option(help="How changes are noticed; auto by default.")] = None,
    watch_debounce_ms: Annotated[int | None, typer.Option(help="Quiet time that ends a burst; 250.")] = None,
    log_level: Annotated[LogLevel | None, typer.Option(help="How much goes to stderr; info by default.")] = None,
) -> None:
    """Serve folders of skills to MCP clients, and follow every change in them."""
    flags = {name: flag for name, flag in locals().items() if name != "directories"}
    machine = Machine(current_places())
    settings = settings_with_logs(machine, **flags)
    _run(open_library(directories, settings, machine), settings, machine)


def _require_streams(settings: Settings) -> None:
    if settings.transport is Transport.STDIO and (sys.stdin is None or sys.stdout is None):
        fail("stdin or stdout is closed; a client speaks over both, or use --transport http", WRONG_USE)


def _run(library: Library, settings: Settings, machine: Machine) -> None:
    _require_streams(settings)
    defer_packages()
    from server.hosting.usage import Usage, usage_file
    from server.transport.serving import serve as run

    gc.freeze()
    gc.enable()
    _log_inactive(library)
    _log_unknown(library, settings)
    usage = Usage(usage_file(state_home()) if settings.usage else None)
    try:
        run(library, settings, machine.files, usage)
    except KeyboardInterrupt:
        return


def _log_unknown(library: Library, settings: Settings) -> None:
    """Tell of names in settings that name nothing."""
    from server.clients import KNOWN_CLIENTS, UNKNOWN

    logger = logging.getLogger("server")
    for name in settings.pinned:
        if library.catalog.offer(name) is None:
            logger.warning("pinned: no skill %s is offered to models now", one_line(name))
    known = [client.key for client in (*KNOWN_CLIENTS, UNKNOWN)]
    for key in settings.client_budgets:
        if key not in known:
            logger.warning("client_budgets: there is no client %s; known are %s", one_line(key), ", ".join(known))


def _log_inactive(library: Library) -> None:
    for skill in library.catalog.skills:
        if skill.reason is not None:
            why = one_line(f"{skill.key}: {skill.reason}: {skill.detail}")
            logging.getLogger("server").info("%s: %s", skill.state, why)
