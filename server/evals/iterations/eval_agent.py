"""Choose the agent of an eval by the options of a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from server.evals.agents.cli_agent import find_agent
from server.evals.errors import EvalError
from skills_core.evals.agents.kind import Rights, Via

if TYPE_CHECKING:
    from pathlib import Path

    from server.evals.agents.cli_agent import CliAgent

__all__ = ["EXECUTOR", "eval_agent"]

EXECUTOR: Final = "skillserve"
"""The name of our own executor among the agents."""


def eval_agent(
    name: str | None, template: str | None, *, via: str, model: str | None, home: Path | None
) -> CliAgent | None:
    """Return the agent, None for our own executor.

    Raises:
        EvalError: the options do not go together.
        AgentUnavailableError: the agent cannot be used.
    """
    if name == EXECUTOR and template is not None:
        raise EvalError(
            "--agent skillserve is our own executor; --agent-command starts another agent: name one of them"
        )
    if template is None and name in {None, EXECUTOR}:
        given = {"--agent-model": model, "--agent-home": home, "--via server": via == Via.SERVER or None}
        if wrong := next((flag for flag, value in given.items() if value is not None), None):
            raise EvalError(f"{wrong} is for a coding agent, such as --agent claude; our own executor has --model")
        return None
    # A command without a known agent says itself where the skill is, by {skill}.
    way = Via(via) if name is not None else None
    return find_agent(name, template, via=way, rights=Rights.WORK, model=model, home=home)
