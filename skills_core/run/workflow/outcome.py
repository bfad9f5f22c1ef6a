"""The outcome of a workflow: frozen values that are reported, recorded, and read back as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from skills_core.run.outcome import UNKNOWN_TRIGGER, RunOutcome, RunStatus
from skills_core.run.workflow.model import StepKind  # noqa: TC001 - records read the annotations

__all__ = ["StepRecord", "StepStatus", "WorkflowOutcome", "WorkflowProblem"]


class StepStatus(StrEnum):
    """The status of a step; `SKIPPED` is a step in a branch that was not taken."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    NOT_REACHED = "not_reached"


class WorkflowProblem(StrEnum):
    """Why a workflow ended early. The values are part of the contract."""

    STEP_FAILED = "step_failed"
    UNDECIDED = "undecided"
    TEXT_TOO_LONG = "text_too_long"
    SKILL_CHANGED = "skill_changed"
    WORKFLOW_CHANGED = "workflow_changed"
    INPUTS_CHANGED = "inputs_changed"
    GIVEN_UP = "given_up"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class StepRecord:
    """The outcome of one step.

    `output` is None if there is none; that of a conditional step is the last one in the branch that was taken. `held`
    says whether the condition held, None for a skill and for a condition without a result. `outcome` is that of the
    skill, None if no skill was performed.
    """

    name: str
    kind: StepKind
    status: StepStatus
    output: str | None = None
    held: bool | None = None
    outcome: RunOutcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowOutcome:
    """The outcome of a workflow, with each of its steps in the order of the document.

    `digest` is the digest of the document. `output` is that of the last skill performed. `message` explains `problem`.
    `trigger_reason` is as in `RunOutcome`.
    """

    run_id: str
    workflow: str
    digest: str
    status: RunStatus
    steps: tuple[StepRecord, ...]
    output: str = ""
    problem: WorkflowProblem | None = None
    message: str = ""
    trigger_reason: str = UNKNOWN_TRIGGER
