"""Settle conflicts: which skill has a name, and which path each has in URIs.

Between sources, the higher precedence wins and the others are shadowed. Within one source, all skills of a name are
kept and distinguished by their paths. Pure functions; gates come later, so that a gate which excludes the winner of a
name does not free the name.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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


class Holders(NamedTuple):
    """How many candidates keep a name; all of them are of the source with this rank."""

    rank: int
    number: int


@dataclass(frozen=True, slots=True)
class Settlement:
    """The outcome of all conflicts over names, by the candidates' positions.

    `claims` are the names of all candidates. `placements` are those of the candidates that keep their name; `shadowing`
    maps each of the others to the candidate that has the name. The outcome depends on `claims`, and on whether there is
    `room` for each skill that is mapped to another path than its own. `is_contested` tells that a candidate did not get
    the path or the key that it would have alone.

    For the settlement after this one, `holders` has all names, `lowered` counts them in lower case, and `paths` has the
    paths of all placements in order.
    """

    claims: Mapping[Position, str] = field(default_factory=dict, repr=False)
    room: Mapping[MappedPath, bool] = field(default_factory=dict, repr=False)
    placements: Mapping[Position, Placement] = field(default_factory=dict, repr=False)
    shadowing: Mapping[Position, Position] = field(default_factory=dict, repr=False)
    is_contested: bool = False
    holders: Mapping[str, Holders] = field(default_factory=dict, repr=False)
    lowered: Mapping[str, int] = field(default_factory=dict, repr=False)
    paths: Sequence[str] = field(default=(), repr=False)


def settle(candidates: Sequence[Candidate], before: Settlement | None = None) -> Settlement:
    """Settle names and paths; return `before` where nothing that it depends on changed."""
    claims = {each.position: each.name for each in candidates}
    if before is not None and before.claims == claims and _same_room(candidates, before.room):
        return before
    winners: dict[str, Position] = {}
    for position, name in claims.items():
        winners[name] = min(position, winners.get(name, position))
    shadowing = {position: winners[name] for position, name in claims.items() if position[0] != winners[name][0]}
    kept = {position: each for each in candidates if (position := each.position) not in shadowing}
    paths = _Paths(kept)
    counts = Counter(each.name for each in kept.values())
    placements = _placements(kept, paths.path_of, counts)
    return Settlement(
        claims,
        paths.room,
        placements,
        shadowing,
        is_contested=paths.is_contested
        or any(each.key != _own_key(each, claims[at]) for at, each in placements.items()),
        holders={name: Holders(position[0], counts[name]) for name, position in winners.items()},
        lowered=Counter(name.lower() for name in winners),
        paths=tuple(sorted(paths.path_of.values())),
    )


def resettle(before: Settlement, gone: Sequence[Candidate], come: Sequence[Candidate]) -> Settlement | None:
    """Return the settlement after candidates have gone and others come; None where others may be concerned.

    It is what `settle` returns for all candidates, and costs a copy of the settlement instead of a decision on each.
    """
    if before.room or before.is_contested:
        return None
    draft = _Draft(before)
    is_apart = all(draft.remove(each) for each in gone) and all(draft.add(each) for each in come)
    return draft.settlement() if is_apart else None


class _Draft:
    """A settlement in which candidates come and go that concern no others."""

    def __init__(self, before: Settlement) -> None:
        self._before = before
        self._claims, self._placements = dict(before.claims), dict(before.placements)
        self._holders, self._lowered = dict(before.holders), Counter(before.lowered)
        self._paths = [*before.paths]
        self._shadowed = {before.claims[position] for position in before.shadowing}

    def settlement(self) -> Settlement:
        return replace(
            self._before,
            claims=self._claims,
            placements=self._placements,
            holders=self._holders,
            lowered=self._lowered,
            paths=tuple(self._paths),
        )

    def remove(self, candidate: Candidate) -> bool:
        """Take a candidate out, and tell whether no other is concerned."""
        name, placement = candidate.name, self._placements.pop(candidate.position, None)
        # Of two with the name, the other one gets it as its key.
        if placement is None or name in self._shadowed or self._holders[name].number == 2:  # noqa: PLR2004
            return False
        del self._claims[candidate.position]
        del self._paths[bisect_left(self._paths, placement.path)]
        self._count(name, candidate.rank, -1)
        return self._is_apart(candidate, placement.path)

    def add(self, candidate: Candidate) -> bool:
        """Take a candidate in, and tell whether no other is concerned."""
        name, place = candidate.name, candidate.content.place
        known = self._holders.get(name, Holders(candidate.rank, 0))
        path = _joined(parent(place), name)
        # The only other one with the name gets its path as its key.
        if known.rank != candidate.rank or known.number == 1 or name in self._shadowed:
            return False
        if not _is_segment(name) or printable(path) != path:
            return False
        is_apart = self._is_apart(candidate, path)
        placement = Placement(path if known.number else name, path, shares_name=known.number > 0)
        self._claims[candidate.position], self._placements[candidate.position] = name, placement
        self._count(name, candidate.rank, 1)
        insort(self._paths, path)
        return is_apart

    def _count(self, name: str, rank: int, difference: int) -> None:
        count = self._holders.get(name, Holders(rank, 0)).number + difference
        if count:
            self._holders[name] = Holders(rank, count)
        else:
            del self._holders[name]
        if count == max(difference, 0):
            self._lowered[name.lower()] += difference
            if not self._lowered[name.lower()]:
                del self._lowered[name.lower()]

    def _is_apart(self, candidate: Candidate, path: str) -> bool:
        """Tell whether no other skill encloses the candidate, lies in it, or has a path above, at or below its path."""
        place = candidate.content.place
        if not place or any((candidate.rank, above) in self._claims for above in ("", *_prefixes(place)[:-1])):
            return False
        if any(map(self._has, _prefixes(path))):
            return False
        return not any(self._has_below(folder) for folder in (path, place))

    def _has(self, path: str) -> bool:
        number = bisect_left(self._paths, path)
        return number < len(self._paths) and self._paths[number] == path

    def _has_below(self, path: str) -> bool:
        number = bisect_left(self._paths, f"{path}/")
        return number < len(self._paths) and self._paths[number].startswith(f"{path}/")


def _same_room(candidates: Sequence[Candidate], room: Mapping[MappedPath, bool]) -> bool:
    if not room:
        return True
    contents = {(each.rank, each.content.place): each.content for each in candidates}
    return all(_is_room(contents[mapped.rank, mapped.place], mapped.inside) is was for mapped, was in room.items())


def _is_room(outer: SkillContent, inside: str) -> bool:
    """Tell whether `outer` has neither a file nor a folder at the path `inside`."""
    return not any(file == inside or file.startswith(inside + "/") for file in outer.files)


def _placements(
    candidates: Mapping[Position, Candidate], path_of: Mapping[Position, str], counts: Mapping[str, int]
) -> dict[Position, Placement]:
    """Return the placement of each candidate, given the paths, and how many candidates have each name."""
    taken = set(path_of.values())
    keys: set[str] = set()
    placements: dict[Position, Placement] = {}
    for position, path in path_of.items():
        name = candidates[position].name
        # A name that breaks the rules may equal another skill's path.
        is_unique = counts[name] == 1 and (name == path or name not in taken)
        key = _unused(name if is_unique else printable(path), keys)
        keys.add(key)
        placements[position] = Placement(key, path, shares_name=counts[name] > 1)
    return placements


def _own_key(placement: Placement, name: str) -> str:
    """Return the key that a skill of this name has at its path if it is alone, or shares no more than the name."""
    return placement.path if placement.shares_name else name


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
        self.is_contested = False
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
        choices = self._choices(candidate, enclosing)
        first = path = next(choices)
        while not self._is_free(path, candidate, enclosing):
            path = next(choices)
        self.is_contested |= path is not first or not _is_segment(candidate.name)
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
