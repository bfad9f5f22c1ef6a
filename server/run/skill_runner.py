"""One skill performed: the tools, the guard, the model and the limits that settings give, handed to the executor."""

from __future__ import annotations

import os
import re
from collections import ChainMap
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from server.run.toolset import run_tools, tool_secrets
from skills_core.run.executor import RunContext, RunRequest, SkillExecutor
from skills_core.run.limits import RunLimits
from skills_core.run.models import CLIENT, open_model, parse_model
from skills_core.run.ports import Nobody, unheard
from skills_core.run.secrets import Secrets
from skills_core.run.tools.allowed_tools import Permits
from skills_core.run.tools.gate import ToolGate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pydantic_ai.models import Model

    from server.config.settings import Settings
    from skills_core.guard import Guard
    from skills_core.run.outcome import RunOutcome
    from skills_core.run.ports import Journal, Report, User
    from skills_core.run.scripts.runner import ScriptRunner
    from skills_core.run.trace.store import TraceStore
    from skills_core.skill import Skill

__all__ = ["RunParticipants", "RunnerConfig", "SkillPerformance"]


_SECRET = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$", re.IGNORECASE)
# Variables of this process that are called so, such as the keys of providers.


@dataclass(frozen=True, slots=True)
class RunnerConfig:
    """What all runs of a process stand on.

    `guard` gives what decides on calls at the moment that a run begins, `variables` what the user has set for a skill.
    Without a `runner` no script runs.
    """

    settings: Settings
    guard: Callable[[], Guard]
    store: TraceStore
    runner: ScriptRunner | None = None
    variables: Callable[[Skill], Mapping[str, str]] = field(default=lambda _: {})


@dataclass(frozen=True, slots=True)
class RunParticipants:
    """Who is there while a run is performed. Without a `model` of theirs, the one of the settings performs it."""

    user: User = field(default_factory=Nobody)
    report: Report = unheard
    model: Model | None = None


class SkillPerformance:
    """Performs skills in their surroundings."""

    def __init__(self, surroundings: RunnerConfig) -> None:
        """Open nothing yet."""
        self._surroundings = surroundings
        self._model: Model | None = None

    async def prepare(self, skills: Iterable[Skill]) -> Secrets:
        """See that what settings name can be used, before anything is begun or recorded.

        Returns what no run of these skills may tell, as far as it is known beforehand.

        Raises:
            ModelUnavailableError: the model that settings name cannot be used.
            ConfigurationError: the tools that settings name cannot be used.
        """
        around = self._surroundings
        if around.settings.model != CLIENT:
            self._opened()
        return await anyio.to_thread.run_sync(self._secrets, [*skills])

    def _secrets(self, skills: Iterable[Skill]) -> Secrets:
        around = self._surroundings
        of_tools, of_skills = tool_secrets(around.settings), map(around.variables, skills)
        return Secrets(dict(ChainMap(_own_secrets(around.settings), of_tools, *map(dict, of_skills))))

    def _opened(self) -> Model:
        """Return the model of the settings, opened once: runs at the same time share its connections."""
        if self._model is None:
            settings = self._surroundings.settings
            key = settings.model_key.get_secret_value() if settings.model_key else None
            self._model = open_model(parse_model(settings.model or ""), key)
        return self._model

    async def __call__(self, request: RunRequest, journal: Journal, participants: RunParticipants) -> RunOutcome:
        """Perform a skill to its end.

        Raises:
            ModelUnavailableError: the model that settings name cannot be used.
            ConfigurationError: the tools that settings name cannot be used.
        """
        around, skill = self._surroundings, request.skill
        settings, limits, begun = around.settings, limits_of(around.settings), anyio.current_time()
        permits = Permits(skill.frontmatter.allowed_tools)
        variables = await anyio.to_thread.run_sync(around.variables, skill)
        async with run_tools(settings, skill, permits, around.runner, variables) as given:
            # To connect to other servers takes of the run's time too.
            limits = replace(limits, seconds=max(limits.seconds - (anyio.current_time() - begun), 0.0))
            secrets = Secrets({**_own_secrets(settings), **variables, **given.secrets})

            def gate_of() -> ToolGate:
                """Compile the patterns of all skills, and the schemas of all tools."""
                return ToolGate(
                    given.tools,
                    permits,
                    around.guard(),
                    participants.user,
                    limits,
                    run_id=journal.run_id,
                    digest=skill.digest or "",
                    secrets=secrets,
                    ensure_owned=journal.ensure_owned,
                )

            context = RunContext(
                model=participants.model or self._opened(),
                model_name=str(parse_model(settings.model or "")),
                gate=await anyio.to_thread.run_sync(gate_of),
                journal=journal,
                limits=limits,
                report=participants.report,
                store=around.store,
                secrets=secrets,
            )
            return await SkillExecutor(request, context).run()


def limits_of(settings: Settings) -> RunLimits:
    """Return how far each run may go."""
    return RunLimits(turns=settings.run_turns, tokens=settings.run_tokens, seconds=settings.run_seconds)


def _own_secrets(settings: Settings) -> dict[str, str]:
    known = {"model_key": settings.model_key, "admin_token": settings.admin_token, "run_store": settings.run_store}
    named = {name: value for name, value in os.environ.items() if _SECRET.search(name)}
    return {**named, **{name: secret.get_secret_value() for name, secret in known.items() if secret is not None}}
