"""The frozen values of a workflow, as its document defines it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from skills_core.run.workflow.conditions import Condition
    from skills_core.run.workflow.templates import Template

__all__ = [
    "ConditionalStep",
    "FieldLocation",
    "SkillStep",
    "Step",
    "StepKind",
    "Workflow",
    "WorkflowInput",
    "all_steps",
]


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
