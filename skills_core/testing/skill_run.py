"""Run skills and workflows in tests: with a scripted model, given scores and captured steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from skills_core.catalog.catalog import Catalog
from skills_core.guard.guard import Guard, rules_of
from skills_core.interaction import NoUser
from skills_core.runs.executor import RunContext, RunRequest, perform_run
from skills_core.runs.journal import MemoryJournal
from skills_core.runs.outcome import DEFAULT_LIMITS, CriterionScore, RunOutcome, RunStatus, Score
from skills_core.runs.structured_answers import ScoringError, ScoringResult
from skills_core.runs.workflow.plan import prepare
from skills_core.runs.workflow.run import run_workflow
from skills_core.testing import Call

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model
    from pydantic_ai.models.function import AgentInfo

    from skills_core.guard.tool import Tool
    from skills_core.interaction import User
    from skills_core.runs.outcome import RunLimits
    from skills_core.runs.structured_answers import Evaluator, ScoringRequest
    from skills_core.runs.workflow.build import WorkflowDefinition
    from skills_core.runs.workflow.model import WorkflowOutcome
    from skills_core.skills.skill import Skill
    from skills_core.testing import Reply


class ScriptedModel(FunctionModel):
    """Answers with `replies`, one by one: a text, one or several tool calls, or an exception to raise.

    `conversations` holds the messages of each request, and `tools` the names of the tools offered with it.
    """

    def __init__(self, *replies: Reply) -> None:
        super().__init__(self._next, model_name="scripted")
        self._replies = replies
        self.conversations: list[list[ModelMessage]] = []
        self.tools: list[tuple[str, ...]] = []

    def _next(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(self.conversations) >= len(self._replies):
            raise AssertionError(f"The script has {len(self._replies)} replies, and the model was asked once more.")
        reply = self._replies[len(self.conversations)]
        self.conversations.append(list(messages))
        self.tools.append(tuple(tool.name for tool in info.function_tools))
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, str):
            return ModelResponse([TextPart(reply)])
        calls = [reply] if isinstance(reply, Call) else reply
        return ModelResponse(
            [
                ToolCallPart(
                    call.tool,
                    call.arguments if isinstance(call.arguments, str) else dict(call.arguments),
                    f"call-{len(self.conversations)}-{number}",
                )
                for number, call in enumerate(calls)
            ]
        )


class SequentialScoreEvaluator:
    """Gives the first output the first score, and so on; `assessments` records the calls."""

    def __init__(self, scores: Sequence[float]) -> None:
        """Use `scores`, each from 0 to 1, also as the score of every criterion."""
        self._scores = tuple(scores)
        self.assessments: list[ScoringRequest] = []

    @property
    def invocations(self) -> int:
        """The number of calls so far."""
        return len(self.assessments)

    async def __call__(self, assessment: ScoringRequest) -> ScoringResult:
        """Return the next score.

        Raises:
            NotScoredError: all scores have been used.
        """
        self.assessments.append(assessment)
        if self.invocations > len(self._scores):
            raise ScoringError(f"The evaluator was given {len(self._scores)} scores and asked for one more.")
        score = self._scores[self.invocations - 1]
        return ScoringResult(Score(score, tuple(CriterionScore(each, score) for each in assessment.criteria)))


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
