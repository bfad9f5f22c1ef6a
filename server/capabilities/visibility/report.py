"""Which skills the models of clients see, what stands in their way, and what would show more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, assert_never

from server.capabilities.visibility.clashes import name_clashes, similar_descriptions
from server.capabilities.visibility.served_listing import (
    DESCRIBING,
    EntryState,
    Obstacle,
    ServedSkills,
    Sight,
    served_skills,
)
from server.clients.profile import NativeListing, Overflow, Raises
from skills_core.diagnostics import one_line
from skills_core.rendering.catalog import entry_text, utf16_length

if TYPE_CHECKING:
    from server.capabilities.visibility.clashes import NameClash, SimilarDescriptions
    from server.clients.profile import ClientProfile
    from server.listing.snapshot import Snapshot
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill


@dataclass(frozen=True, slots=True)
class NativeSkills:
    """What the client's own list shows; `skills` are in its order, `budget` is None if unknown."""

    skills: tuple[tuple[Skill, EntryState], ...]
    budget: int | None
    length: int
    """Characters that the list needs for all entries, each within its limit."""


def native_skills(skills: Sequence[Skill], listing: NativeListing, window: int) -> NativeSkills:
    """Return what a client with this `listing` and a context of `window` tokens shows of `skills`.

    The list is ordered by name: clients that order by use are assumed to have recorded none yet.
    """
    ordered = sorted(skills, key=lambda skill: skill.name)
    texts = [_text(skill) for skill in ordered]
    kept = [min(len(text), listing.entry or len(text)) for text in texts]
    names = [len(skill.name) + listing.frame for skill in ordered]
    budget = listing.budget(window)
    length = sum(kept) + sum(names)
    if budget is None or length <= budget:
        given = list(kept)
        listed = len(ordered)
    else:
        given, listed = _given(kept, names, budget, listing.overflow)
    shown = [_entry(len(text), given[number], listed=number < listed) for number, text in enumerate(texts)]
    return NativeSkills(tuple(zip(ordered, shown, strict=True)), budget, length)


def _given(kept: Sequence[int], names: Sequence[int], budget: int, overflow: Overflow) -> tuple[list[int], int]:
    """Return the shown length of each description, and the number of listed skills."""
    left = budget - sum(names)
    match overflow:
        case Overflow.OMITTED:
            fit = sum(used <= budget for used in accumulate(map(sum, zip(kept, names, strict=True))))
            return [size if number < fit else 0 for number, size in enumerate(kept)], fit
        case Overflow.NAMES:
            fit = sum(used <= left for used in accumulate(kept))
            return [size if number < fit else 0 for number, size in enumerate(kept)], len(kept)
        case Overflow.SHORTENED:
            if left < 0:
                return [0] * len(kept), sum(used <= budget for used in accumulate(names))
            share = _share(kept, left)
            return [min(size, share) for size in kept], len(kept)
        case _:
            assert_never(overflow)


def _share(sizes: Sequence[int], budget: int) -> int:
    """Return the largest share such that the sizes, each cut to it, fit into `budget`."""
    left, remaining = budget, len(sizes)
    for size in sorted(sizes):
        if size * remaining > left:
            return left // remaining
        left -= size
        remaining -= 1
    return max(sizes, default=0)


def _entry(length: int, given: int, *, listed: bool) -> EntryState:
    if not listed:
        return EntryState.MISSING
    if given >= length:
        return EntryState.WHOLE
    return EntryState.CUT if given else EntryState.NAME


def _text(skill: Skill) -> str:
    """Return the text that clients list of a skill besides its name."""
    parts = (skill.description, skill.frontmatter.when_to_use or "")
    return " ".join(part.strip() for part in parts if part.strip())


_MAX_LONGEST = 5
_TELLS_LITTLE = 100
# A text shorter than this tells a model little more than the name.


@dataclass(frozen=True, slots=True)
class Shortening:
    """The skills whose texts this server shortens for a client, and the longest of what is left of these."""

    skills: tuple[Skill, ...]
    characters: int


def shortening(served: ServedSkills) -> Shortening:
    """Return what is shortened."""
    shortened = [shown for shown in served.skills if shown.entry is EntryState.SHORTENED]
    return Shortening(
        tuple(shown.skill for shown in shortened), max((shown.characters for shown in shortened), default=0)
    )


@dataclass(frozen=True, slots=True)
class ClientVisibility:
    """What one client shows of the skills that this server serves, and of those it reads itself."""

    client: ClientProfile
    version: str | None
    """The version that was asked about; None stands for the latest."""
    served: ServedSkills
    native: NativeSkills | None
    shortening: Shortening

    @property
    def label(self) -> str:
        """The client's key, with the version that was asked about."""
        return f"{self.client.key}@{self.version}" if self.version else self.client.key

    @property
    def hides_skills(self) -> bool:
        """Whether the texts do not describe a skill for models, once the tools are loaded."""
        return any(shown.skill.model_invocable and shown.entry not in DESCRIBING for shown in self.served.skills)


@dataclass(frozen=True, slots=True)
class VisibilityReport:
    """What clients show of `catalog`, and what clashes in it."""

    catalog: Catalog
    window: int
    clients: tuple[ClientVisibility, ...]
    name_clashes: tuple[NameClash, ...]
    similar: SimilarDescriptions


def visibility_report(
    snapshot: Snapshot, clients: Sequence[tuple[ClientProfile, str | None]], window: int
) -> VisibilityReport:
    """Return the report on clients, each with the version that was asked about, if any.

    `window` is the model's context in tokens, for budgets that are a share of it.
    """
    catalog = snapshot.catalog
    shown: list[ClientVisibility] = []
    for client, version in clients:
        profile = client.of_version(version)
        native = native_skills(catalog.offered, profile.native, window) if profile.native else None
        served = served_skills(snapshot, profile)
        shown.append(ClientVisibility(profile, version, served, native, shortening(served)))
    # Each client once, however many of its versions are asked about.
    distinct = {client.key: client for client, _ in clients}.values()
    similar = similar_descriptions(catalog.offered)
    return VisibilityReport(catalog, window, tuple(shown), name_clashes(catalog, distinct), similar)


_MAX_NAMES = 5


def advice(visibility: ClientVisibility) -> Iterator[str]:
    """Yield one sentence for each change that would make the client show more, the most effective first."""
    yield from _room(visibility)
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


def _room(visibility: ClientVisibility) -> Iterator[str]:
    """Yield what would give more skills an entry, or a longer one."""
    served, shortened = visibility.served, visibility.shortening
    offered = [shown for shown in served.skills if shown.skill.model_invocable]
    hidden = [shown.skill.key for shown in offered if Obstacle.BEYOND_BUDGET in shown.obstacles]
    if hidden:
        yield (
            f"Not even short texts of all {len(offered):,} fit into {served.budget:,} characters: find_skills finds "
            f"the others; serve fewer, or split them between several servers. Not listed unless --pin puts them first: "
            f"{summarized(hidden)}."
        )
    if not shortened.skills:
        return
    little = ", which tell a model little: serve fewer" if shortened.characters < _TELLS_LITTLE else ""
    yield f"{len(shortened.skills):,} texts are shortened to {shortened.characters:,} characters or less{little}."
    lengths = sorted(
        ((len(entry_text(skill)), skill.key) for skill in shortened.skills), key=lambda each: (-each[0], each[1])
    )
    longest = [f"{key} ({size:,})" for size, key in lengths[:_MAX_LONGEST]]
    yield f"Shorter descriptions leave room for others. The longest: {', '.join(map(one_line, longest))} characters."
