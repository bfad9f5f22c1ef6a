"""Check a workflow against a catalog, and plan a run of it: its steps in order, with skills and inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from skills_core.diagnostics import Severity
from skills_core.errors import InvalidRecordError, UnknownSkillError, did_you_mean, similar_to
from skills_core.rendering.filling import FREE_ARGUMENT
from skills_core.runs.journal import from_json, to_json
from skills_core.runs.workflow.conditions import Reference, Referent, excerpt_at
from skills_core.runs.workflow.document import read_workflow
from skills_core.runs.workflow.faults import FaultCode, Faults, InvalidWorkflowError, WorkflowFault, in_order, is_valid
from skills_core.runs.workflow.model import ConditionalStep, SkillStep, all_steps

if TYPE_CHECKING:
    from skills_core.catalog.catalog import Catalog
    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.runs.workflow.document import ReadWorkflow
    from skills_core.runs.workflow.model import FieldLocation, Step, Workflow


class _Node(NamedTuple):
    """A step's output, or with `decision`, the choice of a conditional step's branch."""

    name: str
    decision: bool = False


class Dependencies:
    """The dependencies of each output and decision: the referenced steps, and the enclosing decisions."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._needs: dict[_Node, tuple[_Node, ...]] = {}
        self._branches: dict[str, dict[str, bool]] = {}
        self._add(steps, (), {})

    @property
    def names(self) -> Iterable[str]:
        """The names of all steps."""
        return self._branches

    def cycle(self, step: str, referred: str) -> tuple[str, ...]:
        """Return the cycle from `step`, which refers to `referred`, back to `step`; empty if there is none."""
        decision = _Node(step, decision=True)
        goal = decision if decision in self._needs else _Node(step)
        came_from: dict[_Node, _Node | None] = {_Node(referred): None}
        queue = [_Node(referred)]
        for node in queue:  # grows during the loop
            if node == goal:
                return (step, *_path_to(came_from, node))
            for need in self._needs.get(node, ()):
                if need not in came_from:
                    came_from[need] = node
                    queue.append(need)
        return ()

    def are_exclusive(self, one: str, other: str) -> bool:
        """Tell whether two steps are in different branches of the same conditional step."""
        theirs = self._branches[other]
        return any(theirs.get(name, branch) is not branch for name, branch in self._branches[one].items())

    def _add(self, steps: Iterable[Step], around: tuple[_Node, ...], branches: dict[str, bool]) -> None:
        for step in steps:
            self._branches[step.name] = branches
            if isinstance(step, SkillStep):
                own = [reference for _, template in step.templates for reference in template.references]
                self._needs[_Node(step.name)] = (*_step_nodes(own), *around)
                continue
            decision = _Node(step.name, decision=True)
            self._needs[decision] = (*_step_nodes(step.condition.references), *around)
            inner = (_Node(each.name) for each in all_steps((*step.then, *step.otherwise)))
            self._needs[_Node(step.name)] = (decision, *inner)
            self._add(step.then, (*around, decision), {**branches, step.name: True})
            self._add(step.otherwise, (*around, decision), {**branches, step.name: False})


def _path_to(came_from: dict[_Node, _Node | None], end: _Node) -> list[str]:
    """Return the names of the nodes on the path to `end`."""
    names: list[str] = []
    node: _Node | None = end
    while node is not None:
        names.append(node.name)
        node = came_from[node]
    return names[::-1]


def _step_nodes(references: Iterable[Reference]) -> tuple[_Node, ...]:
    return tuple(_Node(reference.name) for reference in references if reference.referent is Referent.STEP)


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
        known = skill.parameters
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


MAX_INPUT: Final = 200_000
"""Most characters of one input."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked workflow, the values of its inputs, and the digest of each skill that it names."""

    workflow: Workflow
    inputs: Mapping[str, str]
    targets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _RecordedPlan:
    name: str
    document: str
    digest: str
    inputs: Mapping[str, str]
    targets: Mapping[str, str]


def validate_workflow(raw: bytes, default_name: str, catalog: Catalog) -> ReadWorkflow:
    """Read a workflow and check it against a catalog; a workflow without a `name` gets `default_name`."""
    read = read_workflow(raw, default_name)
    if read.workflow is None:
        return read
    return replace(read, faults=in_order([*read.faults, *check_workflow(read.workflow, catalog)]))


def prepare(raw: bytes, default_name: str, catalog: Catalog, inputs: Mapping[str, str]) -> Plan:
    """Make a plan of the bytes of a workflow's file; everything is checked before the first step.

    Raises:
        InvalidWorkflowError: the workflow or the inputs have faults.
    """
    read = validate_workflow(raw, default_name, catalog)
    faults = (*read.faults, *(_faults_of(inputs, read.workflow) if read.workflow else ()))
    if read.workflow is None or not is_valid(faults):
        raise InvalidWorkflowError(read.workflow.name if read.workflow else default_name, faults)
    defaults = {name: each.default for name, each in read.workflow.inputs.items() if each.default is not None}
    named = {step.target for step in read.workflow.skill_steps}
    targets = {target: catalog.skill(target).digest or "" for target in sorted(named)}
    return Plan(read.workflow, {**defaults, **inputs}, targets)


def plan_to_json(plan: Plan) -> JsonObject:
    """Encode a plan as a JSON object for `plan_from_json`."""
    workflow = plan.workflow
    return to_json(_RecordedPlan(workflow.name, workflow.text, workflow.digest, plan.inputs, plan.targets))


def plan_from_json(record: JsonValue) -> Plan:
    """Decode a recorded plan; changes of its skills since then are found when it runs.

    Raises:
        InvalidRecordError: the record is not a plan.
    """
    recorded = from_json(_RecordedPlan, record)
    read = read_workflow(recorded.document.encode(), recorded.name)
    if read.workflow is None or not is_valid(read.faults) or read.workflow.digest != recorded.digest:
        raise InvalidRecordError("document", "it does not match the recorded digest")
    return Plan(read.workflow, recorded.inputs, recorded.targets)


def _faults_of(given: Mapping[str, str], workflow: Workflow) -> tuple[WorkflowFault, ...]:
    """Return the faults of the inputs for a workflow."""
    known, faults = workflow.inputs, Faults()
    for name, value in given.items():
        if faults.full:
            break  # looking for similar names takes time
        if name not in known:
            hint = did_you_mean(similar_to(name, known)[:1], "; did") or f"; known are {', '.join(known) or 'none'}"
            faults.add(_fault(FaultCode.UNKNOWN_INPUT, f"the workflow has no input {name[:60]!r}{hint}"))
        elif len(value) > MAX_INPUT:
            message = f"the input {name!r} has {len(value):,} characters; at most {MAX_INPUT:,}"
            faults.add(_fault(FaultCode.INVALID_INPUT, message))
    for name, each in known.items():
        if each.required and name not in given:
            about = f" ({each.description})" if each.description else ""
            faults.add(_fault(FaultCode.MISSING_INPUT, f"the input {name!r} needs a value{about}"))
    return faults.in_order()


def _fault(code: FaultCode, message: str) -> WorkflowFault:
    return WorkflowFault(Severity.ERROR, code, message)
