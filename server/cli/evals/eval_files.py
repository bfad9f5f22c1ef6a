"""The report files and the gates of an eval that has ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.cli.evals.report_files import gate_objects
from server.evals.report.gates import ci_gates
from server.evals.report.workspace import read_workspace
from server.evals.report.writing import write_report

if TYPE_CHECKING:
    from server.cli.evals.report_files import ReportFiles
    from server.evals.report.gates import Gate

__all__ = ["write_files"]


def write_files(report: dict[str, Any], files: ReportFiles, **limits: float | None) -> tuple[Gate, ...]:
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
