"""Write the report files of results, and print their gates: what `eval`, `triggers` and `report` have in common."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from server.capabilities.evals.report.ci_files import junit, markdown
from server.capabilities.evals.report.gates import GateOutcome, ci_gates, trigger_gates
from server.capabilities.evals.report.workspace import read_workspace
from server.capabilities.evals.report.writing import write_report, write_text
from server.cli.console import print_text
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from server.capabilities.evals.report.gates import Gate
    from server.capabilities.evals.report.model import Workspace


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


def write_eval_files(report: dict[str, Any], files: ReportFiles, **limits: float | None) -> tuple[Gate, ...]:
    """Write the page and the files that the user asked for, enter them in `report`, and return the gates.

    Results of trigger queries in the same workspace are not judged.

    Raises:
        SkillsError: a file cannot be written.
    """
    workspace = Path(report["workspace"])
    results = replace(read_workspace(workspace), triggers=())
    gates = ci_gates(results, **limits)
    files.write(results, gates)
    report["report"] = str(write_report(workspace, gates=gates))
    report["gates"] = gate_objects(gates)
    return gates


def write_trigger_files(results: Path, files: ReportFiles, **limits: float | None) -> tuple[tuple[Gate, ...], Path]:
    """Write the page and the files that the user asked for; return the gates, and where the page is.

    Evals in the same workspace are not judged.

    Raises:
        SkillsError: a file cannot be written.
    """
    workspace = results.parent.parent
    found = replace(read_workspace(workspace), iterations=())
    gates = trigger_gates(found.triggers[-1], **limits)
    files.write(found, gates)
    return gates, write_report(workspace, gates=gates)
