"""Run the plan of a workflow: evaluate the conditions of its steps, and perform those that are due."""

from __future__ import annotations

import hashlib
import json
import operator as operators
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from skills_core.interaction import Progress, discard_progress
from skills_core.runs.journal import from_json, to_json
from skills_core.runs.outcome import RunOutcome, RunStatus
from skills_core.runs.workflow.conditions import (
    NUMBER,
    ORDERINGS,
    Comparison,
    Junction,
    Literal,
    Negation,
    Operator,
    Reference,
    Referent,
)
from skills_core.runs.workflow.model import (
    SkillStep,
    StepKind,
    StepRecord,
    StepStatus,
    TextTooLongError,
    WorkflowOutcome,
    WorkflowProblem,
    all_steps,
)

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonValue
    from skills_core.interaction import ProgressCallback
    from skills_core.runs.journal import Journal
    from skills_core.runs.workflow.conditions import Condition, Expression
    from skills_core.runs.workflow.model import ConditionalStep, Step
    from skills_core.runs.workflow.plan import Plan

_Value: TypeAlias = str | Decimal | bool | None

_ORDER_FUNCTIONS: Final = {
    Operator.LESS: operators.lt,
    Operator.LESS_OR_EQUAL: operators.le,
    Operator.GREATER: operators.gt,
    Operator.GREATER_OR_EQUAL: operators.ge,
}

_MAX_SHOWN: Final = 60


class UndecidableError(Exception):
    """A condition orders a value that is not a number; `position` is that of the comparison."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


def holds(condition: Condition, value_of: Callable[[Reference], str | None]) -> bool:
    """Tell whether a condition is true; `value_of` returns the value of a reference, None if it is missing.

    Operands are evaluated from left to right, with short circuits.

    Raises:
        UndecidableError: it orders a value that is not a number.
    """
    return _Evaluation(value_of).truth(condition.root)


class _Evaluation:
    def __init__(self, value_of: Callable[[Reference], str | None]) -> None:
        self._value_of = value_of

    def truth(self, node: Expression) -> bool:
        value = self._value(node)
        if isinstance(value, str):
            return value.strip().lower() not in {"", "false"}
        return bool(value)

    def _value(self, node: Expression) -> _Value:
        match node:
            case Reference():
                text = self._value_of(node)
                return None if text is None else text.strip()
            case Literal():
                return node.value
            case Negation():
                return not self.truth(node.operand)
            case Junction():
                truths = (self.truth(operand) for operand in node.operands)
                return any(truths) if node.any_of else all(truths)
            case Comparison():
                return self._compared(node)
            case _ as never:
                assert_never(never)

    def _compared(self, node: Comparison) -> bool:
        left, right = self._value(node.left), self._value(node.right)
        if node.operator in ORDERINGS:
            return bool(_ORDER_FUNCTIONS[node.operator](_number(left, node), _number(right, node)))
        if node.operator in {Operator.EQUAL, Operator.UNEQUAL}:
            return _equal(left, right) is (node.operator is Operator.EQUAL)
        if left is None or right is None:
            return False
        whole, part = _text(left, node.left), _text(right, node.right)
        return part in whole if node.operator is Operator.CONTAINS else whole.startswith(part)


def _equal(left: _Value, right: _Value) -> bool:
    if isinstance(right, str) and not isinstance(left, str):
        left, right = right, left
    if not isinstance(left, str):
        return type(left) is type(right) and left == right
    if isinstance(right, bool):
        return left.strip().lower() == str(right).lower()
    if isinstance(right, Decimal):
        return _as_number(left) == right
    return left == right


def _as_number(value: _Value) -> Decimal | None:
    if isinstance(value, str) and NUMBER.fullmatch(value.strip()):
        return Decimal(value.strip())
    return value if isinstance(value, Decimal) else None


def _number(value: _Value, node: Comparison) -> Decimal:
    number = _as_number(value)
    if number is None:
        shown = "a value that is missing" if value is None else repr(value)[:_MAX_SHOWN]
        raise UndecidableError(f"{node.operator.value!r} compares numbers, and got {shown}", node.position)
    return number


def _text(value: _Value, node: Expression) -> str:
    if isinstance(value, Decimal) and isinstance(node, Literal):
        return node.text
    return str(value).lower() if isinstance(value, bool) else str(value)


PerformSkill: TypeAlias = "Callable[[str, Mapping[str, str], str | None, str], Awaitable[RunOutcome]]"
"""A callback that performs a skill: its target, its parameters, the user's message, and the name of the step.

A skill that cannot be performed yields an outcome; an exception leaves the step unfinished. Run ID and step name
together are the idempotency key of side effects: an interrupted step is performed again.
"""


@dataclass(frozen=True, slots=True)
class _RunInput:
    """The input of a run, as digests, to keep the journal small."""

    workflow: str
    inputs: str
    targets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _StepResult:
    """The result of a step; `found` is the skill's digest if it differs from the one at the start of the run."""

    outcome: RunOutcome | None
    found: str | None = None


class _Stopped(Exception):  # noqa: N818 - ends the workflow, not an error
    def __init__(self, problem: WorkflowProblem, message: str, status: RunStatus = RunStatus.FAILED) -> None:
        super().__init__(message)
        self.problem = problem
        self.message = message
        self.status = status


async def run_workflow(
    plan: Plan,
    perform: PerformSkill,
    journal: Journal,
    *,
    digest_of: Callable[[str], str | None],
    report: ProgressCallback = discard_progress,
) -> WorkflowOutcome:
    """Run a plan, or the rest of it, and return its outcome.

    A failed step ends the workflow. `digest_of` returns the current digest of a target's skill: if it is not the one
    from the start of the run, the workflow ends before that step.
    """
    run = _WorkflowRun(plan, perform, journal, digest_of, report)
    stopped: _Stopped | None = None
    try:
        await run.begin()
        await run.steps(plan.workflow.steps)
    except _Stopped as end:
        stopped = end
    return WorkflowOutcome(
        run_id=journal.run_id,
        workflow=plan.workflow.name,
        digest=plan.workflow.digest,
        status=stopped.status if stopped else RunStatus.COMPLETED,
        steps=run.all_records(),
        output=run.previous or "",
        problem=stopped.problem if stopped else None,
        message=stopped.message if stopped else "",
    )


class _WorkflowRun:
    """One run and the records of its steps. `previous` is the output of the last skill, None before the first."""

    def __init__(
        self,
        plan: Plan,
        perform: PerformSkill,
        journal: Journal,
        digest_of: Callable[[str], str | None],
        report: ProgressCallback,
    ) -> None:
        self._plan = plan
        self._perform = perform
        self._journal = journal
        self._digest_of = digest_of
        self._report = report
        self._pinned = plan.targets
        self._records: dict[str, StepRecord] = {}
        self.previous: str | None = None

    async def begin(self) -> None:
        """Record the input of the run, or compare with the record; the recorded digests of skills stay pinned."""
        own = _RunInput(self._plan.workflow.digest, _digest_of_inputs(self._plan.inputs), dict(self._plan.targets))

        async def work() -> JsonValue:
            return to_json(own)

        begun = from_json(_RunInput, await self._journal.step("begin", work))
        if begun.workflow != own.workflow:
            message = f"the run was started with another version of the workflow ({begun.workflow}); start a new run"
            raise _Stopped(WorkflowProblem.WORKFLOW_CHANGED, message)
        if begun.inputs != own.inputs:
            raise _Stopped(WorkflowProblem.INPUTS_CHANGED, "the run was started with other inputs; start a new run")
        self._pinned = begun.targets

    async def steps(self, steps: Iterable[Step]) -> str | None:
        """Run steps one after another; return the last output, if any."""
        last = None
        for step in steps:
            output = await (self._skill(step) if isinstance(step, SkillStep) else self._conditional(step))
            last = last if output is None else output
        return last

    def all_records(self) -> tuple[StepRecord, ...]:
        """Return the record of each step of the workflow."""
        steps = all_steps(self._plan.workflow.steps)
        return tuple(self._records.get(step.name) or _record(step, StepStatus.NOT_REACHED) for step in steps)

    async def _conditional(self, step: ConditionalStep) -> str | None:
        try:
            held = holds(step.condition, self._value_of)
        except UndecidableError as error:
            self._note(_record(step, StepStatus.FAILED))
            message = f"the condition of {step.name!r} cannot be decided: {error.message}"
            raise _Stopped(WorkflowProblem.UNDECIDED, message) from None
        taken, left = (step.then, step.otherwise) if held else (step.otherwise, step.then)
        for each in all_steps(left):
            self._note(_record(each, StepStatus.SKIPPED))
        try:
            output = await self.steps(taken)
        except _Stopped:
            self._note(_record(step, StepStatus.FAILED, held=held))
            raise
        self._note(_record(step, StepStatus.DONE, output, held=held))
        return output

    async def _skill(self, step: SkillStep) -> str:
        await self._tell(step)
        try:
            parameters = {name: text.filled(self._value_of) for name, text in step.parameters.items()}
            message = step.message.filled(self._value_of) if step.message else None
        except TextTooLongError:
            self._note(_record(step, StepStatus.FAILED))
            too_long = f"a text of the step {step.name!r} is too long once its references are filled in"
            raise _Stopped(WorkflowProblem.TEXT_TOO_LONG, too_long) from None

        async def work() -> JsonValue:
            return to_json(await self._perform_step(step, parameters, message))

        performed = from_json(_StepResult, await self._journal.step(step.name, work))
        output = self._conclude(step, performed)
        await self._tell(step)
        return output

    async def _perform_step(self, step: SkillStep, parameters: Mapping[str, str], message: str | None) -> _StepResult:
        pinned, now = self._pinned.get(step.target), self._digest_of(step.target)
        if now != pinned:
            return _StepResult(None, now or "none")
        outcome = await self._perform(step.target, parameters, message, step.name)
        return _StepResult(outcome, None if outcome.digest in {None, pinned} else outcome.digest)

    def _conclude(self, step: SkillStep, performed: _StepResult) -> str:
        """Record the result of a step, and return its output.

        Raises:
            _Stopped: the step failed.
        """
        outcome = performed.outcome
        if outcome is None or performed.found is not None:
            self._note(_record(step, StepStatus.FAILED, outcome=outcome))
            was = self._pinned.get(step.target)
            message = f"the skill {step.target!r} has changed since the run began, from {was} to {performed.found}"
            raise _Stopped(WorkflowProblem.SKILL_CHANGED, message)
        if outcome.status is not RunStatus.COMPLETED:
            self._note(_record(step, StepStatus.FAILED, outcome.output or None, outcome=outcome))
            why = ": ".join(filter(None, (outcome.status, outcome.problem, outcome.message)))
            status = RunStatus.CANCELLED if outcome.status is RunStatus.CANCELLED else RunStatus.FAILED
            raise _Stopped(WorkflowProblem.STEP_FAILED, f"the step {step.name!r} did not complete: {why}", status)
        self._note(_record(step, StepStatus.DONE, outcome.output, outcome=outcome))
        self.previous = outcome.output
        return outcome.output

    def _value_of(self, reference: Reference) -> str | None:
        if reference.referent is Referent.INPUT:
            return self._plan.inputs.get(reference.name)
        if reference.referent is Referent.PREVIOUS:
            return self.previous
        record = self._records.get(reference.name)
        return record.output if record else None

    def _note(self, record: StepRecord) -> None:
        self._records[record.name] = record

    async def _tell(self, step: SkillStep) -> None:
        """Report progress: the number of finished skills, and the current step."""
        skills = self._plan.workflow.skill_steps
        done = sum(each.name in self._records for each in skills)
        await self._report(Progress(done, len(skills), f"{step.name} ({step.target})"))


def _record(
    step: Step,
    status: StepStatus,
    output: str | None = None,
    *,
    held: bool | None = None,
    outcome: RunOutcome | None = None,
) -> StepRecord:
    kind = StepKind.SKILL if isinstance(step, SkillStep) else StepKind.CONDITIONAL
    return StepRecord(step.name, kind, status, output, held, outcome)


def _digest_of_inputs(inputs: Mapping[str, str]) -> str:
    text = json.dumps(dict(inputs), sort_keys=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
