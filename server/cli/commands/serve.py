"""The command `serve`: start an MCP server."""

from __future__ import annotations

from typing import Annotated

import typer

from server.cli.commands.options import (
    ConventionFiles,
    Directories,
    FollowSymlinks,
    GitIgnored,
    Improved,
    McpServers,
    NoAdapt,
    RequireSandbox,
    Reviewed,
    RunTool,
    SkillTool,
    Strict,
    TrustWorkspace,
    Workspace,
)
from server.cli.serve_options import ServeOptions
from server.cli.start_server import start_server
from server.config.settings.server import LogFormat, LogLevel, Transport
from server.config.settings.skills import SkillFolder
from server.config.settings.tools import OptionalTool
from skills_core.audit.findings import AuditMode
from skills_core.live.watch_options import WatchMode

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

Insecure = Annotated[bool, typer.Option("--insecure", help="Listen beyond this machine even if clients need no login.")]

Tools = Annotated[
    list[OptionalTool] | None,
    typer.Option(
        "--tool", metavar="TOOL", help=f"Offer an optional tool to clients: {', '.join(OptionalTool)}; repeatable."
    ),
]

Audit = Annotated[
    AuditMode | None,
    typer.Option(
        help="Audit skills when they are loaded: not at all (off), with findings as warnings (warn), or also excluding "
        "skills with an error (block).",
        show_default=AuditMode.OFF,
    ),
]
NamedFolder = Annotated[
    SkillFolder | None,
    typer.Option(
        "--skill-folder",
        help="Name the folders of skills on disk to clients over stdio: if they read there as far as is known (auto), "
        "always, or never.",
        show_default=SkillFolder.AUTO,
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

ServedEvals = Annotated[bool, typer.Option("--serve-evals", help="Let clients list and read the eval files of skills.")]

Recorded = Annotated[
    list[str] | None,
    typer.Option(
        "--history",
        metavar="SOURCE",
        help="Keep a history of this folder, or of all sources with this scope, such as explicit; repeatable.",
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
Format = Annotated[
    LogFormat | None, typer.Option(help="How log messages on stderr are written.", show_default=LogFormat.TEXT)
]


def serve(  # noqa: PLR0913 - one parameter for each flag
    directories: Directories = None,
    *,
    transport: ServedTransport = None,
    host: Host = None,
    port: Port = None,
    allowed_hosts: AllowedHosts = None,
    insecure: Insecure = False,
    strict: Strict = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
    conventions: ConventionFiles = None,
    gitignore: GitIgnored = False,
    audit: Audit = None,
    no_adapt: NoAdapt = False,
    skill_folder: NamedFolder = None,
    tools: Tools = None,
    require_sandbox: RequireSandbox = False,
    model: ServedModel = None,
    workflows: Workflows = None,
    run_tools: RunTool = None,
    workspace: Workspace = None,
    mcp_servers: McpServers = None,
    skill_tools: SkillTool = None,
    pinned: Pinned = None,
    serve_evals: ServedEvals = False,
    history: Recorded = None,
    improve: Improved = None,
    improve_review: Reviewed = False,
    watch: Watch = None,
    watch_debounce_ms: WatchDebounce = None,
    log_level: Verbosity = None,
    log_format: Format = None,
) -> None:
    """Serve folders of skills to MCP clients.

    The server watches the folders and notifies clients of changes.
    """
    # The parameters are the fields, as a test compares.
    options = locals()
    start_server(options.pop("directories"), ServeOptions(**options))
