"""Write the report files of results, and print their gates: what `eval`, `triggers` and `report` have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from server.cli.console import print_text
from server.evals.report.ci_files import junit, markdown
from server.evals.report.gates import GateOutcome
from server.evals.report.writing import write_text
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from server.evals.report.gates import Gate
    from server.evals.report.model import Workspace

__all__ = ["ReportFiles", "gate_objects", "gates_pass", "next_step", "print_gates"]


class ReportFiles(NamedTuple):
    """The files that the user asked for."""

    junit: Path | None = None
    markdown: Path | None = None

    def write(self, results: Workspace, gates: Sequence[Gate]) -> None:
        """Write the files.

        Raises:
            ReportError: a file cannot be written.
        """
        if self.junit is not None:
            write_text(self.junit, junit(results))
        if self.markdown is not None:
            write_text(self.markdown, markdown(results, gates))


def print_gates(gates: Sequence[Gate]) -> None:
    """Print a line for each gate."""
    for gate in gates:
        print_text(one_line(f"{gate.outcome}: {gate.name}: {gate.words}"))


def gate_objects(gates: Sequence[Gate]) -> list[dict[str, Any]]:
    """Return the gates as `--json` prints them."""
    return [{"name": gate.name, "outcome": gate.outcome.value, "reason": gate.words} for gate in gates]


def gates_pass(gates: Sequence[Gate]) -> bool:
    """Tell whether every gate passes; one without a verdict does not."""
    return all(gate.outcome is GateOutcome.PASSED for gate in gates)


def next_step(workspace: Path) -> str:
    """Return the line that says where the report is, and how to open it."""
    return one_line(
        f"Report: {workspace / 'report.html'}; `skillserve report {workspace} --open` opens it for feedback"
    )
