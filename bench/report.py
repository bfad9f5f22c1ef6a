"""Render the results as tables and as JSON."""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from edits import DEBOUNCE_MS

if TYPE_CHECKING:
    from cases import Effort, Figure, Outcome

NAME, COLUMN = 36, 14
LAST = 12
# Goals of the project. Missing one is not a failure, because times depend on the machine.
GOALS = "goals: skills/list within 1.30 of the floor; all other calls, first ones too, within 1.15"
START_GOAL = "goal: a cold start over stdio within 0.75 of the floor"
EDIT_GOAL = "goal: clients are notified within 30 ms after the debounce, for any number of skills"


def table(outcome: Outcome) -> str:
    """Render one case in fewer than 100 columns."""
    case = outcome.case
    lines = [
        f"{case.skills:,} skills, {case.transport}, {case.era} era ({case.era.protocol})",
        _row("milliseconds", "floor", "ours", "ours / floor", "p95 ratio"),
        "-" * (NAME + 3 * COLUMN + LAST),
        *map(_figure_row, outcome.figures),
        _edit_row(outcome.edits_ms),
        f"  {EDIT_GOAL}" if case.edits_only else f"  {GOALS}",
    ]
    if case.transport == "stdio" and not case.edits_only:
        lines.append(f"  {START_GOAL}")
    if not all(figure.steady for figure in outcome.figures):
        lines.append("  ~ unsteady times: the machine was busy, this ratio is not reliable")
    if outcome.edits_missed:
        lines.append(f"  edits: {outcome.edits_missed[:85]}")
    if outcome.differing:
        lines.append(f"  NOT COMPARABLE, the floor answers differently: {', '.join(outcome.differing)}")
    return "\n".join(lines) + "\n"


def as_json(outcomes: list[Outcome], effort: Effort) -> dict[str, Any]:
    """Return every figure, with the machine, the versions and the effort of the measurement."""
    return {
        "machine": {"system": platform.system(), "architecture": platform.machine(), "cores": os.cpu_count()},
        "versions": {"python": platform.python_version(), "mcp": version("mcp")},
        "effort": asdict(effort),
        "cases": [_case(outcome) for outcome in outcomes],
    }


def _case(outcome: Outcome) -> dict[str, Any]:
    case, edits = outcome.case, outcome.edits_ms
    return {
        "skills": case.skills,
        "transport": case.transport,
        "era": case.era,
        "protocol": case.era.protocol,
        "comparable": not outcome.differing,
        "differing": outcome.differing,
        "figures": [
            {**asdict(figure), "ratio": figure.ratio, "ratio_p95": figure.ratio_p95} for figure in outcome.figures
        ],
        "edit_to_notification": {
            "debounce_ms": DEBOUNCE_MS,
            "median_ms": statistics.median(edits) if edits else None,
            "beyond_debounce_ms": statistics.median(edits) - DEBOUNCE_MS if edits else None,
            "samples": len(edits),
            "missed": outcome.edits_missed or None,
        },
    }


def _figure_row(figure: Figure) -> str:
    ratio = f"{'' if figure.steady else '~ '}{figure.ratio:.2f}"
    p95 = f"{figure.ratio_p95:.2f}" if figure.ratio_p95 else ""
    return _row(figure.name, _ms(figure.floor_ms), _ms(figure.ours_ms), ratio, p95)


def _edit_row(edits: list[float]) -> str:
    name = "edit to notification, past debounce"
    if not edits:
        return _row(name, "-", "none seen", "")
    return _row(name, "-", _ms(statistics.median(edits) - DEBOUNCE_MS), f"(+{DEBOUNCE_MS} wait)")


def _row(name: str, floor: str, ours: str, ratio: str, p95: str = "") -> str:
    return f"{name:<{NAME}}{floor:>{COLUMN}}{ours:>{COLUMN}}{ratio:>{COLUMN}}{p95:>{LAST}}".rstrip()


def _ms(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"  # noqa: PLR2004 - from here on decimals are noise
