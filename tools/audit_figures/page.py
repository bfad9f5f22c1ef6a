"""Write the figures of the audit as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.audit.registry import RULES
from tools.audit_figures.manifests import Kind, Part, read_cases
from tools.audit_figures.measure import measure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.audit_figures.measure import Counts, Figures

__all__ = ["tables"]


def tables() -> Iterator[str]:
    """Yield the lines of the tables: whole skills first, then each rule."""
    cases = read_cases()
    parts = {part: measure(case for case in cases if case.part is part) for part in Part}
    yield from _of_skills(parts)
    yield ""
    yield from _of_rules(parts)


def _of_skills(parts: dict[Part, Figures]) -> Iterator[str]:
    yield "| Part | Attacks found | Weaknesses found | Harmless skills with a false alarm |"
    yield "|---|---|---|---|"
    for part, figures in parts.items():
        shares = (f"{figures.found[kind]} of {figures.cases[kind]}" for kind in Kind)
        yield f"| {_TITLES[part]} | {' | '.join(shares)} |"


_TITLES = {Part.TRAIN: "training", Part.HELD_OUT: "held out"}


def _of_rules(parts: dict[Part, Figures]) -> Iterator[str]:
    yield "| Rule | Level | Precision, training | Recall, training | Precision, held out | Recall, held out |"
    yield "|---|---|---|---|---|---|"
    for rule in RULES:
        cells = (cell for figures in parts.values() for cell in _cells(figures.rules[rule.id]))
        yield f"| `{rule.id}` | {rule.severity} | {' | '.join(cells)} |"
    totals = (cell for figures in parts.values() for cell in _cells(figures.total))
    yield f"| **all** | | {' | '.join(totals)} |"


def _cells(counts: Counts) -> tuple[str, str]:
    return (
        _share(counts.precision, counts.right, counts.right + counts.wrong),
        _share(counts.recall, counts.right, counts.right + counts.missed),
    )


def _share(value: float | None, part: int, whole: int) -> str:
    return "-" if value is None else f"{value:.2f} ({part}/{whole})"
