"""Run a skill in a test, with defaults for everything that the test does not set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.guard import Guard, rules_of
from skills_core.interaction import NoUser
from skills_core.run.executor import RunContext, RunRequest, perform_run
from skills_core.run.outcome import DEFAULT_LIMITS
from skills_core.run.ports import MemoryJournal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_ai.models import Model

    from skills_core.guard.tool import Tool
    from skills_core.interaction import User
    from skills_core.run.evaluation import Evaluator
    from skills_core.run.outcome import RunLimits, RunOutcome
    from skills_core.skill import Skill

__all__ = ["perform"]


async def perform(
    skill: Skill,
    message: str | None = None,
    *,
    model: Model,
    parameters: Mapping[str, str] | None = None,
    tools: Sequence[Tool] = (),
    evaluator: Evaluator | None = None,
    user: User | None = None,
    limits: RunLimits = DEFAULT_LIMITS,
) -> RunOutcome:
    """Perform `skill` and return the outcome; the skill's own patterns guard the calls of `tools`.

    Without an `evaluator`, the model evaluates its own output if the skill asks for that. Without a `user`, no question
    can be asked.
    """
    context = RunContext(
        model=model,
        model_name="test",
        journal=MemoryJournal("test"),
        guard=Guard(rules_of([skill])),
        tools=tools,
        user=user or NoUser(),
        limits=limits,
        evaluator=evaluator,
    )
    return await perform_run(RunRequest(skill, parameters or {}, message), context)
