"""Read workflow files, validate them against a catalog, and format the results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skills_core.diagnostics import Reason, Severity, one_line, printable
from skills_core.disk.files import read_bounded
from skills_core.errors import FileRefusedError, SkillsError
from skills_core.runs.workflow.document import MAX_BYTES
from skills_core.runs.workflow.faults import FaultCode, WorkflowFault, is_valid
from skills_core.runs.workflow.plan import validate_workflow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from skills_core.catalog.catalog import Catalog

__all__ = [
    "UnknownWorkflowError",
    "WorkflowValidation",
    "read_workflow_file",
    "validate_file",
    "workflow_files",
    "workflow_lines",
    "workflows_object",
]

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
    for place in map(Path, places):
        folder = place.expanduser()
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
