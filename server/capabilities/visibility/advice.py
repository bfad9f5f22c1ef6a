"""Advice on how to make a client show more skills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.capabilities.visibility.served_listing import Obstacle, Sight
from server.clients.profile import Raises
from skills_core.diagnostics import one_line
from skills_core.rendering.catalog import utf16_length

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from server.capabilities.visibility.repacking import Repacking
    from server.capabilities.visibility.report import ClientVisibility

__all__ = ["advice", "summarized"]

_MAX_NAMES = 5
_TOO_SHORT = 100
"""A description with fewer characters tells a model little more than the name."""


def advice(visibility: ClientVisibility) -> Iterator[str]:
    """Yield one sentence for each change that would make the client show more, the most effective first."""
    if visibility.repacking.shown < visibility.repacking.offered:
        yield from _repacked(visibility.repacking)
    yield from _deferred(visibility)
    refused = sum(Obstacle.REFUSED_NAME in shown.obstacles for shown in visibility.served.skills)
    if refused:
        yield f"The client refuses {refused:,} names that are not in the enum: raise SKILLSERVE_ENUM_LIMIT."
    yield from _options(visibility)


def summarized(names: Iterable[str], most: int = _MAX_NAMES) -> str:
    """Return the first of `names` and the number of the others, in words."""
    shown = list(names)
    more = f" and {len(shown) - most:,} more" if len(shown) > most else ""
    return ", ".join(map(one_line, shown[:most])) + more


def _deferred(visibility: ClientVisibility) -> Iterator[str]:
    """Yield what a model sees before it searches for our tools, and whether it sees the answer of that search."""
    texts = visibility.served.texts
    if not texts.search.deferred or _shows_all(visibility):
        return
    leaves = "an unknown part" if texts.search.leaves is None else f"{texts.search.leaves:,} characters"
    yield (
        f"Until the model searches for tools, it sees {utf16_length(texts.instructions.at_once):,} characters of the "
        f"instructions and {leaves} of a tool's description: skills that --pin puts first are named first."
    )
    if texts.search.is_too_long:
        yield (
            f"An answer of that search with the tools for skills has {texts.search.answer:,} characters, more than the "
            f"{texts.search.limit:,} that the model sees: reduce SKILLSERVE_CATALOG_BUDGET or SKILLSERVE_ENUM_LIMIT."
        )


def _options(visibility: ClientVisibility) -> Iterator[str]:
    """Yield what users of the client can set, where that would show more of the skills from the start."""
    texts, client = visibility.served.texts, visibility.client
    if _shows_all(visibility):
        return
    raised = {
        Raises.DESCRIPTION: client.description is not None,
        Raises.INSTRUCTIONS: texts.instructions.at_once != texts.instructions.text,
        Raises.TOOLS: texts.search.deferred,
    }
    for option in client.options:
        if raised.get(option.raises):
            remark = f" ({option.remark})" if option.remark else ""
            yield f"Users can set {option.option}{remark}, so that the client shows more: {option.raises.value}."


def _shows_all(visibility: ClientVisibility) -> bool:
    return all(shown.sight in {None, Sight.DESCRIBED} for shown in visibility.served.skills)


def _repacked(packed: Repacking) -> Iterator[str]:
    if packed.advised:
        length, shown = packed.advised
        yield (
            f"With SKILLSERVE_ENTRY_LIMIT={length}, {shown:,} instead of {packed.shown:,} of {packed.offered:,} "
            "skills are listed."
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
        yield f"Ordered by length, shortest first, {packed.shortest_first:,} would be listed."
    longest = (f"{skill.key} ({size:,})" for skill, size in packed.longest)
    yield f"The longest texts: {summarized(longest)} characters."
    yield f"Not listed unless --pin puts them first: {summarized(skill.key for skill in packed.unseen)}."
