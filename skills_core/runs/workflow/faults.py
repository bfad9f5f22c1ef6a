"""Faults of a workflow, with one closed set of codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from skills_core.diagnostics import Severity, one_line
from skills_core.errors import SkillsError

MAX_FAULTS: Final = 200
"""Most faults that one pass over a document reports; a document may have tens of thousands."""


class FaultCode(StrEnum):
    """Every reason for a fault of a workflow. The values are part of the contract."""

    # The file
    UNREADABLE = "unreadable"
    NOT_UTF8 = "not_utf8"
    INVALID_YAML = "invalid_yaml"
    DUPLICATE_KEY = "duplicate_key"
    # Its fields
    MISSING_FIELD = "missing_field"
    UNKNOWN_FIELD = "unknown_field"
    INVALID_FIELD = "invalid_field"
    UNKNOWN_KIND = "unknown_kind"
    DUPLICATE_STEP = "duplicate_step"
    LIMIT = "limit"
    INVALID_CONDITION = "invalid_condition"
    INVALID_TEMPLATE = "invalid_template"
    # Their references
    UNKNOWN_TARGET = "unknown_target"
    UNKNOWN_PARAMETER = "unknown_parameter"
    UNKNOWN_STEP = "unknown_step"
    LATER_STEP = "later_step"
    OTHER_BRANCH = "other_branch"
    CIRCULAR = "circular"
    MAY_BE_MISSING = "may_be_missing"
    UNKNOWN_INPUT = "unknown_input"
    # The inputs of a run
    MISSING_INPUT = "missing_input"
    INVALID_INPUT = "invalid_input"


@dataclass(frozen=True, slots=True)
class WorkflowFault:
    """One fault of a workflow.

    `field` is its location in the document, as in `steps[1].subSteps[0].target`, empty for the whole document; `line`
    counts from 1 in the file, None if unknown. `excerpt` shows the position within a condition or a text, in two lines,
    the second with a caret.
    """

    severity: Severity
    code: FaultCode
    message: str
    field: str = ""
    line: int | None = None
    excerpt: str = ""

    def __str__(self) -> str:
        return one_line(f"{self.field}: {self.message}" if self.field else self.message)


class InvalidWorkflowError(SkillsError):
    """A workflow cannot be run; `faults` holds everything that is wrong with it and with what it was given."""

    def __init__(self, name: str, faults: tuple[WorkflowFault, ...]) -> None:
        errors = "; ".join(str(fault) for fault in faults if fault.severity == "error")
        super().__init__(f"The workflow {name[:200]!r} cannot be run: {errors}")
        self.name = name
        self.faults = faults


class Faults:
    """Collects faults of one document up to a limit; `full` says that it is reached."""

    def __init__(self) -> None:
        self._found: list[WorkflowFault] = []
        self.full = False

    def add(self, fault: WorkflowFault) -> None:
        """Add a fault."""
        if len(self._found) < MAX_FAULTS:
            self._found.append(fault)
        elif not self.full:
            self.full = True
            self._found.append(
                WorkflowFault(Severity.ERROR, FaultCode.LIMIT, "there are more faults; only the first are reported")
            )

    def in_order(self) -> tuple[WorkflowFault, ...]:
        """Return the faults sorted by line, each once."""
        return in_order(self._found)


def is_valid(faults: Iterable[WorkflowFault]) -> bool:
    """Tell whether none of the faults is an error."""
    return all(fault.severity is not Severity.ERROR for fault in faults)


def in_order(faults: Iterable[WorkflowFault]) -> tuple[WorkflowFault, ...]:
    """Return the faults sorted by line, each once; faults of one line keep their order."""
    return tuple(sorted(dict.fromkeys(faults), key=lambda fault: fault.line or 0))
