"""Checks the references of a workflow before its first step: to skills in a catalog, to inputs, and between steps.

A step may refer to steps that surely or possibly ran before it. The output of a step that did not run is `null` in a
condition and empty in a text; for texts a warning says so. It is an error to refer to a step that can never have run
before: a later step, one in the other branch, or one that depends on the referring step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skills_core.diagnostics import Severity
from skills_core.errors import UnknownSkillError, did_you_mean, similar_to
from skills_core.rendering.activation import FREE_ARGUMENT, parameters_of
from skills_core.run.workflow.dependencies import Dependencies
from skills_core.run.workflow.faults import FaultCode, Faults, WorkflowFault
from skills_core.run.workflow.model import ConditionalStep, SkillStep
from skills_core.run.workflow.parse_errors import excerpt_at
from skills_core.run.workflow.references import Reference, Referent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skills_core.catalog import Catalog
    from skills_core.run.workflow.model import FieldLocation, Step, Workflow

__all__ = ["check_workflow"]


@dataclass(frozen=True, slots=True)
class _Completed:
    """The steps completed before a step, as names in `surely` and `maybe`; the flags say the same of any skill."""

    surely: frozenset[str] = field(default_factory=frozenset)
    maybe: frozenset[str] = field(default_factory=frozenset)
    some_surely: bool = False
    some_maybe: bool = False

    def with_skill(self, step: SkillStep) -> _Completed:
        return _Completed(self.surely | {step.name}, self.maybe, some_surely=True, some_maybe=True)

    def with_branches(self, step: ConditionalStep, then: _Completed, otherwise: _Completed) -> _Completed:
        """Return what is completed after a conditional step, which takes one branch."""
        both = then.surely & otherwise.surely
        either = then.surely | otherwise.surely | then.maybe | otherwise.maybe
        has_output = _has_output(step)
        surely = both | ({step.name} if has_output else set())
        some = then.some_surely and otherwise.some_surely
        return _Completed(surely, (either | {step.name}) - surely, some, then.some_maybe or otherwise.some_maybe)


def check_workflow(workflow: Workflow, catalog: Catalog) -> tuple[WorkflowFault, ...]:
    """Return all faults of a workflow's references, in the order of lines."""
    checker = _Checker(workflow, catalog)
    checker.walk(workflow.steps, _Completed())
    return checker.faults.in_order()


def _has_output(step: Step) -> bool:
    """Tell whether a step has an output on every path."""
    if isinstance(step, SkillStep):
        return True
    return any(map(_has_output, step.then)) and any(map(_has_output, step.otherwise))


class _Checker:
    def __init__(self, workflow: Workflow, catalog: Catalog) -> None:
        self.faults = Faults()
        self._workflow = workflow
        self._catalog = catalog
        self._dependencies = Dependencies(workflow.steps)

    def walk(self, steps: Iterable[Step], done: _Completed) -> _Completed:
        """Check steps that start after `done`; return what is completed after them."""
        for step in steps:
            if isinstance(step, SkillStep):
                self._target(step)
                for at, template in step.templates:
                    self._references(step, at, template.text, template.references, done, in_text=True)
                done = done.with_skill(step)
            else:
                at, condition = step.at.within("condition"), step.condition
                self._references(step, at, condition.text, condition.references, done, in_text=False)
                done = done.with_branches(step, self.walk(step.then, done), self.walk(step.otherwise, done))
        return done

    def _add(
        self, code: FaultCode, message: str, at: FieldLocation, *, warning: bool = False, excerpt: str = ""
    ) -> None:
        severity = Severity.WARNING if warning else Severity.ERROR
        self.faults.add(WorkflowFault(severity, code, message, at.field, at.line, excerpt))

    def _target(self, step: SkillStep) -> None:
        if not step.target:
            return
        try:
            skill = self._catalog.skill(step.target)
        except UnknownSkillError as error:
            self._add(FaultCode.UNKNOWN_TARGET, str(error), step.at.within("target"))
            return
        known = parameters_of(skill.body)
        for name in step.parameters:
            if name not in known and name != FREE_ARGUMENT:
                expected = f"known are {', '.join(known[:20])}" if known else "it has none"
                missing = f"the body of {skill.key!r} has no parameter {name[:60]!r}"
                message = f"{missing}, so its value is appended to the body; {expected}"
                self._add(FaultCode.UNKNOWN_PARAMETER, message, step.at.within("parameters").within(name), warning=True)

    def _references(
        self,
        step: Step,
        at: FieldLocation,
        text: str,
        references: Iterable[Reference],
        done: _Completed,
        *,
        in_text: bool,
    ) -> None:
        for reference in references:
            if self.faults.full:
                return
            fault = self._fault(step, reference, done)
            if fault is not None:
                self._add(*fault, at, excerpt=excerpt_at(text, reference.position))
            elif in_text and self._may_be_missing(reference, done):
                message = f"{reference} is empty if its step did not run"
                excerpt = excerpt_at(text, reference.position)
                self._add(FaultCode.MAY_BE_MISSING, message, at, warning=True, excerpt=excerpt)

    def _may_be_missing(self, reference: Reference, done: _Completed) -> bool:
        if reference.referent is Referent.PREVIOUS:
            return not done.some_surely
        return reference.referent is Referent.STEP and reference.name not in done.surely

    def _fault(self, step: Step, reference: Reference, done: _Completed) -> tuple[FaultCode, str] | None:
        name = reference.name
        if reference.referent is Referent.INPUT and name not in self._workflow.inputs:
            hint = _suggestion(name, self._workflow.inputs)
            return FaultCode.UNKNOWN_INPUT, f"there is no input {name[:60]!r}; declare it under 'inputs'{hint}"
        if reference.referent is Referent.PREVIOUS and not done.some_maybe:
            return FaultCode.LATER_STEP, f"no skill is performed before {step.name!r}"
        if reference.referent is not Referent.STEP or name in done.surely or name in done.maybe:
            return None
        return self._never_done(step, name)

    def _never_done(self, step: Step, name: str) -> tuple[FaultCode, str]:
        if name not in self._dependencies.names:
            return (
                FaultCode.UNKNOWN_STEP,
                f"there is no step {name[:60]!r}{_suggestion(name, self._dependencies.names)}",
            )
        if cycle := self._dependencies.cycle(step.name, name):
            return FaultCode.CIRCULAR, f"circular reference: {' → '.join(map(repr, cycle))}"
        if self._dependencies.are_exclusive(step.name, name):
            return FaultCode.OTHER_BRANCH, f"{name!r} is in the other branch, so it never runs together with this step"
        return FaultCode.LATER_STEP, f"{name!r} comes later; a step can refer only to earlier steps"


def _suggestion(name: str, known: Iterable[str]) -> str:
    return did_you_mean(similar_to(name, known)[:1], "; did")
