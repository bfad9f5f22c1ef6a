"""The lines that `eval` prints without --json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.evals.report.model import WITH_SKILL
from skills_core.diagnostics import counted, one_line
from skills_core.evals.grading.judging import TIE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["report_lines"]

_METRICS = {"pass_rate": "pass rate", "time_seconds": "seconds", "tokens": "tokens"}


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the summary of both arms, the verdict, and the notes."""
    summary = report["run_summary"]
    arms = [name for name in summary if name != "delta"]
    yield one_line(f"{report['skill']['name']}, iteration {report['iteration']}: {report['path']}")
    yield "  ".join([f"{'':<10}", *(f"{name:>22}" for name in arms), f"{'delta':>10}"])
    for metric, title in _METRICS.items():
        cells = [f"{_spread(summary[name][metric]):>22}" for name in arms]
        yield "  ".join([f"{title:<10}", *cells, f"{_signed(summary['delta'][metric]):>10}"])
    for name, found in report["intervals"]["cases"].items():
        low, high = found["interval"]["low"], found["interval"]["high"]
        cases = counted(found["total"], "case")
        yield f"{name}: {found['passed']} of {cases} pass (95 % interval {low:.2f} to {high:.2f})"
    yield from map(one_line, report["notes"])
    for case in (report.get("comparison") or {}).get("cases", ()):
        winner = "a tie" if case["winner"] == TIE else f"{case['winner']} is better"
        ratio = case["length_ratio"]
        length = "" if ratio is None else f"; the result of {WITH_SKILL} is {ratio:.2f} times as long"
        yield one_line(f"{case['case']}: blind comparison: {winner}{length}")


def _spread(value: Mapping[str, Any]) -> str:
    if value["mean"] is None:
        return "unknown"
    return f"{value['mean']:,.2f} ± {value['stddev']:,.2f}"


def _signed(value: float | None) -> str:
    return "unknown" if value is None else f"{value:+,.2f}"
