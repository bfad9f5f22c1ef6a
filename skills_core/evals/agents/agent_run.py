"""What became of one run of an agent, whatever kind of agent it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skills_core.evals.agents.transcript import Transcript

__all__ = ["AgentRun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """The agent's record of a run, and how the run ended.

    `exit_code` is None if the agent is no process or was ended. `stopped` tells that nothing more was to be learned
    from it, and `fault` says why the run failed, as far as the agent's own record does not. `errors` is the end of what
    it printed on stderr, `lines` are all lines as JSON values, and `answer` is its last message.
    """

    transcript: Transcript
    exit_code: int | None = None
    timed_out: bool = False
    stopped: bool = False
    fault: str = ""
    seconds: float = 0.0
    errors: str = ""
    lines: tuple[str, ...] = ()
    answer: str = ""
    notes: tuple[str, ...] = ()
