"""A workflow's steps, captured: the workflow is run as always, and what each skill would say is given by the test."""

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

    from skills_core.run.workflow.outcome import WorkflowOutcome
    from skills_core.skill import Skill

__all__ = ["CapturedStep", "WorkflowCapture"]


@dataclass(frozen=True, slots=True)
class CapturedStep:
    """A step that performed a skill: what it was asked with, its texts filled, and what it said."""

    name: str
    target: str
    parameters: Mapping[str, str]
    message: str | None
    output: str


class WorkflowCapture:
    """Runs workflows; `steps` are those that performed a skill, in the order in which they did.

    `outputs` is what each skill says, by its name; an `Exception` among them fails its step with that text.
    """

    def __init__(self, outputs: Mapping[str, str | Exception]) -> None:
        """Capture nothing yet."""
        self._outputs = outputs
        self.steps: list[CapturedStep] = []

    async def run(
        self, document: str, skills: Iterable[Skill], inputs: Mapping[str, str] | None = None
    ) -> WorkflowOutcome:
        """Run a workflow, given as the text of its document, with these skills.

        Raises:
            InvalidWorkflowError: something is wrong with the workflow or the inputs.
        """
        catalog = Catalog(tuple(skills))
        plan = prepare(document.encode(), "workflow", catalog, inputs or {})
        return await run_workflow(
            plan, self._perform, MemoryJournal("test"), digest_of=lambda target: catalog.skill(target).digest or ""
        )

    async def _perform(self, target: str, parameters: Mapping[str, str], message: str | None, step: str) -> RunOutcome:
        said, run_id = self._outputs[target], f"test.{len(self.steps) + 1}"
        self.steps.append(CapturedStep(step, target, dict(parameters), message, str(said)))
        if isinstance(said, Exception):
            return RunOutcome(run_id=run_id, skill=target, digest=None, status=RunStatus.FAILED, message=str(said))
        return RunOutcome(run_id=run_id, skill=target, digest=None, status=RunStatus.COMPLETED, output=said)
