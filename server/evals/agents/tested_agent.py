"""What a trigger test needs of an agent, whether it is a command line or our own executor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from server.evals.skills.skill_copies import SkillCopy
    from skills_core.evals.agents.transcript import Transcript
    from skills_core.evals.triggers.outcomes import AgentRun

__all__ = ["AgentUnavailableError", "TestedAgent"]


class AgentUnavailableError(SkillsError):
    """The agent cannot be started; the message says what to do."""


class TestedAgent(Protocol):
    """An agent under test."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What makes runs of it comparable: its name, version, model and command."""
        ...

    @property
    def installed(self) -> bool:
        """Whether skills lie in its own folder."""
        ...

    async def run(
        self, prompt: str, skills: Sequence[SkillCopy], log: Path, is_decided: Callable[[Transcript], bool]
    ) -> AgentRun:
        """Let the agent answer `prompt` with these skills, until its outcome is clear; the first is the tested one.

        Raises:
            AgentUnavailableError: the agent cannot be started.
        """
        ...
