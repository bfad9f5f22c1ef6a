"""What an eval needs of an agent: it performs one task in a scratch folder, and reports what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from server.evals.agents.scratch import RunScratch
    from server.evals.skills.skill_versions import SkillVersion
    from skills_core.evals.grading.cases import EvalCase
    from skills_core.evals.grading.results import EvalStatus, RunKey

__all__ = ["Agent", "AgentReport", "AgentTask"]


@dataclass(frozen=True, slots=True)
class AgentTask:
    """One run to perform; `version` is None in the arm without a skill. Input files are read from `source`.

    `skill_name` is the name of the skill under test, in every arm.
    """

    key: RunKey
    attempt: int
    case: EvalCase
    version: SkillVersion | None
    source: Path
    seconds: float
    skill_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """What an agent did. `transcript` has one JSON value a line, `answer` is its last message; None is unknown."""

    scratch: RunScratch
    status: EvalStatus
    error: str = ""
    exit_code: int | None = None
    duration_ms: int = 0
    total_tokens: int | None = None
    cost_usd: float | None = None
    tool_calls: int | None = None
    transcript: tuple[str, ...] = ()
    answer: str = ""
    notes: tuple[str, ...] = ()


class Agent(Protocol):
    """An agent under test."""

    @property
    def label(self) -> str:
        """The model or command, for reports."""

    def running(self, tasks: list[AgentTask]) -> AbstractAsyncContextManager[None]:
        """Open what the agent needs for these tasks, until the block ends."""

    async def perform(self, task: AgentTask) -> AgentReport:
        """Perform a task; a failure of the agent is part of the report.

        Raises:
            SkillsError: the task cannot be prepared.
        """
