"""What a trigger test with an agent is expected to cost, and its report files and gates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from server.evals.report.gates import trigger_gates
from server.evals.report.workspace import read_workspace
from server.evals.report.writing import write_report
from server.evals.triggers.trigger_test import last_results

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from server.cli.evals.report_files import ReportFiles
    from server.evals.report.gates import Gate

__all__ = ["with_tokens", "write_files"]


def with_tokens(planned: Mapping[str, int], workspace: Path) -> dict[str, Any]:
    """Return planned costs with the tokens and the money that they take if runs are like those of the last test."""
    last = last_results(workspace)
    spent = last[1].get("costs") if last is not None else None
    spent = spent if isinstance(spent, dict) else {}
    made = spent.get("runs_made")

    def expected(name: str) -> float | None:
        value = spent.get(name)
        if isinstance(value, (int, float)) and isinstance(made, int) and value > 0 and made > 0:
            return value / made * planned["runs"]
        return None

    tokens, cost = expected("total_tokens"), expected("cost_usd")
    return {
        **planned,
        "tokens": None if tokens is None else round(tokens),
        "cost_usd": None if cost is None else round(cost, 4),
    }


def write_files(results: Path, files: ReportFiles, **limits: float | None) -> tuple[tuple[Gate, ...], Path]:
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
