"""Performs runs: puts together what settings and this machine give, and hands it to the executor."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from server.run.traces import trace_store
from skills_core.run.executor import RunContext, RunRequest, SkillExecutor
from skills_core.run.limits import RunLimits
from skills_core.run.models import open_model, parse_model
from skills_core.run.ports import MemoryJournal, Nobody, unheard
from skills_core.run.secrets import Secrets
from skills_core.run.tools.gate import ToolGate
from skills_core.run.tools.permits import Permits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pydantic_ai.models import Model

    from server.config import Settings
    from skills_core.guard import Guard
    from skills_core.run.outcome import RunOutcome
    from skills_core.run.ports import Report, User
    from skills_core.skill import Skill

__all__ = ["Run", "RunService", "new_run_id"]


def new_run_id() -> str:
    """Return a name that no other run has: 32 hexadecimal digits, as the number of a trace."""
    return secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class Run:
    """One run that is asked for; without a `model`, the one of the settings performs it."""

    skill: Skill
    parameters: Mapping[str, str] = field(default_factory=dict)
    message: str | None = None
    model: Model | None = None
    user: User = field(default_factory=Nobody)
    report: Report = unheard


class RunService:
    """Performs runs by one set of settings."""

    def __init__(self, settings: Settings, guard: Callable[[], Guard], state: Path) -> None:
        """Perform by `settings`; `guard` gives what decides on calls at the moment that a run begins."""
        self._settings = settings
        self._guard = guard
        self._store = trace_store(state)

    async def perform(self, run: Run) -> RunOutcome:
        """Perform a run to its end.

        Raises:
            ModelUnavailableError: the model that settings name cannot be used.
        """
        key = self._settings.model_key.get_secret_value() if self._settings.model_key else None
        spec = parse_model(self._settings.model or "")
        limits, journal = _limits_of(self._settings), MemoryJournal(new_run_id())
        gate = ToolGate(
            (),
            Permits(run.skill.frontmatter.allowed_tools),
            self._guard(),
            run.user,
            limits,
            journal.run_id,
            run.skill.digest or "",
        )
        context = RunContext(
            model=run.model or open_model(spec, key),
            model_name=str(spec),
            gate=gate,
            journal=journal,
            limits=limits,
            report=run.report,
            store=self._store,
            secrets=Secrets({"model_key": key} if key else {}),
        )
        return await SkillExecutor(RunRequest(run.skill, run.parameters, run.message), context).run()


def _limits_of(settings: Settings) -> RunLimits:
    return RunLimits(turns=settings.run_turns, tokens=settings.run_tokens, seconds=settings.run_seconds)
