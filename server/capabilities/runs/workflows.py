"""Read workflow files, validate them against a catalog, and list and plan those that clients may run."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.config.values import home_path
from server.listing.envelope import text_block, tool_result
from server.requests import RequestReason, note_invalid
from skills_core.diagnostics import Reason, Severity, one_line, printable
from skills_core.disk.files import read_bounded
from skills_core.errors import FileRefusedError, SkillsError, UnknownSkillError, did_you_mean, similar_to
from skills_core.rendering.escaping import escape_json
from skills_core.runs.workflow.document import MAX_BYTES, read_workflow
from skills_core.runs.workflow.faults import FaultCode, WorkflowFault, is_valid
from skills_core.runs.workflow.plan import prepare, validate_workflow

if TYPE_CHECKING:
    from skills_core.catalog.catalog import Catalog
    from skills_core.runs.workflow.model import Workflow
    from skills_core.runs.workflow.plan import Plan


_SUFFIXES = frozenset({".yaml", ".yml"})


class UnknownWorkflowError(SkillsError):
    """The workflow does not exist, or its file cannot be read."""


@dataclass(frozen=True, slots=True)
class WorkflowValidation:
    """The result of validating one file; `name` and `digest` are None if the file contains no workflow."""

    path: str
    name: str | None
    digest: str | None
    faults: tuple[WorkflowFault, ...]
    found: bool = True

    @property
    def valid(self) -> bool:
        """Whether the workflow can be run."""
        return is_valid(self.faults)


def validate_file(path: Path, catalog: Catalog) -> WorkflowValidation:
    """Validate the workflow in a file against a catalog; `found` is false if the file cannot be read."""
    where = printable(str(path))
    try:
        raw = read_bounded(path, MAX_BYTES)
    except FileRefusedError as error:
        code = FaultCode.LIMIT if error.reason is Reason.TOO_LARGE else FaultCode.UNREADABLE
        return _unreadable(where, code, error.message)
    if raw is None:
        return _unreadable(where, FaultCode.UNREADABLE, "there is no such file")
    validated = validate_workflow(raw, printable(path.stem), catalog)
    if validated.workflow is None:
        return WorkflowValidation(where, None, None, validated.faults)
    return WorkflowValidation(where, validated.workflow.name, validated.workflow.digest, validated.faults)


def _unreadable(where: str, code: FaultCode, message: str) -> WorkflowValidation:
    return WorkflowValidation(where, None, None, (WorkflowFault(Severity.ERROR, code, message),), found=False)


def read_workflow_file(path: Path) -> bytes:
    """Return the bytes of a workflow file.

    Raises:
        UnknownWorkflowError: the file cannot be read.
    """
    try:
        raw = read_bounded(path, MAX_BYTES)
    except FileRefusedError as error:
        raise UnknownWorkflowError(str(error)) from None
    if raw is None:
        raise UnknownWorkflowError(f"{printable(str(path))}: there is no such file")
    return raw


def workflow_files(places: Iterable[str]) -> dict[str, Path]:
    """Return the configured workflow files by their names without suffix; the first file of a name wins."""
    found: dict[str, Path] = {}
    for folder in map(home_path, places):
        files = sorted(each for each in folder.iterdir() if each.suffix in _SUFFIXES) if folder.is_dir() else [folder]
        for file in files:
            found.setdefault(file.stem, file)
    return found


def workflows_object(results: Iterable[WorkflowValidation]) -> dict[str, Any]:
    """Return the object that `workflow validate --json` prints."""
    return {
        "results": [
            {
                "path": result.path,
                "valid": result.valid,
                "name": result.name,
                "digest": result.digest,
                "diagnostics": [_fault_object(fault, result.path) for fault in result.faults],
            }
            for result in results
        ]
    }


def workflow_lines(results: Sequence[WorkflowValidation]) -> Iterator[str]:
    """Yield the lines that `workflow validate` prints without --json."""
    for result in results:
        for fault in result.faults:
            where = result.path if fault.line is None else f"{result.path}:{fault.line}"
            yield one_line(f"{where}: {fault.severity}[{fault.code}]: {fault}")
            yield from (f"    {line}" for line in fault.excerpt.splitlines())
    valid = sum(result.valid for result in results)
    yield f"{len(results)} checked: {valid} valid, {len(results) - valid} invalid"


def _fault_object(fault: WorkflowFault, path: str) -> dict[str, Any]:
    return {
        "severity": fault.severity.value,
        "code": fault.code.value,
        "message": fault.message,
        "path": path,
        "line": fault.line,
        "field": fault.field,
        "excerpt": fault.excerpt,
    }


logger = logging.getLogger(__name__)


def planned(
    places: Iterable[str], name: str, catalog: Catalog, inputs: Mapping[str, str], *, is_view: bool = False
) -> Plan:
    """Return the workflow of this name among `places`, checked, with its inputs.

    If the catalog `is_view`, which others see more of, a workflow with a step that it lacks is as unknown as its skill.

    Raises:
        UnknownWorkflowError: there is no such workflow.
        InvalidWorkflowError: the workflow or an input is invalid.
    """
    files = workflow_files(places)
    if is_view:
        files = {known: file for known, file in files.items() if _is_within(catalog, _read(known, file))}
    if name not in files:
        note_invalid(RequestReason.UNKNOWN_WORKFLOW)
        hint = did_you_mean(similar_to(name, files))
        raise UnknownWorkflowError(f"There is no workflow {name[:100]!r}.{hint}")
    return prepare(read_workflow_file(files[name]), name, catalog, inputs)


def listed(places: Iterable[str], view: Catalog | None = None) -> dict[str, Any]:
    """Return the list of the workflows without faults as a tool's result; log which files cannot be read.

    With a `view`, only workflows whose steps are all skills of it are listed.
    """
    found: list[dict[str, Any]] = []
    for name, file in workflow_files(places).items():
        workflow = _read(name, file)
        if workflow is not None and (view is None or _is_within(view, workflow)):
            found.append({"name": name, "description": workflow.description, "inputs": _inputs(workflow)})
    structured = {"status": "listed", "workflows": found}
    text = escape_json(found) if found else "There is no workflow that can be run here."
    return {**tool_result([text_block(text)]), "structuredContent": structured}


def _read(name: str, file: Path) -> Workflow | None:
    """Return the workflow in a file, None if there is none without faults."""
    try:
        read = read_workflow(read_workflow_file(file), name)
    except UnknownWorkflowError as error:
        logger.warning("a workflow is not listed: %s", error)
        return None
    return read.workflow if is_valid(read.faults) else None


def _is_within(view: Catalog, workflow: Workflow | None) -> bool:
    """Tell whether a workflow has no fault and no step that performs a skill outside a view."""
    if workflow is None:
        return False
    with suppress(UnknownSkillError):
        return all(view.skill(step.target, ()) for step in workflow.skill_steps)
    return False


def _inputs(workflow: Workflow) -> dict[str, Any]:
    return {
        each.name: {"description": each.description, "required": each.required, "default": each.default}
        for each in workflow.inputs.values()
    }
