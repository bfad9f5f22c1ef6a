"""What is told of a run that came to no outcome of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from skills_core.run.durable.errors import RunConflictError
from skills_core.run.durable.recorded_run import RunState
from skills_core.run.outcome import RunOutcome, RunProblem, RunStatus
from skills_core.run.workflow.outcome import WorkflowOutcome, WorkflowProblem

if TYPE_CHECKING:
    from skills_core.run.durable.errors import RunNotDoneError
    from skills_core.run.ports import JsonObject
    from skills_core.run.workflow.plan import Plan

__all__ = ["conflict_details", "failed", "not_done", "workflow_not_done"]


def failed(run_id: str, skill: str, problem: RunProblem, message: str, digest: str | None = None) -> RunOutcome:
    """Return the outcome of a skill that could not be performed."""
    return RunOutcome(
        run_id=run_id, skill=skill, digest=digest, status=RunStatus.FAILED, problem=problem, message=message
    )


def not_done(run_id: str, skill: str, digest: str | None, error: RunNotDoneError) -> RunOutcome:
    """Return the outcome of a skill whose run is recorded as one that will come to none."""
    if error.run.state is RunState.CANCELLED:
        outcome = failed(run_id, skill, RunProblem.CANCELLED, str(error), digest)
        return replace(outcome, status=RunStatus.CANCELLED)
    return failed(run_id, skill, RunProblem.GIVEN_UP, str(error), digest)


def workflow_not_done(run_id: str, plan: Plan, error: RunNotDoneError) -> WorkflowOutcome:
    """Return the outcome of a workflow whose run is recorded as one that will come to none."""
    cancelled = error.run.state is RunState.CANCELLED
    return WorkflowOutcome(
        run_id=run_id,
        workflow=plan.workflow.name,
        digest=plan.workflow.digest,
        status=RunStatus.CANCELLED if cancelled else RunStatus.FAILED,
        steps=(),
        problem=WorkflowProblem.CANCELLED if cancelled else WorkflowProblem.GIVEN_UP,
        message=str(error),
    )


def conflict_details(error: RunConflictError, kind: str, given: JsonObject) -> RunConflictError:
    """Return the error with what is other than it was, where that is what changed by itself."""
    was = error.recorded
    if was is None:
        return RunConflictError(error.run_id, "by a process with other folders, another model or other tools")
    if was.kind != kind or kind != "skill":
        return error
    if {**was.given, "digest": None} != {**given, "digest": None}:
        return error
    changed = f"and the skill has changed since, from {was.given.get('digest')} to {given['digest']}"
    return RunConflictError(error.run_id, changed, was)
