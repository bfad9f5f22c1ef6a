"""Outcomes and errors for runs that did not produce an outcome of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from server.config.settings import ConfigurationError
from server.run.skill_pins import PinnedSkillChangedError
from skills_core.errors import InvalidRecordError, UnknownSkillError
from skills_core.run.durable.recorded_run import RUN_FORMAT, RunConflictError, RunState
from skills_core.run.models import ModelUnavailableError
from skills_core.run.outcome import RunOutcome, RunProblem, RunStatus
from skills_core.run.workflow.outcome import WorkflowOutcome, WorkflowProblem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skills_core.errors import SkillsError
    from skills_core.format.yaml12 import JsonObject
    from skills_core.run.durable.recorded_run import RunNotDoneError
    from skills_core.run.workflow.plan import Plan

__all__ = [
    "conflict_details",
    "failed_outcome",
    "recorded_outcome",
    "unfinished_outcome",
    "unfinished_workflow_outcome",
]


def failed_outcome(run_id: str, skill: str, problem: RunProblem, message: str, digest: str | None = None) -> RunOutcome:
    """Return the outcome of a skill that could not be run."""
    return RunOutcome(
        run_id=run_id, skill=skill, digest=digest, status=RunStatus.FAILED, problem=problem, message=message
    )


async def recorded_outcome(
    run_id: str,
    skill: str,
    work: Callable[[], Awaitable[RunOutcome]],
    configuration_errors: tuple[type[SkillsError], ...] = (),
) -> RunOutcome:
    """Return the outcome of `work`, also if the skill cannot be run, so that the record of the run has one.

    `configuration_errors` are further errors that mean a wrong configuration.
    """
    of_configuration: tuple[type[SkillsError], ...] = (ModelUnavailableError, ConfigurationError, *configuration_errors)
    try:
        return await work()
    except (UnknownSkillError, PinnedSkillChangedError, InvalidRecordError) as error:
        return failed_outcome(run_id, skill, RunProblem.SKILL_CHANGED, str(error))
    except of_configuration as error:
        return failed_outcome(run_id, skill, RunProblem.CONFIGURATION, str(error))


def unfinished_outcome(run_id: str, skill: str, digest: str | None, error: RunNotDoneError) -> RunOutcome:
    """Return the outcome of a skill whose run is recorded as cancelled, failed or given up."""
    if error.run.state is RunState.CANCELLED:
        outcome = failed_outcome(run_id, skill, RunProblem.CANCELLED, str(error), digest)
        return replace(outcome, status=RunStatus.CANCELLED)
    return failed_outcome(run_id, skill, RunProblem.GIVEN_UP, str(error), digest)


def unfinished_workflow_outcome(run_id: str, plan: Plan, error: RunNotDoneError) -> WorkflowOutcome:
    """Return the outcome of a workflow whose run is recorded as cancelled, failed or given up."""
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


def conflict_details(error: RunConflictError, kind: str, inputs: JsonObject) -> RunConflictError:
    """Explain the conflict when the run belongs to another worker pool or run format, or when only skills differ."""
    recorded = error.recorded
    if recorded is None:
        return RunConflictError(error.run_id, "by a process with other folders, another model or other tools")
    if recorded.kind != kind or kind != "skill":
        return error
    if recorded.run_format != str(RUN_FORMAT):
        # Formats differ in the names of inputs too, so only those of both can be compared.
        same = all(inputs.get(name, given) == given for name, given in recorded.given.items() if name != "digest")
        how = "by a version with another run format, which alone can continue or read it"
        return RunConflictError(error.run_id, how, recorded, "Choose another name.") if same else error
    skills: JsonObject = dict.fromkeys(("digest", "companions", "restricted"))
    if {**recorded.given, **skills} != {**inputs, **skills}:
        return error
    changed = f"and the skill has changed since, from {recorded.given.get('digest')} to {inputs['digest']}"
    if recorded.given.get("digest") == inputs["digest"]:
        changed = (
            "and the skills that go with it (always on or required) have changed since, or its client sees other skills"
        )
    return RunConflictError(error.run_id, changed, recorded)
