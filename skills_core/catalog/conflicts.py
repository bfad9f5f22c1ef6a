"""Settle conflicts: which skill has a name, and which path each has in URIs.

Between sources, the higher precedence wins and the others are shadowed. Within one source, all skills of a name are
kept and distinguished by their paths. Pure functions; gates come later, so that a gate which excludes the winner of a
name does not free the name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.disk.scan import parent

if TYPE_CHECKING:
    from skills_core.disk.sources import Source
    from skills_core.skills.skill import SkillContent


Position: TypeAlias = tuple[int, str]
"""The rank of a source, and the place of a skill in it."""


class Candidate(NamedTuple):
    """A loaded content with its source; `rank` is the source's place in the precedence, 0 the highest."""

    rank: int
    source: Source
    content: SkillContent

    @property
    def position(self) -> Position:
        """What tells the candidate from all others."""
        return self.rank, self.content.place

    @property
    def name(self) -> str:
        """The skill's name."""
        return self.content.name

    @property
    def requires(self) -> tuple[str, ...]:
        """The names of the skills that it requires."""
        return self.content.instructions.frontmatter.requires

    def name_notes(self, placement: Placement) -> tuple[Diagnostic, ...]:
        """Return the diagnostic that another skill has the same name, if one has."""
        if not placement.shares_name:
            return ()
        message = f"another skill of this source is also named {self.name!r}; use {placement.key!r} for this one"
        where = self.source.shown(self.content.place)
        return (Diagnostic(Severity.WARNING, Reason.DUPLICATE_NAME, message, where),)


@dataclass(frozen=True, slots=True)
class Placement:
    """The key of a skill that keeps its name, its path in URIs, and whether another skill shares the name."""

    key: str
    path: str
    shares_name: bool


class MappedPath(NamedTuple):
    """A path below a skill's folder to which a nested skill might be mapped."""

    rank: int
    place: str
    inside: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """The outcome of all conflicts over names, by the candidates' positions.

    `placements` are those of the candidates that keep their name; `shadowing` maps each of the others to the candidate
    that has the name; `names` are all names, also in lower case. The outcome depends on `claims` (rank, place and name
    of each candidate), and on whether there is `room` for each skill that is mapped to another path than its own.
    """

    claims: tuple[tuple[int, str, str], ...] = ()
    room: Mapping[MappedPath, bool] = field(default_factory=dict, repr=False)
    placements: Mapping[Position, Placement] = field(default_factory=dict, repr=False)
    shadowing: Mapping[Position, Position] = field(default_factory=dict, repr=False)
    names: frozenset[str] = frozenset()
    lowered_names: frozenset[str] = frozenset()


def settle(candidates: Sequence[Candidate], before: Settlement | None = None) -> Settlement:
    """Settle names and paths; return `before` where nothing that it depends on changed."""
    claims = tuple((each.rank, each.content.place, each.content.name) for each in candidates)
    if before is not None and before.claims == claims and _same_room(candidates, before.room):
        return before
    winners: dict[str, Position] = {}
    for rank, place, name in claims:
        if name not in winners or rank < winners[name][0]:
            winners[name] = (rank, place)
    shadowing = {(rank, place): winners[name] for rank, place, name in claims if rank != winners[name][0]}
    kept = {position: each for each in candidates if (position := each.position) not in shadowing}
    paths = _Paths(kept)
    names, lowered = frozenset(winners), frozenset(name.lower() for name in winners)
    return Settlement(claims, paths.room, _placements(kept, paths.path_of), shadowing, names, lowered)


def _same_room(candidates: Sequence[Candidate], room: Mapping[MappedPath, bool]) -> bool:
    if not room:
        return True
    contents = {(each.rank, each.content.place): each.content for each in candidates}
    return all(_is_room(contents[mapped.rank, mapped.place], mapped.inside) is was for mapped, was in room.items())


def _is_room(outer: SkillContent, inside: str) -> bool:
    """Tell whether `outer` has neither a file nor a folder at the path `inside`."""
    return not any(file == inside or file.startswith(inside + "/") for file in outer.files)


def _placements(candidates: Mapping[Position, Candidate], path_of: Mapping[Position, str]) -> dict[Position, Placement]:
    """Return the placement of each candidate, given the paths."""
    names = Counter(candidate.content.name for candidate in candidates.values())
    taken = set(path_of.values())
    keys: set[str] = set()
    placements: dict[Position, Placement] = {}
    for position, candidate in candidates.items():
        name, path = candidate.content.name, path_of[position]
        # A name that breaks the rules may equal another skill's path.
        is_unique = names[name] == 1 and (name == path or name not in taken)
        key = _unused(name if is_unique else printable(path), keys)
        keys.add(key)
        placements[position] = Placement(key, path, shares_name=names[name] > 1)
    return placements


def _unused(key: str, keys: set[str]) -> str:
    if key not in keys:
        return key
    return next(each for number in count(2) if (each := f"{key}~{number}") not in keys)


class _Paths:
    """Assigns each candidate a path, so that no URI names two files.

    The last segment of a path is the skill's name, as SEP-2640 requires. A skill whose folder, like those of all
    enclosing skills, has the skill's name keeps its own path; the others are then mapped to free paths. A nested skill
    gets a path below that of the skill that encloses it.
    """

    def __init__(self, candidates: Mapping[Position, Candidate]) -> None:
        self.path_of: dict[Position, str] = {}
        self.room: dict[MappedPath, bool] = {}
        self._candidates = candidates
        self._holder: dict[str, Position] = {}
        self._occupied: set[str] = set()
        for candidate in sorted(candidates.values(), key=self._order):
            self._place(candidate)

    def _order(self, candidate: Candidate) -> tuple[int, bool, int, str]:
        """Return the sort key: rank, then skills that keep their own path, then enclosing before nested skills."""
        content = candidate.content
        natural = all(each.place.rpartition("/")[2] == each.name for each in (content, *self._enclosing(candidate)))
        return candidate.rank, not natural, content.place.count("/") if content.place else -1, content.place

    def _enclosing(self, candidate: Candidate) -> Iterator[SkillContent]:
        """Yield the skills that enclose the candidate, the nearest first."""
        folder = candidate.content.place
        while folder:
            folder = parent(folder)
            if (candidate.rank, folder) in self._candidates:
                yield self._candidates[candidate.rank, folder].content

    def _place(self, candidate: Candidate) -> None:
        position = candidate.position
        enclosing = list(self._enclosing(candidate))
        path = next(path for path in self._choices(candidate, enclosing) if self._is_free(path, candidate, enclosing))
        self.path_of[position] = path
        self._holder[path] = position
        self._occupied.update(_prefixes(path))

    def _is_free(self, path: str, candidate: Candidate, enclosing: Sequence[SkillContent]) -> bool:
        """Tell whether no skill has a path at or below `path`, and only enclosing skills have one above it."""
        if path in self._occupied:
            return False
        holders = [self._holder[above] for above in _prefixes(path) if above in self._holder]
        if holders and not {(candidate.rank, each.place) for each in enclosing}.issuperset(holders):
            return False
        return not enclosing or self._has_room(path, candidate, enclosing[0])

    def _has_room(self, path: str, candidate: Candidate, outer: SkillContent) -> bool:
        """Tell whether `path` is the candidate's own path below `outer`, or is not taken by files of `outer`."""
        base = self.path_of[candidate.rank, outer.place] + "/"
        inside = path.removeprefix(base)
        real = candidate.content.place.removeprefix(f"{outer.place}/")
        if not path.startswith(base) or inside == real:
            return True
        mapped = MappedPath(candidate.rank, outer.place, inside)
        self.room[mapped] = _is_room(outer, inside)
        return self.room[mapped]

    def _choices(self, candidate: Candidate, enclosing: Sequence[SkillContent]) -> Iterator[str]:
        """Yield possible paths for a candidate, the best first, without end."""
        outer = enclosing[0] if enclosing else None
        folder = candidate.content.place.removeprefix(f"{outer.place}/" if outer and outer.place else "")
        above, _, last = folder.rpartition("/")
        base = "/".join(part for part in (self.path_of[candidate.rank, outer.place] if outer else "", above) if part)
        name = candidate.content.name if _is_segment(candidate.content.name) else last or "skill"
        prefix = f"{candidate.source.scope}-{candidate.rank + 1}"
        yield _joined(base, name)
        yield _joined(base, last, name)
        yield _joined(prefix, base, name)
        yield _joined(prefix, base, last, name)
        for number in count(2):
            yield _joined(prefix, base, f"{last}-{number}", name)
            # A skill may have the prefix itself as its path, so that no path below it is free.
            yield _joined(f"{prefix}-{number}", base, name)


def _joined(*parts: str) -> str:
    return "/".join(part for part in parts if part)


def _prefixes(path: str) -> list[str]:
    """Return the path and all paths above it, the shortest first."""
    return [path[: match.start()] for match in re.finditer("/", path)] + [path]


def _is_segment(name: str) -> bool:
    return name not in {"", ".", ".."} and not any(char in name for char in "/\\\0")
