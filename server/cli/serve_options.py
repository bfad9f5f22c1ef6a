"""The options of `serve`, and those of them that a plain command line may have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from server.config.plain_options import PlainOption, parse_plain_words
from server.config.settings.server import LogFormat, LogLevel, Transport
from server.config.settings.skills import Conventions, SkillFolder
from server.config.settings.tools import OptionalTool
from skills_core.audit.findings import AuditMode
from skills_core.live.watch_options import WatchMode
from skills_core.runs.tools import WorkspaceTool


class ServeOptions(Struct, frozen=True, kw_only=True):
    """The flags of a command line, named after the options of settings; those not given are None or False.

    `keep_alive` alone is not a setting: it has to be known before the settings are read.
    """

    transport: Transport | None = None
    keep_alive: bool = False
    host: str | None = None
    port: int | None = None
    allowed_hosts: list[str] | None = None
    insecure: bool = False
    strict: bool = False
    follow_symlinks: bool = False
    trust_workspace: bool = False
    conventions: Conventions | None = None
    gitignore: bool = False
    audit: AuditMode | None = None
    embeddings: bool = False
    no_adapt: bool = False
    skill_folder: SkillFolder | None = None
    bridge: list[str] | None = None
    server_name: str | None = None
    tools: list[OptionalTool] | None = None
    require_sandbox: bool = False
    model: str | None = None
    workflows: list[str] | None = None
    run_tools: list[WorkspaceTool] | None = None
    workspace: str | None = None
    mcp_servers: str | None = None
    skill_tools: list[str] | None = None
    pinned: list[str] | None = None
    serve_evals: bool = False
    history: list[str] | None = None
    improve: list[str] | None = None
    improve_review: bool = False
    improve_max_cost: float | None = None
    improve_max_requests: int | None = None
    improve_max_seconds: int | None = None
    watch: WatchMode | None = None
    watch_debounce_ms: int | None = None
    log_level: LogLevel | None = None
    log_format: LogFormat | None = None


PLAIN_OPTIONS: Final = {
    "--audit": PlainOption(AuditMode),
    "--bridge": PlainOption(str, "bridge"),
    "--conventions": PlainOption(Conventions),
    "--embeddings": PlainOption(),
    "--follow-symlinks": PlainOption(),
    "--gitignore": PlainOption(),
    "--keep-alive": PlainOption(),
    "--log-format": PlainOption(LogFormat),
    "--log-level": PlainOption(LogLevel),
    "--mcp-servers": PlainOption(str),
    "--model": PlainOption(str),
    "--no-adapt": PlainOption(),
    "--pin": PlainOption(str, "pinned"),
    "--require-sandbox": PlainOption(),
    "--serve-evals": PlainOption(),
    "--server-name": PlainOption(str),
    "--skill-folder": PlainOption(SkillFolder),
    "--skill-tool": PlainOption(str, "skill_tools"),
    "--strict": PlainOption(),
    "--tool": PlainOption(OptionalTool, "tools"),
    "--transport": PlainOption(Transport),
    "--trust-workspace": PlainOption(),
    "--watch": PlainOption(WatchMode),
    "--workflow": PlainOption(str, "workflows"),
    "--workspace": PlainOption(str),
}


def parse_plain_options(words: Sequence[str]) -> tuple[list[Path], ServeOptions] | None:
    """Return the directories and the options, None if the command-line library has to parse the words."""
    parsed = parse_plain_words(words, PLAIN_OPTIONS)
    return parsed and (parsed[0], ServeOptions(**parsed[1]))
