"""Advice on how to make a client show more skills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from server.visibility.repacking import Repacking
    from server.visibility.report import ClientVisibility

__all__ = ["advice", "summarized"]

_MAX_NAMES = 5
_TOO_SHORT = 100
"""A description with fewer characters tells a model little more than the name."""


def advice(visibility: ClientVisibility) -> Iterator[str]:
    """Yield one sentence for each change that would make the client show more, the most effective first."""
    if visibility.repacking.shown < visibility.repacking.offered:
        yield from _repacked(visibility.repacking)


def summarized(names: Iterable[str], most: int = _MAX_NAMES) -> str:
    """Return the first of `names` and the number of the others, in words."""
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
            "the others; serve fewer, or split them between several servers."
        )
    elif packed.best < _TOO_SHORT:
        yield (
            f"All fit only with texts of at most {packed.best} characters, which tell a model little: rely on "
            "find_skills for the others, or serve fewer."
        )
    else:
        yield f"All fit with SKILLSERVE_ENTRY_LIMIT={packed.best}."
    if packed.shortest_first > packed.shown:
        yield f"Ordered by length, shortest first, {packed.shortest_first:,} would be in the catalog."
    longest = (f"{skill.key} ({size:,})" for skill, size in packed.longest)
    yield f"The longest texts: {summarized(longest)} characters."
    yield f"Not in the catalog unless --pin puts them first: {summarized(skill.key for skill in packed.unseen)}."
