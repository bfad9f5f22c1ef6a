"""Settle which skill answers to which name, and where each stands in URIs.

Between sources the higher precedence wins and the others are shadowed. Within one source both stay: they are
told apart by their paths. Pure functions over what was loaded; gates come later, so a name that is won is not
lost again because its winner is gated out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skills_core.diagnostics import printable
from skills_core.scan import parent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skills_core.skill import SkillContent
    from skills_core.sources import Source

__all__ = ["NOTHING_SETTLED", "Candidate", "Placement", "Settlement", "settle"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A loaded content with its source; `rank` is the source's place in the precedence, 0 the highest."""

    rank: int
    source: Source
    content: SkillContent


@dataclass(frozen=True, slots=True)
class Placement:
    """What a candidate answers to (`key`), its skill path in URIs, and whether another one has its name."""

    key: str
    path: str
    shares_name: bool


@dataclass(frozen=True, slots=True)
class Settlement:
    """How names came out: `placements` for the candidates that keep theirs, `holders` for those that do not.

    Both map the candidate's position in what was settled; `claims` is all that the outcome depends on.
    """

    claims: tuple[tuple[int, str, str], ...] = ()
    placements: Mapping[int, Placement] = field(default_factory=dict, repr=False)
    holders: Mapping[int, int] = field(default_factory=dict, repr=False)


NOTHING_SETTLED = Settlement()


def settle(candidates: Sequence[Candidate], before: Settlement | None = None) -> Settlement:
    """Settle names and places; `before` is the answer again where nothing that it depends on changed."""
    claims = tuple((each.rank, each.content.folder, each.content.name) for each in candidates)
    if before is not None and before.claims == claims:
        return before
    winners: dict[str, int] = {}
    for number, (rank, _, name) in enumerate(claims):
        holder = winners.get(name)
        if holder is None or rank < claims[holder][0]:
            winners[name] = number
    holders: dict[int, int] = {}
    kept: list[int] = []
    for number, (rank, _, name) in enumerate(claims):
        if rank == claims[winners[name]][0]:
            kept.append(number)
        else:
            holders[number] = winners[name]
    placements = _place([candidates[number] for number in kept])
    return Settlement(claims, dict(zip(kept, placements, strict=True)), holders)


def _place(candidates: Sequence[Candidate]) -> list[Placement]:
    """Give each candidate its path and its key; the results are in the order of the candidates.

    The last segment of a path is the skill's name, as SEP-2640 asks. A skill whose folder is named otherwise is
    mapped there; one that would collide keeps its folder's name as a segment before. Nested skills stand below
    the path of the skill that encloses them.
    """
    plan = _Plan()
    order = sorted(range(len(candidates)), key=lambda number: _placing_order(candidates[number]))
    paths: dict[int, str] = {number: plan.place(candidates[number]) for number in order}
    names = Counter(candidate.content.name for candidate in candidates)
    keys: set[str] = set()
    placements: list[Placement] = []
    for number, candidate in enumerate(candidates):
        name, path = candidate.content.name, paths[number]
        key = name if names[name] == 1 and name not in keys else printable(path)
        keys.add(key)
        placements.append(Placement(key, path, shares_name=names[name] > 1))
    return placements


def _placing_order(candidate: Candidate) -> tuple[int, int, bool, str]:
    """Sources by rank, then enclosing skills before nested ones, folders that bear the name before mapped ones."""
    folder = candidate.content.folder
    depth = folder.count("/") + 1 if folder else 0
    return candidate.rank, depth, folder.rpartition("/")[2] != candidate.content.name, folder


@dataclass(slots=True)
class _Plan:
    """The paths given so far."""

    # Path by (rank, folder); the ranks that hold something at or below a path; the rank that holds a path.
    given: dict[tuple[int, str], str] = field(default_factory=dict)
    below: dict[str, set[int]] = field(default_factory=dict)
    holder: dict[str, int] = field(default_factory=dict)

    def place(self, candidate: Candidate) -> str:
        path = next(path for path in self._choices(candidate) if self._is_free(path, candidate.rank))
        self.given[candidate.rank, candidate.content.folder] = path
        self.holder[path] = candidate.rank
        for above in _prefixes(path):
            self.below.setdefault(above, set()).add(candidate.rank)
        return path

    def _is_free(self, path: str, rank: int) -> bool:
        """Tell whether nobody has the path, and no skill of another source encloses it or lies below it."""
        if path in self.holder or self.below.get(path, set()) - {rank}:
            return False
        return all(self.holder.get(above, rank) == rank for above in _prefixes(path))

    def _choices(self, candidate: Candidate) -> Iterable[str]:
        """Yield paths for a candidate, the nicest first, without end."""
        base, last = self._natural(candidate)
        name = candidate.content.name
        segment = name if _is_segment(name) else last or "skill"
        yield "/".join([*base, segment])
        if last and last != segment:
            yield "/".join([*base, last, segment])
        prefix = f"{candidate.source.scope}-{candidate.rank + 1}"
        yield "/".join([prefix, *base, segment])
        yield "/".join([prefix, *base, *([last] if last else []), segment])
        number = 2
        while True:
            yield "/".join([prefix, *base, f"{last}-{number}", segment])
            number += 1

    def _natural(self, candidate: Candidate) -> tuple[list[str], str]:
        """Return the segments before the folder's own, as mapped by an enclosing skill, and the folder's name."""
        folder = candidate.content.folder
        if not folder:
            return [], ""
        above, rest = parent(folder), [folder.rpartition("/")[2]]
        while (candidate.rank, above) not in self.given and above:
            rest.insert(0, above.rpartition("/")[2])
            above = parent(above)
        enclosing = self.given.get((candidate.rank, above))
        base = enclosing.split("/") if enclosing else []
        return base + rest[:-1], rest[-1]


def _prefixes(path: str) -> Iterable[str]:
    position = path.find("/")
    while position != -1:
        yield path[:position]
        position = path.find("/", position + 1)
    yield path


def _is_segment(name: str) -> bool:
    return name not in {"", ".", ".."} and not any(char in name for char in "/\\\0")
