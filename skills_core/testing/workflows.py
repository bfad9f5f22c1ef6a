"""Run a workflow with given outputs in place of its skills' runs, and capture the steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.catalog import Catalog
from skills_core.run.outcome import RunOutcome, RunStatus
from skills_core.run.ports import MemoryJournal
from skills_core.run.workflow.plan import prepare
from skills_core.run.workflow.run import run_workflow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skills_core.run.workflow.build import WorkflowDefinition
    from skills_core.run.workflow.model import WorkflowOutcome
    from skills_core.skill import Skill

__all__ = ["CapturedStep", "WorkflowCapture"]


@dataclass(frozen=True, slots=True)
class CapturedStep:
    """A step that performed a skill: its input with all references filled in, and its output."""

    name: str
    target: str
    parameters: Mapping[str, str]
    message: str | None
    output: str


class WorkflowCapture:
    """Runs workflows and captures the `steps` that performed a skill, in order.

    `outputs` maps each skill's name to its output; an `Exception` fails the step with its text.
    """

    def __init__(self, outputs: Mapping[str, str | Exception]) -> None:
        """Start without captured steps."""
        self._outputs = outputs
        self.steps: list[CapturedStep] = []

    async def run(
        self,
        workflow: str | WorkflowDefinition,
        skills: Iterable[Skill],
        inputs: Mapping[str, str] | None = None,
    ) -> WorkflowOutcome:
        """Run a workflow, the text of its document or its definition, with these skills.

        Raises:
            InvalidWorkflowError: the workflow or the inputs are invalid.
        """
        catalog = Catalog(tuple(skills))
        text, name = (workflow, "workflow") if isinstance(workflow, str) else (workflow.to_yaml(), workflow.name)
        plan = prepare(text.encode(), name, catalog, inputs or {})
        return await run_workflow(
            plan, self._perform, MemoryJournal("test"), digest_of=lambda target: catalog.skill(target).digest or ""
        )

    async def _perform(self, target: str, parameters: Mapping[str, str], message: str | None, step: str) -> RunOutcome:
        said, run_id = self._outputs[target], f"test.{len(self.steps) + 1}"
        self.steps.append(CapturedStep(step, target, dict(parameters), message, str(said)))
        if isinstance(said, Exception):
            return RunOutcome(run_id=run_id, skill=target, digest=None, status=RunStatus.FAILED, message=str(said))
        return RunOutcome(run_id=run_id, skill=target, digest=None, status=RunStatus.COMPLETED, output=said)
