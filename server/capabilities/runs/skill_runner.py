"""Run one skill, or a task without any, with the model, tools, guard and limits that the settings specify.

The tools of a run are those of the workspace, the user, the skill and MCP servers, as far as settings allow them.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from server.capabilities.runs.offered import open_configured
from server.capabilities.runs.settings import RunSettings
from server.capabilities.scripts.declared_listing import allows, settings_name
from server.capabilities.scripts.settings import RUN_SKILL_SCRIPT
from server.config.files import ConfigurationError
from server.config.machine import private_folders, private_places
from server.config.settings.names import BY_PATH, value_of
from server.config.values import home_path
from server.listing.snapshot import allow_all
from skills_core.diagnostics import one_line
from skills_core.disk.sources import real_path
from skills_core.guard.allowed_tools import AllowedTools
from skills_core.guard.tool import Secrets
from skills_core.interaction import NoUser, discard_progress
from skills_core.runs.durable.recorded_run import root_run_id
from skills_core.runs.executor import PlainTask, RunContext, RunRequest, perform_run
from skills_core.runs.models import CLIENT, parse_model
from skills_core.runs.outcome import UNKNOWN_TRIGGER, RunLimits
from skills_core.runs.run_skills import Offer, RunSkills
from skills_core.runs.tools import WorkspaceTool
from skills_core.runs.tools.commands import sandboxed_runner, workspace_tools
from skills_core.runs.tools.own_tools import (
    activate_skill_tool,
    ask_user_tool,
    read_skill_file_tool,
    recipient_for,
    run_skill_script_tool,
)
from skills_core.scripts.environment import SCHEDULED_RUN
from skills_core.scripts.tools import declared_tools
from skills_core.toolboxes import ToolPurpose

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog
    from skills_core.format.frontmatter import ToolDeclaration
    from skills_core.format.yaml12 import JsonValue
    from skills_core.guard.guard import Guard
    from skills_core.guard.tool import Tool
    from skills_core.interaction import ProgressCallback, User
    from skills_core.runs.journal import Journal
    from skills_core.runs.outcome import RunOutcome
    from skills_core.runs.run_skills import SkillSelection
    from skills_core.runs.trace import TraceStore
    from skills_core.scripts.runner import ScriptRunner
    from skills_core.skills.skill import Skill


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
    starts_programs = any(tool.declared_name or ToolPurpose.RUN_COMMAND in tool.role.purposes for tool in tools)
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
    from server.capabilities.runs.mcp_config import file_secrets, read_servers

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
    root = home_path(settings.workspace).resolve()
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
    return "://" not in store and home_path(store).resolve().is_relative_to(root)


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
    from server.capabilities.runs.mcp_config import file_secrets, read_servers
    from server.capabilities.runs.mcp_connections import connect_servers, prefixes_of, sanitized

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


_SECRET = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$", re.IGNORECASE)
# Names of environment variables that hold secrets, such as the API keys of model providers.


@dataclass(frozen=True, slots=True)
class RunnerConfig:
    """The dependencies that all runs of a process share.

    `guard` is called when a run starts, and returns the guard for its tool calls. `variables` returns the environment
    variables that the user has set for a skill's scripts. Without a `runner`, no script runs. Commands get a part of
    the environment `host`.
    """

    settings: Settings
    guard: Callable[[], Guard]
    store: TraceStore
    runner: ScriptRunner | None = None
    variables: Callable[[Skill], Mapping[str, str]] = field(default=lambda _: {})
    host: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)


@dataclass(frozen=True, slots=True)
class RunParticipants:
    """The client that waits for a run: its user, its progress reports, its model and its view, and why the run began.

    Without a `model`, the one of the settings performs the run. `catalog` returns what the client sees now; without it
    the client sees everything. `allows` tells whether the client may use a tool of skills, by the name in its list of
    tools: a run has no others. A run that is recovered has no client, and is performed with everything, except for what
    was recorded that it may not use.
    """

    user: User = field(default_factory=NoUser)
    report: ProgressCallback = discard_progress
    model: Model | None = None
    catalog: Callable[[], Catalog] | None = None
    allows: Callable[[str], bool] = allow_all
    reason: str = UNKNOWN_TRIGGER

    async def recorded_reason(self, journal: Journal) -> str:
        """Return who or what began the run; a continued run keeps what was recorded when it began."""

        async def work() -> JsonValue:
            return self.reason

        return str(await journal.step("trigger", work))

    def disclosing(self, guard: Guard) -> Guard:
        """Return the guard with reasons that disclose only what the client may see."""
        if self.catalog is None:
            return guard
        return guard.disclosing(self.catalog().shown)


class SkillRunner:
    """Runs skills with one configuration.

    Methods raise ModelUnavailableError if the configured model cannot be used, and ConfigurationError if the configured
    tools cannot.
    """

    def __init__(self, config: RunnerConfig) -> None:
        self._config = config
        self._model: Model | None = None

    async def prepare(self, skills: Iterable[Skill]) -> Secrets:
        """Check the configured model and tools before a run; return the known secrets of runs of these skills."""
        if self._config.settings.section(RunSettings).model != CLIENT:
            self._open_model()
        return await anyio.to_thread.run_sync(self._secrets, [*skills])

    def _secrets(self, skills: Iterable[Skill]) -> Secrets:
        settings = self._config.settings
        of_tools, of_skills = check_tool_settings(settings.section(RunSettings)), self._variables(skills)
        return _secrets_of(_process_secrets(settings), of_tools, of_skills)

    def _variables(self, skills: Iterable[Skill]) -> dict[str, Mapping[str, str]]:
        """Return the user's environment variables for the scripts of skills, by key."""
        return {skill.key: self._config.variables(skill) for skill in skills}

    def _open_model(self) -> Model:
        """Return the configured model, opened once: concurrent runs share its connections."""
        if self._model is None:
            self._model = open_configured(self._config.settings.section(RunSettings))
        return self._model

    async def run(
        self, request: RunRequest, selection: SkillSelection, journal: Journal, participants: RunParticipants
    ) -> RunOutcome:
        """Run a skill to its end, with the other skills of `selection`."""
        skills = RunSkills(request.skill, selection.companions, await _pinned_offers(journal, selection))
        return await self._perform(request, skills, journal, participants)

    async def run_task(self, task: PlainTask, journal: Journal, participants: RunParticipants) -> RunOutcome:
        """Perform a task without any skill to its end, with the tools that belong to none."""
        return await self._perform(task, None, journal, participants)

    async def _perform(
        self,
        request: RunRequest | PlainTask,
        skills: RunSkills | None,
        journal: Journal,
        participants: RunParticipants,
    ) -> RunOutcome:
        config, settings, started = self._config, self._config.settings, anyio.current_time()
        runs = settings.section(RunSettings)
        reason, limits = await participants.recorded_reason(journal), run_limits(runs)
        of_run = () if skills is None else (skills.performed, *skills.others)
        variables = await anyio.to_thread.run_sync(self._variables, of_run)
        async with open_toolset(
            settings, skills, config.runner, variables, config.host, participants.allows
        ) as toolset:
            guard = await anyio.to_thread.run_sync(lambda: participants.disclosing(config.guard()))
            context = RunContext(
                model=participants.model or self._open_model(),
                model_name=str(parse_model(runs.model or "")),
                journal=journal,
                guard=guard,
                tools=toolset.tools,
                user=participants.user,
                # The time to connect to MCP servers counts against the run's time limit.
                limits=replace(limits, seconds=max(limits.seconds - (anyio.current_time() - started), 0.0)),
                report=participants.report,
                store=config.store,
                secrets=_secrets_of(_process_secrets(settings), toolset.secrets, variables),
                skills=skills,
                trigger_reason=reason,
            )
            return await perform_run(request, context)


async def _pinned_offers(journal: Journal, selection: SkillSelection) -> dict[str, Offer]:
    """Return the skills that the model of a run may activate: those that `selection` offered when the run began."""

    async def work() -> JsonValue:
        return {skill.key: skill.digest for skill in selection.offered}

    recorded = await journal.step("skills", work)
    assert isinstance(recorded, dict)  # noqa: S101 - as work makes it
    offers: dict[str, Offer] = {}
    for key, digest in recorded.items():
        skill = selection.catalog.offer(key)
        unchanged = skill is not None and skill.digest == digest
        offers[key] = Offer(None if digest is None else str(digest), skill if unchanged else None)
    return offers


def run_limits(settings: RunSettings) -> RunLimits:
    """Return the configured limits of each run."""
    return RunLimits(turns=settings.turns, tokens=settings.tokens, seconds=settings.seconds)


def process_secrets(settings: Settings) -> Secrets:
    """Return the secrets among the settings and the environment variables."""
    return Secrets(_process_secrets(settings))


def _secrets_of(
    process: Mapping[str, str], of_tools: Mapping[str, str], of_skills: Mapping[str, Mapping[str, str]]
) -> Secrets:
    """Return all secrets; those of different origins may have one name and different values."""
    secrets = dict(process)
    for origin, values in (("MCP servers", of_tools), *of_skills.items()):
        for name, value in values.items():
            secrets[name if secrets.get(name, value) == value else f"{name} of {origin}"] = value
    return Secrets(secrets)


def _process_secrets(settings: Settings) -> dict[str, str]:
    """Return the secrets among the settings and the environment variables, by name."""
    known = {each.option: value_of(settings, each.path) for each in BY_PATH.values() if each.is_secret}
    named = {name: value for name, value in os.environ.items() if _SECRET.search(name)}
    return {**named, **{name: secret.get_secret_value() for name, secret in known.items() if secret is not None}}


@dataclass(frozen=True, slots=True)
class RunSession:
    """The catalog that a run starts with, and its participants."""

    catalog: Catalog
    participants: RunParticipants = field(default_factory=RunParticipants)


@dataclass(slots=True)
class _AttachedRun:
    """A run with its number of waiting callers; `session` is that of the first caller."""

    session: RunSession
    waiters: int = 0


class AttachedRuns:
    """The runs that callers in this process wait for; `catalog` returns the current catalog."""

    def __init__(self, catalog: Callable[[], Catalog]) -> None:
        self._catalog = catalog
        self._runs: dict[str, _AttachedRun] = {}

    @contextmanager
    def attach(self, run_id: str, participants: RunParticipants) -> Iterator[None]:
        """Count the caller as a waiter of the run until the block ends."""
        run = self._runs.setdefault(run_id, _AttachedRun(self.new_session(participants)))
        run.waiters += 1
        try:
            yield
        finally:
            run.waiters -= 1
            if not run.waiters:
                del self._runs[run_id]

    def is_last_waiter(self, run_id: str) -> bool:
        """Return whether exactly one caller waits for the run."""
        return self._runs[run_id].waiters == 1

    def new_session(self, participants: RunParticipants) -> RunSession:
        """Return a session with the current catalog, as the client of the run sees it."""
        return RunSession((participants.catalog or self._catalog)(), participants)

    def session(self, run_id: str) -> RunSession:
        """Return the session of a run, or of the workflow run that it is a step of.

        A recovered run has no waiting caller; it gets a new session without participants.
        """
        run = self._runs.get(root_run_id(run_id))
        return run.session if run is not None else self.new_session(RunParticipants())
