"""Settings: one frozen model, built once from flags, environment, `skillserve.toml` and defaults.

The first that says something wins, in that order. Everything below receives values, nothing else in the product reads
the environment for settings.

The `skillserve.toml` in the working directory may have come with a repository. It is not one of these layers: what it
may say of the project's own skills, once the project is trusted, is all in `ProjectSettings`; see `project_file`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct, field
from msgspec.structs import astuple

from server.config.files import ConfigurationError, own_file, read_settings_file
from server.config.script_checks import check_index, check_names, check_workspace
from server.config.values import InvalidValueError, SecretStr, read
from skills_core.catalog import MAX_ENTRY
from skills_core.locations import USUAL_BOUNDS
from skills_core.patterns import pattern_fault
from skills_core.run.tools.workspace_names import WorkspaceTool
from skills_core.sources import Scope, Strictness
from skills_core.watching import WatchMode, WatchOptions

if TYPE_CHECKING:
    from pathlib import Path

    from server.config.jdai import JdaiSettings

__all__ = [
    "ENV_PREFIX",
    "ConfigurationError",
    "Conventions",
    "LogLevel",
    "OptionalTool",
    "ProjectSettings",
    "ProjectSource",
    "Settings",
    "SourceSettings",
    "Transport",
    "in_environment",
    "load_settings",
]

ENV_PREFIX = "SKILLSERVE_"

_TABLES = frozenset({"client_budgets", "confirm_patterns", "danger_patterns", "project", "sources", "tool_names"})
# Settings that files alone can express.

_TOOL_NAME = re.compile(r"[A-Za-z0-9_./:#@-]{1,64}")
_CLIENT_NAME = re.compile(r"[^<>\x00-\x1f\x7f]{1,64}")
# What can stand in a text for a model without saying anything of its own.

_MAX_TOOL_NAMES = 200
# Most clients, and most names for one of them.

_TOKEN = re.compile(r"[\x21-\x7e]{16,1024}")
# What can stand in a header, and cannot be guessed.

_TRUTH = {
    **dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}
# What variables say of switches.

NonEmpty = Annotated[str, Meta(min_length=1)]
PositiveInt = Annotated[int, Meta(ge=1)]
Depth = Annotated[int, Meta(ge=0, le=100)]
Folders = Annotated[int, Meta(ge=1, le=1_000_000)]


class Transport(StrEnum):
    """How clients reach the server."""

    STDIO = "stdio"
    HTTP = "http"


class LogLevel(StrEnum):
    """How much goes to stderr."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class OptionalTool(StrEnum):
    """Tools that are offered only where settings name them."""

    SKILLS_STATUS = "skills_status"
    RELOAD_SKILLS = "reload_skills"
    SKILL_CONTEXT = "skill_context"
    CHECK_TOOL_CALL = "check_tool_call"
    RUN_SKILL_SCRIPT = "run_skill_script"
    RUN_SKILL = "run_skill"
    RUN_WORKFLOW = "run_workflow"


class Conventions(StrEnum):
    """Where convention files such as `AGENTS.md` are skills: nowhere, in directories that are named, in the project."""

    OFF = "off"
    NAMED = "named"
    PROJECT = "project"


class SourceSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A directory of skills beside the usual ones; None stands for what is set for all sources."""

    path: NonEmpty
    scope: Scope = Scope.MANAGED
    strictness: Strictness | None = None
    follow_symlinks: bool | None = None
    conventions: bool | None = None
    gitignore: bool | None = None
    scan_depth: Depth | None = None
    scan_folders: Folders | None = None


class ProjectSource(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A directory of skills within a trusted project, which the project's own file names."""

    path: NonEmpty
    strictness: Strictness | None = None
    conventions: bool | None = None
    gitignore: bool | None = None


class ProjectSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that the file of a trusted project may say, of the project's own skills alone; None leaves it to the user.

    What is added here must not open the network, run code, say where data goes, or touch the user's own skills.
    """

    strictness: Strictness | None = None
    conventions: Conventions | None = None
    gitignore: bool | None = None
    scan_depth: Depth | None = None
    scan_folders: Folders | None = None
    sources: tuple[ProjectSource, ...] = ()


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of a server. Times are in the unit that the name says."""

    transport: Transport = Transport.STDIO
    host: NonEmpty = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8000
    path: Annotated[str, Meta(pattern=r"^/[A-Za-z0-9_./-]*$")] = "/mcp"
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    session_idle_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 600
    """Longest time that a session of the handshake era stays without a request and without an open event stream."""
    strictness: Strictness = Strictness.LENIENT
    follow_symlinks: bool = False
    trust_workspace: bool = False
    gitignore: bool = False
    scan_depth: Depth = USUAL_BOUNDS.depth
    """Folders below the usual places and configured sources that are looked into; directories that are named on the
    command line are bounded far higher."""
    scan_folders: Folders = USUAL_BOUNDS.folders
    """Folders of each of them that are looked into, in all."""
    conventions: Conventions = Conventions.NAMED
    sources: tuple[SourceSettings, ...] = ()
    """The user's own sources, used where no directory is named; so are the next two."""
    project: ProjectSettings | None = None
    """What the file of the project says; None unless the project is trusted."""
    precedence: tuple[Scope, ...] = ()
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    tools: tuple[OptionalTool, ...] = ()
    danger_patterns: tuple[str, ...] = ()
    """Calls of tools that are denied whatever skills say, by patterns as in a skill's own `danger_patterns`."""
    confirm_patterns: tuple[str, ...] = ()
    """Calls of tools for which the user is to be asked, likewise."""
    model: NonEmpty | None = None
    """Which model performs skills, as `skills_core.run.models` reads it; None for none."""
    model_key: SecretStr | None = None
    """The key for a model that is named by its address."""
    run_turns: Annotated[int, Meta(ge=1, le=1000)] = 25
    """Most answers of the model in one run."""
    run_tokens: PositiveInt = 500_000
    """Most tokens in one run, in and out."""
    run_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 900
    """Longest time of one run."""
    run_resume_seconds: Annotated[int, Meta(ge=0, le=31_536_000)] = 600
    """How long ago a run may have been interrupted for a server to continue it unasked; older ones are left alone."""
    run_lease_seconds: Annotated[int, Meta(ge=3, le=3600)] = 15
    """How long this process may be silent on PostgreSQL before another one takes its runs over."""
    runs_at_once: Annotated[int, Meta(ge=1, le=1000)] = 4
    """Most runs that this process performs at a time; the others wait."""
    run_store: SecretStr | None = None
    """Where runs are recorded: `postgresql://…` or a file; by default a file of the user's."""
    workflows: tuple[str, ...] = ()
    """Workflows that clients may run, by file or folder."""
    run_tools: tuple[WorkspaceTool, ...] = ()
    """Tools of the workspace that runs may use."""
    workspace: NonEmpty | None = None
    """The folder that they are bound to."""
    mcp_servers: NonEmpty | None = None
    """The JSON file that names other MCP servers, whose tools runs may use."""
    skill_tools: tuple[str, ...] = ()
    """Tools declared by skills that may be carried out, in runs and for clients, as `SKILL/TOOL` or `SKILL/*`."""
    admin_token: SecretStr | None = None
    watch: WatchMode = WatchMode.AUTO
    watch_debounce_ms: Annotated[int, Meta(ge=0, le=60_000)] = 250
    watch_poll_ms: Annotated[int, Meta(ge=50, le=3_600_000)] = 1000
    catalog_budget: Annotated[int, Meta(ge=500)] = 32_000
    """Longest catalog text for a model, in characters; about 8,000 tokens."""
    entry_limit: Annotated[int, Meta(ge=20, le=MAX_ENTRY)] = MAX_ENTRY
    """Longest text of one skill in the catalog, in characters."""
    client_budgets: dict[str, PositiveInt] = field(default_factory=dict)
    """The same for single clients by their key, which overrides what is known of them."""
    reranker: Annotated[str, Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] | None = None
    """A second opinion on searches, as `package.module:name`; its code runs in the server."""
    pinned: tuple[str, ...] = ()
    """Skills that are offered before all others, by name."""
    usage: bool = True
    """Whether it is remembered how often skills are used, so that those used most are offered first."""
    enum_limit: PositiveInt = 1000
    """Most names in the enum of `activate_skill`; beyond it any active name is accepted all the same."""
    max_injected_chars: Annotated[int, Meta(ge=1, le=1_000_000)] = 2000
    """Most code points of a skill's body that a search puts before a message."""
    adapt: bool = True
    """Whether an activation says what the tools and files that a skill names are called here."""
    tool_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For clients, by the beginnings of their names or `*`: tools that skills name, and what each is called there."""
    require_sandbox: bool = False
    """Whether no script runs where no sandbox works."""
    script_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 120
    script_output_bytes: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 10_000_000
    """Most that a script writes, to stdout and stderr together, before it is ended."""
    script_environment: tuple[str, ...] = ()
    """Variables of this process that scripts get beside a stated list, by name."""
    script_index: SecretStr | None = None
    """Where packages for scripts come from: the URL of an index, which may hold credentials; else uv's default one."""
    script_package_urls: bool = False
    """Whether scripts may say where their packages come from: indexes, URLs and paths of their own."""
    script_uv_environment: tuple[str, ...] = ()
    """Variables of this process that uv gets beside a stated list when it fetches packages for scripts, by name."""
    script_network: bool = False
    """Whether scripts in a sandbox can use the network; without a sandbox they always can."""
    script_workspace: str | None = None
    """Where scripts are started and may write; by default an empty folder that is removed afterwards."""
    page_size: Annotated[int, Meta(ge=1, le=10_000)] = 500
    log_level: LogLevel = LogLevel.INFO

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            try:
                check(getattr(self, name))
            except ValueError as error:
                raise InvalidValueError(str(error), (name,)) from None

    def __hash__(self) -> int:
        # Tables have no hash of their own.
        return hash(tuple(value for value in astuple(self) if not isinstance(value, dict)))

    @property
    def watch_options(self) -> WatchOptions:
        """The settings of the watcher."""
        return WatchOptions(self.watch, self.watch_debounce_ms / 1000, self.watch_poll_ms / 1000)


def _check_token(token: SecretStr | None) -> None:
    if token is not None and not _TOKEN.fullmatch(token.get_secret_value()):
        # A pattern of the field would have the value in its message.
        raise ValueError("expected from 16 to 1024 characters of ASCII, without spaces")


def _check_sources(sources: tuple[SourceSettings, ...]) -> None:
    for source in sources:
        if "\0" in source.path:
            raise ValueError(f"{source.path[:80]!r}: expected the path of a directory")


def _check_patterns(patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        if fault := pattern_fault(pattern):
            raise ValueError(fault)


def _check_skill_tools(entries: tuple[str, ...]) -> None:
    for entry in entries:
        if not all(entry.partition("/")):
            raise ValueError(f"{entry[:80]!r}: expected SKILL/TOOL, or SKILL/* for all tools of the skill")


def _check_tool_names(tables: Mapping[str, Mapping[str, str]]) -> None:
    if max(len(tables), *map(len, tables.values()), 0) > _MAX_TOOL_NAMES:
        raise ValueError(f"expected at most {_MAX_TOOL_NAMES} clients, and as many names for each")
    for client in tables:
        if not (_CLIENT_NAME.fullmatch(client) and client.isprintable()):
            raise ValueError(f"{client[:80]!r}: expected a client's name, up to 64 characters without < and >")
    for name in (name for table in tables.values() for pair in table.items() for name in pair):
        if not _TOOL_NAME.fullmatch(name):
            raise ValueError(f"{name[:80]!r}: expected a tool's name, from 1 to 64 of A-Z a-z 0-9 _ . / : # @ -")


_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "admin_token": _check_token,
    "script_environment": check_names,
    "script_index": check_index,
    "script_uv_environment": check_names,
    "script_workspace": check_workspace,
    "sources": _check_sources,
    "danger_patterns": _check_patterns,
    "confirm_patterns": _check_patterns,
    "skill_tools": _check_skill_tools,
    "tool_names": _check_tool_names,
}
# What is asked of settings beyond their types.


def load_settings(
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    config_home: Path,
    jdai: JdaiSettings | None = None,
) -> Settings:
    """Merge the layers of the user into settings.

    `flags` hold what was given on the command line, None for what was not. `environment` is searched for names
    with the prefix `SKILLSERVE_`; a list there is separated by commas. `config_home` is where the user's own
    `skillserve/skillserve.toml` is. `jdai` is what JD.AI's `skills.json` says of watching, which all else overrides.

    Raises:
        ConfigurationError: a layer holds an unknown name or a value that does not fit.
    """
    merged: dict[str, tuple[Any, str]] = {}
    if jdai is not None and jdai.watch is not None:
        merged["watch"] = (WatchMode.AUTO if jdai.watch else WatchMode.OFF, "skills.json")
    if jdai is not None and jdai.watch_debounce_ms is not None:
        merged["watch_debounce_ms"] = (jdai.watch_debounce_ms, "skills.json")
    own = own_file(config_home)
    merged |= {name: (value, str(own)) for name, value in read_settings_file(own).items()}
    usual = Settings()
    for name, text in in_environment(environment).items():
        where = f"the environment variable {ENV_PREFIX}{name.upper()}"
        merged[name] = (_spelt(text, getattr(usual, name)), where)
    for name, flag in flags.items():
        if flag is not None and flag != ():
            merged[name] = (flag, f"--{name.replace('_', '-')}")
    if not merged:
        # To read the types of all fields takes longer than all else here.
        return usual
    try:
        return read(Settings, {name: value for name, (value, _) in merged.items()})
    except InvalidValueError as error:
        raise ConfigurationError(f"{merged[error.path[0]][1]}: {'.'.join(error.path)}: {error.message}") from None


def in_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what variables say of settings, by their names."""
    found = {name: environment.get(ENV_PREFIX + name.upper()) for name in Settings.__struct_fields__}
    # What a compose file leaves empty is not set.
    return {name: text for name, text in found.items() if text and name not in _TABLES}


def _spelt(text: str, usual: object) -> object:
    """Return what a variable says of a setting that is `usual` where nothing is said."""
    if isinstance(usual, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if isinstance(usual, bool):
        return _TRUTH.get(text.strip().lower(), text)
    return text.strip() if isinstance(usual, int) else text
