"""A plan: a workflow checked against a catalog, with its inputs, and with each skill pinned by its digest.

A plan is the input of a durable run. As JSON it contains the document itself, so that a continued run follows the
document that it started with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import Severity
from skills_core.errors import InvalidRecordError, did_you_mean, similar_to
from skills_core.run.json_codec import from_json, to_json
from skills_core.run.workflow.check import check_workflow
from skills_core.run.workflow.document import read_workflow
from skills_core.run.workflow.faults import FaultCode, Faults, InvalidWorkflowError, WorkflowFault, in_order, is_valid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.catalog import Catalog
    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.run.workflow.document import ReadWorkflow
    from skills_core.run.workflow.model import Workflow

__all__ = ["Plan", "plan_from_json", "plan_to_json", "prepare", "validate_workflow"]

MAX_INPUT: Final = 200_000
"""Most characters of one input."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked workflow, the values of its inputs, and the digest of each skill that it names."""

    workflow: Workflow
    inputs: Mapping[str, str]
    targets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Recorded:
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
    return to_json(_Recorded(workflow.name, workflow.text, workflow.digest, plan.inputs, plan.targets))


def plan_from_json(record: JsonValue) -> Plan:
    """Decode a recorded plan; changes of its skills since then are found when it runs.

    Raises:
        InvalidRecordError: the record is not a plan.
    """
    recorded = from_json(_Recorded, record)
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
