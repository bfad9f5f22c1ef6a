"""The values of a workflow: its steps and their templates, and what became of them in a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from skills_core.runs.outcome import UNKNOWN_TRIGGER, RunOutcome, RunStatus
from skills_core.runs.workflow.conditions import CLOSING, OPENING, Reference, read_reference

if TYPE_CHECKING:
    from skills_core.runs.workflow.conditions import Condition

MAX_FILLED: Final = 1_000_000
"""Most characters of a filled template: it can refer to a long output many times."""

_BRACES: Final = ("'{{'", '"{{"')
"""Inside braces, an escape for two literal opening braces."""


class TextTooLongError(Exception):
    """A filled template would exceed `MAX_FILLED` characters."""


@dataclass(frozen=True, slots=True)
class Template:
    """A text split into literal parts and references; `text` is the source."""

    text: str
    parts: tuple[str | Reference, ...]

    @property
    def references(self) -> tuple[Reference, ...]:
        """The references, in order."""
        return tuple(part for part in self.parts if isinstance(part, Reference))

    def filled(self, value_of: Callable[[Reference], str | None]) -> str:
        """Return the text with each reference replaced by its value; a missing value is empty.

        Raises:
            TextTooLongError: the result would exceed `MAX_FILLED` characters.
        """
        pieces = [value_of(part) or "" if isinstance(part, Reference) else part for part in self.parts]
        if sum(map(len, pieces)) > MAX_FILLED:
            raise TextTooLongError
        return "".join(pieces)


def parse_template(text: str) -> Template:
    """Parse a text with references; `{{'{{'}}` stands for two literal opening braces.

    Raises:
        ParseError: the text in braces is not a reference.
    """
    parts: list[str | Reference] = []
    end = 0
    while (start := text.find(OPENING, end)) >= 0:
        parts.append(text[end:start])
        braces = next((each for each in _BRACES if text.startswith(each + CLOSING, start + len(OPENING))), None)
        if braces is not None:
            parts.append(OPENING)
            end = start + len(OPENING) + len(braces) + len(CLOSING)
        else:
            reference, end = read_reference(text, start)
            parts.append(reference)
    parts.append(text[end:])
    return Template(text, tuple(part for part in parts if part))


class StepKind(StrEnum):
    """The kinds of steps."""

    SKILL = "skill"
    CONDITIONAL = "conditional"


@dataclass(frozen=True, slots=True)
class FieldLocation:
    """The location of a field in its document: its path, and the lines of the document's fields by path."""

    field: str
    lines: Mapping[str, int]

    def within(self, name: str | int) -> FieldLocation:
        """Return the location of a field, or an item of a list, within this one."""
        if isinstance(name, int):
            return FieldLocation(f"{self.field}[{name}]", self.lines)
        return FieldLocation(f"{self.field}.{name}" if self.field else name, self.lines)

    @property
    def line(self) -> int | None:
        """The line in the file, or that of the nearest enclosing field with a line."""
        field = self.field
        while field and field not in self.lines:
            field = field[: max(field.rfind("."), field.rfind("["), 0)]
        return self.lines.get(field)


@dataclass(frozen=True, slots=True)
class WorkflowInput:
    """An input of a workflow, a text."""

    name: str
    default: str | None = None
    required: bool = True
    description: str = ""


@dataclass(frozen=True, slots=True)
class SkillStep:
    """A step that performs a skill: `target` names it, `parameters` fill its body, `message` is the user's message."""

    name: str
    target: str
    parameters: Mapping[str, Template]
    message: Template | None
    at: FieldLocation = field(compare=False)

    @property
    def templates(self) -> Iterator[tuple[FieldLocation, Template]]:
        """The templates that are filled when the step starts, each with its location."""
        for name, template in self.parameters.items():
            yield self.at.within("parameters").within(name), template
        if self.message is not None:
            yield self.at.within("message"), self.message


@dataclass(frozen=True, slots=True)
class ConditionalStep:
    """A branch: runs `then` if the condition holds, else `otherwise`, which may be empty."""

    name: str
    condition: Condition
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]
    at: FieldLocation = field(compare=False)


Step: TypeAlias = SkillStep | ConditionalStep


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow. `text` is its document, `digest` the digest of the document's bytes."""

    name: str
    description: str
    version: str | None
    tags: tuple[str, ...]
    inputs: Mapping[str, WorkflowInput]
    steps: tuple[Step, ...]
    text: str
    digest: str

    @property
    def skill_steps(self) -> tuple[SkillStep, ...]:
        """All steps that perform a skill, in the order of the document."""
        return tuple(step for step in all_steps(self.steps) if isinstance(step, SkillStep))


def all_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield each step and all steps within it, in the order of the document."""
    for step in steps:
        yield step
        if isinstance(step, ConditionalStep):
            yield from all_steps(step.then)
            yield from all_steps(step.otherwise)


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
