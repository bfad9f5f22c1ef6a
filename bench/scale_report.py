"""The rows of the measurement of scale, and their table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME, COLUMN = 48, 10


class Row(NamedTuple):
    """A figure of ours beside its limit; both in the unit that `name` ends with.

    `goal` is the ratio that the project aims for, or a text. `fault` says why there is no figure.
    """

    name: str
    ours: float | None
    limit: float | None = None
    goal: str = ""
    fault: str = ""

    @property
    def ratio(self) -> float | None:
        """Our figure divided by the limit."""
        return self.ours / self.limit if self.ours is not None and self.limit else None


def table(skills: int, rows: Iterable[Row]) -> str:
    """Render the rows of one size."""
    head = f"{skills:,} skills"
    lines = [f"{head:<{NAME}}{'ours':>{COLUMN}}{'limit':>{COLUMN}}{'ratio':>{COLUMN}}  goal"]
    lines.append("-" * (NAME + 3 * COLUMN + 8))
    for row in rows:
        figures = "".join(f"{_number(each):>{COLUMN}}" for each in (row.ours, row.limit, row.ratio))
        lines.append(f"{row.name:<{NAME}}{figures}  {row.fault or row.goal}".rstrip())
    return "\n".join(lines) + "\n"


def slopes(sizes: list[int], tables: list[list[Row]]) -> str:
    """Render the p50 of each request at the largest size, divided by that at the smallest, ours and the floor's."""
    first, last = ({row.name: row for row in rows if row.name.endswith("p50, ms")} for rows in (tables[0], tables[-1]))
    lines = [f"from {sizes[0]:,} to {sizes[-1]:,} skills, times{'':2}{'ours':>{COLUMN}}{'floor':>{COLUMN}}"]
    for name in first.keys() & last.keys():
        pairs = ((last[name].ours, first[name].ours), (last[name].limit, first[name].limit))
        grown = "".join(f"{_number(after / before if after and before else None):>{COLUMN}}" for after, before in pairs)
        lines.append(f"{name:<36}{grown}")
    return "\n".join([lines[0], *sorted(lines[1:])]) + "\n"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"  # noqa: PLR2004 - from here on decimals are noise
