"""The results, for a person's terminal and as JSON."""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from edits import DEBOUNCE_MS

if TYPE_CHECKING:
    from measure import Effort, Outcome

NAME, COLUMN = 36, 14


def table(outcome: Outcome) -> str:
    """Lay out one case in fewer than 100 columns."""
    case = outcome.case
    lines = [
        f"{case.skills:,} skills, {case.transport}, {case.era} era ({case.era.protocol})",
        _row("milliseconds", "floor", "ours", "ours / floor"),
        "-" * (NAME + 3 * COLUMN),
        *(_row(each.name, _ms(each.floor_ms), _ms(each.ours_ms), f"{each.ratio:.2f}") for each in outcome.figures),
        _edit_row(outcome.edits_ms),
    ]
    if outcome.edits_missed:
        lines.append(f"  edits: {outcome.edits_missed[:85]}")
    if outcome.differing:
        lines.append(f"  NOT COMPARABLE, the floor answers differently: {', '.join(outcome.differing)}")
    return "\n".join(lines) + "\n"


def as_json(outcomes: list[Outcome], effort: Effort) -> dict[str, Any]:
    """Every figure with the circumstances it was measured under."""
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
        "figures": [{**asdict(figure), "ratio": figure.ratio} for figure in outcome.figures],
        "edit_to_notification": {
            "debounce_ms": DEBOUNCE_MS,
            "median_ms": statistics.median(edits) if edits else None,
            "beyond_debounce_ms": statistics.median(edits) - DEBOUNCE_MS if edits else None,
            "samples": len(edits),
            "missed": outcome.edits_missed or None,
        },
    }


def _edit_row(edits: list[float]) -> str:
    name = "edit to notification, past debounce"
    if not edits:
        return _row(name, "-", "none seen", "")
    return _row(name, "-", _ms(statistics.median(edits) - DEBOUNCE_MS), f"(+{DEBOUNCE_MS} wait)")


def _row(name: str, floor: str, ours: str, ratio: str) -> str:
    return f"{name:<{NAME}}{floor:>{COLUMN}}{ours:>{COLUMN}}{ratio:>{COLUMN}}".rstrip()


def _ms(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"  # noqa: PLR2004 - where decimals are noise
