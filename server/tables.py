"""Tables for people; apart from `report`, so that only who looks at one imports `rich`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from server.report import folder_of
from skills_core.diagnostics import Severity, one_line

if TYPE_CHECKING:
    from skills_core.catalog import Catalog

__all__ = ["print_status"]

_WIDE = 10_000


def print_status(catalog: Catalog) -> None:
    """Print the table of all skills, and below it what is wrong with them."""
    colours = {"active": "green", "excluded": "yellow", "shadowed": "yellow", "invalid": "red"}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("skill", "state", "why", "folder"):
        table.add_column(heading, overflow="fold")
    for skill in catalog.skills:
        state = f"[{colours[skill.state.value]}]{skill.state.value}[/]"
        why = f"{skill.reason.value}: {skill.detail}" if skill.reason else ""
        table.add_row(escape(one_line(skill.key)), state, escape(one_line(why)), escape(one_line(folder_of(skill))))
    console = Console(highlight=False)
    if not console.is_terminal:
        # What reads a pipe wants whole lines.
        console = Console(highlight=False, width=_WIDE)
    console.print(table)
    counts = Counter(skill.state.value for skill in catalog.skills)
    console.print(f"\n{len(catalog.skills)} skills: " + ", ".join(f"{counts[state]} {state}" for state in colours))
    found = [diagnostic for skill in catalog.skills for diagnostic in skill.diagnostics]
    for diagnostic in (*catalog.problems, *found):
        if diagnostic.severity is not Severity.INFO:
            console.print(escape(str(diagnostic)), soft_wrap=True)
