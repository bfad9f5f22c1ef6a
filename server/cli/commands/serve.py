"""The command `serve`: start an MCP server."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from server.cli.commands.options import (
    ConventionFiles,
    Directories,
    Embeddings,
    FollowSymlinks,
    GitIgnored,
    ImproveCost,
    Improved,
    ImproveRequests,
    ImproveSeconds,
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
from server.cli.help_pages import OptionGroup
from server.cli.serve_options import ServeOptions
from server.cli.start_server import start_server
from server.config.settings.server import LogFormat, LogLevel, Transport
from server.config.settings.skills import SkillFolder
from server.config.settings.tools import OptionalTool
from skills_core.audit.findings import AuditMode
from skills_core.live.watch_options import WatchMode

_HTTP: Final = "HTTP"
_CLIENTS: Final = "What clients get"
_LOGS: Final = "Log"
# Sections of the help; the options without one are those that most servers need.

ServedTransport = Annotated[
    Transport | None, typer.Option(help="The transport to clients.", show_default=Transport.STDIO)
]
KeepAlive = Annotated[
    bool,
    typer.Option(
        "--keep-alive",
        help="Over stdio, start the server again if it crashes or is killed, and go on with the session of the client.",
        rich_help_panel=_CLIENTS,
    ),
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
        rich_help_panel=_HTTP,
    ),
]

Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="Listen beyond this machine even if clients need no login.", rich_help_panel=_HTTP),
]

Tools = Annotated[
    list[OptionalTool] | None,
    typer.Option(
        "--tool",
        metavar="TOOL",
        help="Offer an optional tool to clients, such as run_skill; repeatable. For a wrong name, all are listed.",
    ),
]

Audit = Annotated[
    AuditMode | None,
    typer.Option(
        help="Audit skills when they are loaded: findings are warnings (warn), or errors exclude the skill (block).",
        show_default=AuditMode.OFF,
    ),
]
NamedFolder = Annotated[
    SkillFolder | None,
    typer.Option(
        "--skill-folder",
        help="Tell clients over stdio where skills are on disk: if they can read there (auto), always or never.",
        show_default=SkillFolder.AUTO,
        rich_help_panel=_CLIENTS,
    ),
]
BridgedClients = Annotated[
    list[str] | None,
    typer.Option(
        "--bridge",
        metavar="CLIENT",
        help="Keep stubs of the skills where this client looks for its own, such as codex; repeatable.",
        rich_help_panel=_CLIENTS,
    ),
]
ServerName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What clients call this server, where texts have to name it.",
        rich_help_panel=_CLIENTS,
    ),
]
Pinned = Annotated[
    list[str] | None, typer.Option("--pin", metavar="NAME", help="List this skill before others; repeatable.")
]

ServedModel = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="The model that runs skills: client (the client's own), anthropic:NAME, openai:NAME or "
        "http(s)://HOST/v1#NAME.",
    ),
]

Workflows = Annotated[
    list[str] | None,
    typer.Option(
        "--workflow",
        metavar="PATH",
        help="Let clients run the workflow in this file, or all workflows in this folder; repeatable.",
        rich_help_panel=OptionGroup.RUNS,
    ),
]

ServedEvals = Annotated[
    bool,
    typer.Option("--serve-evals", help="Let clients list and read the eval files of skills.", rich_help_panel=_CLIENTS),
]

Recorded = Annotated[
    list[str] | None,
    typer.Option(
        "--history",
        metavar="SOURCE",
        help="Keep a history of this folder, or of all with this scope, such as explicit; repeatable.",
    ),
]

Watch = Annotated[
    WatchMode | None,
    typer.Option(
        help="How changes on disk are noticed: by events (native), by polling, whichever works (auto), or not.",
        show_default=WatchMode.AUTO,
    ),
]
WatchDebounce = Annotated[
    int | None,
    typer.Option(
        metavar="MS",
        help="Reload after this many milliseconds without a change.",
        show_default="250",
        rich_help_panel=OptionGroup.CHANGES,
    ),
]
Verbosity = Annotated[
    LogLevel | None, typer.Option(help="The lowest level of log messages on stderr.", show_default=LogLevel.INFO)
]
Format = Annotated[
    LogFormat | None,
    typer.Option(help="How log messages on stderr are written.", show_default=LogFormat.TEXT, rich_help_panel=_LOGS),
]


def serve(  # noqa: PLR0913 - one parameter for each flag
    directories: Directories = None,
    *,
    transport: ServedTransport = None,
    keep_alive: KeepAlive = False,
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
    embeddings: Embeddings = False,
    no_adapt: NoAdapt = False,
    skill_folder: NamedFolder = None,
    bridge: BridgedClients = None,
    server_name: ServerName = None,
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
    improve_max_cost: ImproveCost = None,
    improve_max_requests: ImproveRequests = None,
    improve_max_seconds: ImproveSeconds = None,
    watch: Watch = None,
    watch_debounce_ms: WatchDebounce = None,
    log_level: Verbosity = None,
    log_format: Format = None,
) -> None:
    """Serve folders of skills to MCP clients.

    The server watches the folders and notifies clients of changes. Clients start it themselves and talk over stdio;
    with --transport http they connect to http://127.0.0.1:8000/mcp. `skillserve connect` adds it to a client.
    """
    # The parameters are the fields, as a test compares.
    options = locals()
    start_server(options.pop("directories"), ServeOptions(**options))
