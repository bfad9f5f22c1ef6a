"""Which skills the models of clients see, what stands in their way, and what would show more."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, assert_never
from xml.sax.saxutils import unescape

from msgspec.structs import replace

from server.capabilities.visibility.clashes import name_clashes, similar_descriptions
from server.capabilities.visibility.served_listing import EntryState, Obstacle, ServedSkills, Sight, served_skills
from server.clients.layout import layout_for
from server.clients.profile import NativeListing, Overflow, Raises
from server.listing.catalog_texts import catalog_texts
from server.listing.layout import CatalogPlace, ListingLayout
from skills_core.catalog.catalog import MAX_ENTRY
from skills_core.diagnostics import one_line
from skills_core.rendering.catalog import listing_order, render_entry, utf16_length

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


_LENGTHS = (300, 250, 200, 150, 100)
# The text lengths to try; a description shorter than the last tells a model little more than the name.

_MAX_LONGEST = 5
_ENTRY = '<skill name="'


@dataclass(frozen=True, slots=True)
class Repacking:
    """How many of the `offered` skills the texts of a layout show with an entry, and would show after a change.

    `budget` is the number of characters of these texts. `lengths` pairs a maximum text length with the number of skills
    that it would show, `best` is the largest length that shows all (None if not even the names fit), `shortest_first`
    the number shown in order of length. `longest` are the longest texts by skill, `unseen` the hidden skills in order.
    """

    budget: int
    offered: int
    shown: int
    lengths: tuple[tuple[int, int], ...]
    best: int | None
    shortest_first: int
    longest: tuple[tuple[Skill, int], ...]
    unseen: tuple[Skill, ...]

    @property
    def advised(self) -> tuple[int, int] | None:
        """The largest length that shows the most skills, with their number; None if none shows more than now."""
        most = max((shown for _, shown in self.lengths), default=0)
        fitting = [(length, shown) for length, shown in self.lengths if shown == most > self.shown]
        return fitting[0] if fitting else None


class Repacker:
    """Renders the catalog of one snapshot repeatedly, and caches the result for each place and size of its texts."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Measure the texts of the snapshot's skills."""
        self._catalog = snapshot.catalog
        self._first = snapshot.first
        self._settings = snapshot.settings.catalog
        self._limit = self._settings.entry_limit
        self._texts = [(skill, len(text_of(skill, self._limit))) for skill in listing_order(self._catalog, self._first)]
        self._found: dict[ListingLayout, Repacking] = {}

    def repacking(self, layout: ListingLayout) -> Repacking:
        """Return the possible changes for the texts of a layout."""
        # All else in a layout changes no entry.
        places = ListingLayout(layout.catalog, layout.place, layout.instructions)
        if places not in self._found:
            self._found[places] = self._repacking(places)
        return self._found[places]

    def _repacking(self, layout: ListingLayout) -> Repacking:
        total, longest = len(self._texts), max((size for _, size in self._texts), default=0)
        entries = self._entries(layout, self._limit, self._first)
        lengths = [] if len(entries) == total else [length for length in _LENGTHS if length < longest]
        unseen = (skill for skill, _ in self._texts if render_entry(skill, self._limit) not in entries)
        return Repacking(
            layout.catalog + (layout.instructions if layout.place is CatalogPlace.BOTH else 0),
            total,
            len(entries),
            tuple((length, self._shown(layout, length)) for length in lengths),
            self._best(layout, longest),
            self._shortest_first(layout),
            self._longest(),
            tuple(unseen) if len(entries) < total else (),
        )

    def _shown(self, layout: ListingLayout, length: int) -> int:
        return len(self._entries(layout, length, self._first))

    def _best(self, layout: ListingLayout, longest: int) -> int | None:
        """Return the largest length of texts that shows all skills, None if not even the names of all fit."""

        def hides(length: int) -> bool:
            return self._shown(layout, length) < len(self._texts)

        if not hides(longest):
            return longest
        found = bisect_left(range(longest), True, key=hides)
        return found - 1 if found else None

    def _shortest_first(self, layout: ListingLayout) -> int:
        ordered = sorted((skill for skill, _ in self._texts), key=lambda skill: len(render_entry(skill, self._limit)))
        return len(self._entries(layout, self._limit, ordered))

    def _entries(self, layout: ListingLayout, length: int, first: Sequence[Skill]) -> frozenset[str]:
        """Return the distinct entries, with texts of at most `length`, that both texts of a layout show."""
        texts = catalog_texts(self._catalog, first, layout, replace(self._settings, entry_limit=length))
        lines = f"{texts.description}\n{texts.instructions}".split("\n")
        return frozenset(line for line in lines if line.startswith(_ENTRY))

    def _longest(self) -> tuple[tuple[Skill, int], ...]:
        return tuple(sorted(self._texts, key=lambda pair: (-pair[1], pair[0].key))[:_MAX_LONGEST])


def text_of(skill: Skill, longest: int = MAX_ENTRY) -> str:
    """Return the catalog's text for a skill besides its name, with at most `longest` characters."""
    entry = render_entry(skill, longest)
    return unescape(entry[entry.index(">") + 1 : entry.rindex("<")])


@dataclass(frozen=True, slots=True)
class ClientVisibility:
    """What one client shows of the skills that this server serves, and of those it reads itself."""

    client: ClientProfile
    version: str | None
    """The version that was asked about; None stands for the latest."""
    served: ServedSkills
    native: NativeSkills | None
    repacking: Repacking

    @property
    def label(self) -> str:
        """The client's key, with the version that was asked about."""
        return f"{self.client.key}@{self.version}" if self.version else self.client.key

    @property
    def hides_skills(self) -> bool:
        """Whether the texts do not show a skill for models, or not completely, once the tools are loaded."""
        return any(shown.skill.model_invocable and shown.entry is not EntryState.WHOLE for shown in self.served.skills)


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
    catalog, repacker = snapshot.catalog, Repacker(snapshot)
    shown: list[ClientVisibility] = []
    for client, version in clients:
        profile = client.of_version(version)
        native = native_skills(catalog.offered, profile.native, window) if profile.native else None
        repacking = repacker.repacking(layout_for(profile, snapshot.settings))
        shown.append(ClientVisibility(profile, version, served_skills(snapshot, profile), native, repacking))
    # Each client once, however many of its versions are asked about.
    distinct = {client.key: client for client, _ in clients}.values()
    similar = similar_descriptions(catalog.offered)
    return VisibilityReport(catalog, window, tuple(shown), name_clashes(catalog, distinct), similar)


_MAX_NAMES = 5


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
    elif packed.best < _LENGTHS[-1]:
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
