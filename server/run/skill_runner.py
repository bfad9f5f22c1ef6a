"""Run one skill: give the executor the model, tools, guard and limits that the settings specify."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from server.listing.snapshot import allow_all
from server.run.skill_pins import pinned_offers
from server.run.toolset import check_tool_settings, open_toolset
from skills_core.run.executor import RunContext, RunRequest, SkillExecutor
from skills_core.run.limits import RunLimits
from skills_core.run.models import CLIENT, open_model, parse_model
from skills_core.run.outcome import UNKNOWN_TRIGGER
from skills_core.run.ports import NoUser, discard_progress
from skills_core.run.run_skills import RunSkills
from skills_core.run.secrets import Secrets
from skills_core.run.tools.allowed_tools import AllowedTools
from skills_core.run.tools.gate import ToolGate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pydantic_ai.models import Model

    from server.config.settings import RunSettings, Settings
    from skills_core.catalog import Catalog
    from skills_core.format.yaml12 import JsonValue
    from skills_core.guard import Guard
    from skills_core.run.outcome import RunOutcome
    from skills_core.run.ports import Journal, ProgressCallback, User
    from skills_core.run.scripts.runner import ScriptRunner
    from skills_core.run.skill_selection import SkillSelection
    from skills_core.run.trace.store import TraceStore
    from skills_core.skill import Skill

__all__ = ["RunParticipants", "RunnerConfig", "SkillRunner", "run_limits", "secrets_without_skills"]


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
    """Runs skills with one configuration."""

    def __init__(self, config: RunnerConfig) -> None:
        """Open nothing yet."""
        self._config = config
        self._model: Model | None = None

    async def prepare(self, skills: Iterable[Skill]) -> Secrets:
        """Check the configured model and tools before a run starts; return the known secrets of runs of these skills.

        Raises:
            ModelUnavailableError: the configured model cannot be used.
            ConfigurationError: the configured tools cannot be used.
        """
        if self._config.settings.runs.model != CLIENT:
            self._open_model()
        return await anyio.to_thread.run_sync(self._secrets, [*skills])

    def _secrets(self, skills: Iterable[Skill]) -> Secrets:
        settings = self._config.settings
        of_tools, of_skills = check_tool_settings(settings.runs), self._variables(skills)
        return _secrets_of(_process_secrets(settings), of_tools, of_skills)

    def _variables(self, skills: Iterable[Skill]) -> dict[str, Mapping[str, str]]:
        """Return the user's environment variables for the scripts of skills, by key."""
        return {skill.key: self._config.variables(skill) for skill in skills}

    def _open_model(self) -> Model:
        """Return the configured model, opened once: concurrent runs share its connections."""
        if self._model is None:
            settings = self._config.settings.runs
            key = settings.model_key.get_secret_value() if settings.model_key else None
            self._model = open_model(parse_model(settings.model or ""), key)
        return self._model

    async def run(
        self, request: RunRequest, selection: SkillSelection, journal: Journal, participants: RunParticipants
    ) -> RunOutcome:
        """Run a skill to its end, with the other skills of `selection`.

        Raises:
            ModelUnavailableError: the configured model cannot be used.
            ConfigurationError: the configured tools cannot be used.
        """
        config, skill = self._config, request.skill
        settings, limits, started = config.settings, run_limits(config.settings.runs), anyio.current_time()
        reason = await participants.recorded_reason(journal)
        permits = AllowedTools(skill.frontmatter.allowed_tools)
        skills = RunSkills(skill, selection.companions, await pinned_offers(journal, selection))
        variables = await anyio.to_thread.run_sync(self._variables, [skill, *skills.others])
        async with open_toolset(
            settings, skills, permits, config.runner, variables, config.host, participants.allows
        ) as toolset:
            # The time to connect to MCP servers counts against the run's time limit.
            limits = replace(limits, seconds=max(limits.seconds - (anyio.current_time() - started), 0.0))
            secrets = _secrets_of(_process_secrets(settings), toolset.secrets, variables)

            def build_gate() -> ToolGate:
                """Compile the patterns of all skills, and the schemas of all tools."""
                return ToolGate(
                    toolset.tools,
                    permits,
                    participants.disclosing(config.guard()),
                    participants.user,
                    limits,
                    run_id=journal.run_id,
                    digest=skill.digest or "",
                    secrets=secrets,
                    ensure_owned=journal.ensure_owned,
                )

            context = RunContext(
                model=participants.model or self._open_model(),
                model_name=str(parse_model(settings.runs.model or "")),
                gate=await anyio.to_thread.run_sync(build_gate),
                journal=journal,
                limits=limits,
                report=participants.report,
                store=config.store,
                secrets=secrets,
                skills=skills,
                trigger_reason=reason,
            )
            return await SkillExecutor(request, context).run()


def run_limits(settings: RunSettings) -> RunLimits:
    """Return the configured limits of each run."""
    return RunLimits(turns=settings.turns, tokens=settings.tokens, seconds=settings.seconds)


def secrets_without_skills(settings: Settings, of_tools: Mapping[str, str]) -> Secrets:
    """Return the known secrets of a run that performs no skill."""
    return _secrets_of(_process_secrets(settings), of_tools, {})


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
    runs = settings.runs
    known = {
        "model_key": runs.model_key,
        "judge_key": settings.evals.judge_key,
        "admin_token": settings.admin.token,
        "run_store": runs.store,
    }
    named = {name: value for name, value in os.environ.items() if _SECRET.search(name)}
    return {**named, **{name: secret.get_secret_value() for name, secret in known.items() if secret is not None}}
