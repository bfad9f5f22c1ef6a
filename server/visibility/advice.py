"""What to do so that a client shows more, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from server.visibility.repacking import Repacking
    from server.visibility.report import ClientView

__all__ = ["advice", "listed"]

_NAMED = 5
_TOO_SHORT = 100
"""Characters below which a description tells a model little more than the name."""


def advice(view: ClientView) -> Iterator[str]:
    """Yield one sentence for each thing that would change what the client shows, the most telling first."""
    if view.repacking.shown < view.repacking.offered:
        yield from _repacked(view.repacking)


def listed(names: Iterable[str], most: int = _NAMED) -> str:
    """Return the first of `names` in words, and how many more there are."""
    shown = list(names)
    more = f" and {len(shown) - most:,} more" if len(shown) > most else ""
    return ", ".join(map(one_line, shown[:most])) + more


def _repacked(packed: Repacking) -> Iterator[str]:
    if packed.advised:
        length, shown = packed.advised
        yield (
            f"With SKILLSERVE_ENTRY_LIMIT={length}, {shown:,} instead of {packed.shown:,} of {packed.offered:,} "
            "skills are in the catalog."
        )
    if packed.best is None:
        yield (
            f"Not even the names of all {packed.offered:,} fit into {packed.budget:,} characters: find_skills finds "
            "the others; serve fewer, or in several servers."
        )
    elif packed.best < _TOO_SHORT:
        yield (
            f"All fit only with texts of at most {packed.best} characters, which tell a model little: leave the others "
            "to find_skills, or serve fewer."
        )
    else:
        yield f"All fit with SKILLSERVE_ENTRY_LIMIT={packed.best}."
    if packed.shortest_first > packed.shown:
        yield f"Shortest first, {packed.shortest_first:,} would be in the catalog."
    longest = (f"{skill.key} ({size:,})" for skill, size in packed.longest)
    yield f"The longest texts: {listed(longest)} characters."
    yield f"Not in the catalog unless --pin puts them first: {listed(skill.key for skill in packed.unseen)}."
