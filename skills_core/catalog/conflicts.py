"""Settle conflicts: which skill has a name, and which path each has in URIs.

Between sources, the higher precedence wins and the others are shadowed. Within one source, all skills of a name are
kept and distinguished by their paths. Pure functions; gates come later, so that a gate which excludes the winner of a
name does not free the name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import count, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.disk.tree import parent
from skills_core.layered import Layered
from skills_core.ordered import Ordered

if TYPE_CHECKING:
    from skills_core.disk.sources import Source
    from skills_core.skills.skill import SkillContent


_T = TypeVar("_T")

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


class Placement(NamedTuple):
    """The key of a skill that keeps its name, its path in URIs, and whether another skill shares the name."""

    key: str
    path: str
    shares_name: bool


@dataclass(frozen=True, slots=True)
class Settlement:
    """The outcome of all conflicts over names, by the candidates' positions.

    `claims` are the names of all candidates. `placements` are those of the candidates that keep their name; `shadowing`
    maps each of the others to the candidate that has the name. The outcome depends on `claims`, and on whether there is
    `room` for skills that are mapped to other paths than their own: by the skill around them, and the path inside it.

    The rest finds whom a change concerns. `holders` are the candidates with each name and `order` are all candidates,
    both sorted, and `lowered` counts the names in lower case. A candidate is `contested` if it did not simply get its
    first path and its name as its key, or its path; then these are all paths and keys that it wanted. `wanted` has the
    candidates by all these texts and paths, which `texts` has in order.
    """

    claims: Mapping[Position, str] = field(default_factory=dict, repr=False)
    room: Mapping[Position, Mapping[str, bool]] = field(default_factory=dict, repr=False)
    placements: Mapping[Position, Placement] = field(default_factory=dict, repr=False)
    shadowing: Mapping[Position, Position] = field(default_factory=dict, repr=False)
    contested: Mapping[Position, tuple[str, ...]] = field(default_factory=dict, repr=False)
    holders: Mapping[str, tuple[Position, ...]] = field(default_factory=dict, repr=False)
    lowered: Mapping[str, int] = field(default_factory=dict, repr=False)
    order: Ordered[Position] = field(default_factory=Ordered, repr=False)
    wanted: Mapping[str, tuple[Position, ...]] = field(default_factory=dict, repr=False)
    texts: Ordered[str] = field(default_factory=Ordered, repr=False)

    def wanted_by(self, position: Position) -> tuple[str, ...]:
        """Return all paths and keys that a candidate wanted; none if it is shadowed."""
        if (texts := self.contested.get(position)) is not None:
            return texts
        placement = self.placements.get(position)
        return (placement.path,) if placement is not None else ()

    def has_same_room(self, candidate: Candidate) -> bool:
        """Tell whether there is room in a candidate for the skills in it as there was."""
        room = self.room.get(candidate.position, {})
        return all(_is_room(candidate.content, inside) is was for inside, was in room.items())


def settle(candidates: Sequence[Candidate], before: Settlement | None = None) -> Settlement:
    """Settle names and paths; return `before` where nothing that it depends on changed."""
    claims = {(each.rank, each.content.place): each.content.instructions.name for each in candidates}
    if before is not None and before.claims == claims and all(map(before.has_same_room, candidates)):
        return before
    known = dict(zip(claims, candidates, strict=True))
    order = Ordered(known)
    outcome = _decide({position: known[position] for position in order})
    wanted = {each.path: _alone(at, outcome.holders[claims[at]]) for at, each in outcome.placements.items()}
    for position, texts in outcome.contested.items():
        for text in texts:
            wanted[text] = _with(wanted.get(text, ()), position)
    lowered = Counter(map(_lower, outcome.holders))
    return Settlement(claims, *outcome, lowered, order, wanted, Ordered(wanted))


def _alone(position: Position, holders: tuple[Position, ...]) -> tuple[Position, ...]:
    """Return a tuple of one candidate: that of the candidates with its name, if there is no other one."""
    return holders if len(holders) == 1 else (position,)


def _lower(name: str) -> str:
    """Return a name in lower case; the same object if it is, as nearly all are."""
    lowered = name.lower()
    return name if name == lowered else lowered


def resettle(
    before: Settlement, changed: Mapping[Position, Candidate | None], now: Callable[[Position], Candidate], most: int
) -> tuple[Settlement, AbstractSet[Position]] | None:
    """Return the settlement after candidates changed, and all that the change may concern.

    `changed` has the candidates by their positions, None for those that are gone; `now` returns the others. Returns
    None if the change concerns more than `most` candidates. The settlement equals what `settle` returns for all
    candidates, and costs a copy of `before` instead of a decision on each.
    """
    reach = _Reach(before)
    concerned = reach.of(changed, {each.name for each in changed.values() if each is not None}, most)
    while len(concerned) <= most:
        members = {each: changed[each] if each in changed else now(each) for each in sorted(concerned)}
        outcome = _decide({position: each for position, each in members.items() if each is not None})
        more = {each for text in outcome.wanted_texts() for each in reach.of_text(text)}
        more.update(each for name in outcome.holders for each in before.wanted.get(name, ()))
        more -= concerned
        if not more:
            return _replaced(before, concerned, members, outcome), concerned
        concerned |= reach.of(more, (), most)
    return None


class _Reach:
    """Finds the candidates of a settlement that depend on each other."""

    def __init__(self, settlement: Settlement) -> None:
        self._settlement = settlement

    def of(self, positions: Iterable[Position], names: Iterable[str], most: int) -> set[Position]:
        """Return the positions, and those that concern them or these names, directly or by way of others.

        The search ends as soon as there are more than `most`.
        """
        known = self._settlement
        waiting = {*positions, *(position for name in names for position in known.holders.get(name, ()))}
        found: set[Position] = set()
        while waiting and len(found) <= most:
            position = waiting.pop()
            found.add(position)
            waiting.update(each for each in self._beside(position) if each not in found)
        return found | waiting

    def of_text(self, text: str) -> Iterator[Position]:
        """Yield the candidates that have a text as their name, or want it or a path above or below it."""
        known = self._settlement
        yield from known.holders.get(text, ())
        for path in _prefixes(text):
            yield from known.wanted.get(path, ())
        for below in _below(known.texts, text + "/", str):
            yield from known.wanted[below]

    def _beside(self, position: Position) -> Iterator[Position]:
        """Yield the candidates around a position and in it, and those that depend on its name, its paths and keys."""
        known, (rank, place) = self._settlement, position
        yield from (each for above in _above(place) if (each := (rank, above)) in known.claims)
        yield from _below(known.order, f"{place}/" if place else "", _place_of, (rank,))
        if (name := known.claims.get(position)) is not None:
            yield from known.holders[name]
            yield from known.wanted.get(name, ())
            for text in known.wanted_by(position):
                yield from self.of_text(text)


def _place_of(position: Position) -> str:
    return position[1]


def _below(
    values: Ordered[_T], prefix: str, text_of: Callable[[_T], str], before: tuple[int, ...] = ()
) -> Iterator[_T]:
    """Yield those of sorted values whose text begins with a prefix; a value is its text, or `before` and the text."""
    start: Any = (*before, prefix) if before else prefix
    value: Any
    for value in values.starting_at(start):
        if not text_of(value).startswith(prefix) or (before and value[:1] != before):
            return
        yield value


class _Outcome(NamedTuple):
    """The decision on some candidates that depend on no others; the fields are those of a settlement."""

    room: dict[Position, dict[str, bool]]
    placements: dict[Position, Placement]
    shadowing: dict[Position, Position]
    contested: dict[Position, tuple[str, ...]]
    holders: dict[str, tuple[Position, ...]]

    def wanted_texts(self) -> Iterator[str]:
        """Yield the paths and keys that the candidates wanted."""
        for position in self.placements:
            yield from self.wanted_by(position)

    def wanted_by(self, position: Position) -> tuple[str, ...]:
        """Return the paths and keys that a candidate wanted, which keeps its name."""
        return self.contested.get(position) or (self.placements[position].path,)


def _decide(candidates: Mapping[Position, Candidate]) -> _Outcome:
    """Decide on candidates, which are in the order of their positions."""
    holders: dict[str, tuple[Position, ...]] = {}
    for position, candidate in candidates.items():
        name = candidate.content.instructions.name
        known = holders.get(name)
        holders[name] = (position,) if known is None else (*known, position)
    shadowing = {
        position: found[0]
        for found in holders.values()
        if len(found) > 1
        for position in found
        if position[0] != found[0][0]
    }
    kept = candidates
    if shadowing:
        kept = {position: each for position, each in candidates.items() if position not in shadowing}
    paths = _Paths(kept)
    return _Outcome(paths.room, _placements(kept, paths, holders), shadowing, paths.contested, holders)


def _replaced(
    before: Settlement,
    concerned: AbstractSet[Position],
    members: Mapping[Position, Candidate | None],
    outcome: _Outcome,
) -> Settlement:
    """Return a settlement with the outcome for all candidates that are concerned."""
    claims, placements, holders = Layered(before.claims), Layered(before.placements), Layered(before.holders)
    shadowing, contested, room = Layered(before.shadowing), Layered(before.contested), Layered(before.room)
    lowered = Layered(before.lowered)
    gone, come = list[Position](), list[Position]()
    for position in concerned:
        for each in (placements, shadowing, contested, room):
            each.pop(position, None)
        name = claims.pop(position, None)
        if name is not None and holders.pop(name, None) is not None:
            _uncount(lowered, name.lower())
        if members[position] is None:
            gone.append(position)
        elif name is None:
            come.append(position)
    claims.update((position, each.name) for position, each in members.items() if each is not None)
    holders.update(outcome.holders)
    room.update(outcome.room)
    placements.update(outcome.placements)
    shadowing.update(outcome.shadowing)
    contested.update(outcome.contested)
    for name in outcome.holders:
        lowered[_lower(name)] = lowered.get(_lower(name), 0) + 1
    return Settlement(
        claims,
        room,
        placements,
        shadowing,
        contested,
        holders,
        lowered,
        before.order.revised(gone, come),
        *_wanted_then(before, concerned, outcome),
    )


def _wanted_then(
    before: Settlement, concerned: AbstractSet[Position], outcome: _Outcome
) -> tuple[Mapping[str, tuple[Position, ...]], Ordered[str]]:
    """Return `wanted` and `texts` with the outcome for all candidates that are concerned."""
    wanted, touched = Layered(before.wanted), set[str]()
    for position in concerned:
        for text in before.wanted_by(position):
            _leave(wanted, text, position)
            touched.add(text)
    for position in outcome.placements:
        for text in outcome.wanted_by(position):
            wanted[text] = _with(wanted.get(text, ()), position)
            touched.add(text)
    gone = [text for text in touched if text in before.wanted and text not in wanted]
    come = [text for text in touched if text in wanted and text not in before.wanted]
    return wanted, before.texts.revised(gone, come)


def _uncount(counts: Layered[str, int], text: str) -> None:
    counts[text] -= 1
    if not counts[text]:
        del counts[text]


def _with(positions: tuple[Position, ...], position: Position) -> tuple[Position, ...]:
    return positions if position in positions else tuple(sorted((*positions, position)))


def _leave(wanted: Layered[str, tuple[Position, ...]], text: str, position: Position) -> None:
    """Take a candidate from those that want a text."""
    left = tuple(each for each in wanted[text] if each != position)
    if left:
        wanted[text] = left
    else:
        del wanted[text]


def _is_room(outer: SkillContent, inside: str) -> bool:
    """Tell whether `outer` has neither a file nor a folder at the path `inside`."""
    return not any(file == inside or file.startswith(inside + "/") for file in outer.files)


def _placements(
    candidates: Mapping[Position, Candidate], paths: _Paths, holders: Mapping[str, Sequence[Position]]
) -> dict[Position, Placement]:
    """Return the placement of each candidate, given the paths, and the candidates with each name."""
    keys: set[str] = set()
    placements: dict[Position, Placement] = {}
    for position, path in paths.path_of.items():
        name, shares_name = candidates[position].content.instructions.name, False
        if len(found := holders[name]) > 1:
            # Only those of the highest rank keep the name.
            shares_name = sum(each[0] == found[0][0] for each in found) > 1
        # A name that breaks the rules may equal another skill's path.
        is_unique = not shares_name and (name == path or name not in paths.holder)
        wished = name if is_unique else printable(path)
        key = wished
        if key in keys or key != (path if shares_name else name):
            tried = [wished, *(f"{wished}~{number}" for number in range(2, _first_free(wished, keys) + 1))]
            key = tried[-1]
            paths.contest(position, path, name, *tried)
        keys.add(key)
        placements[position] = Placement(key, path, shares_name)
    return placements


def _first_free(key: str, keys: Container[str]) -> int:
    """Return the number that makes a key unique; 1 stands for the key itself."""
    if key not in keys:
        return 1
    return next(number for number in count(2) if f"{key}~{number}" not in keys)


class _Paths:
    """Assigns each candidate a path, so that no URI names two files.

    The last segment of a path is the skill's name, as SEP-2640 requires. A skill whose folder, like those of all
    enclosing skills, has the skill's name keeps its own path; the others are then mapped to free paths. A nested skill
    gets a path below that of the skill that encloses it.
    """

    def __init__(self, candidates: Mapping[Position, Candidate]) -> None:
        """Assign paths to candidates, which are in the order of their positions."""
        self.path_of: dict[Position, str] = {}
        self.holder: dict[str, Position] = {}
        self.room: dict[Position, dict[str, bool]] = {}
        self.contested: dict[Position, tuple[str, ...]] = {}
        self._candidates = candidates
        self._occupied: set[str] = set()
        for _, ranked in groupby(candidates, key=itemgetter(0)):
            # Nearly all skills are plain: in a folder of their name, and not in another skill.
            others = [position for position in ranked if not (self._is_plain(position) and self._take(position))]
            for position in sorted(others, key=self._order):
                self._place(position)

    def contest(self, position: Position, *texts: str) -> None:
        """Note paths and keys that a candidate wanted."""
        self.contested[position] = tuple(dict.fromkeys((*self.contested.get(position, ()), *texts)))

    def _is_plain(self, position: Position) -> bool:
        rank, place = position
        above, _, last = place.rpartition("/")
        if not last or last != self._candidates[position].content.instructions.name or (rank, "") in self._candidates:
            return False
        while above:
            if (rank, above) in self._candidates:
                return False
            above = parent(above)
        return place.isprintable()

    def _take(self, position: Position) -> bool:
        """Give a plain candidate the path of its place, and return whether that is free."""
        path = above = position[1]
        if path in self._occupied:
            return False
        while above:
            above = parent(above)
            if above in self.holder:
                return False
        self._enter(position, path)
        return True

    def _enter(self, position: Position, path: str) -> None:
        self.path_of[position] = path
        self.holder[path] = position
        while path and path not in self._occupied:
            self._occupied.add(path)
            path = parent(path)

    def _order(self, position: Position) -> tuple[bool, int, str]:
        """Return the sort key in a source: skills that keep their own path, then enclosing before nested skills."""
        content = self._candidates[position].content
        enclosing = (self._candidates[each].content for each in self._enclosing(position))
        natural = all(each.place.rpartition("/")[2] == each.name for each in (content, *enclosing))
        return not natural, content.place.count("/") if content.place else -1, content.place

    def _enclosing(self, position: Position) -> Iterator[Position]:
        """Yield the skills that enclose the candidate, the nearest first."""
        rank, place = position
        yield from (each for above in _above(place) if (each := (rank, above)) in self._candidates)

    def _place(self, position: Position) -> None:
        enclosing = list(self._enclosing(position))
        tried: list[str] = []
        for path in self._choices(position, enclosing):
            tried.append(path)
            if self._is_free(path, position, enclosing):
                break
        path = tried[-1]
        if len(tried) > 1 or not _is_segment(self._candidates[position].name) or printable(path) != path:
            self.contest(position, *tried, printable(path))
        self._enter(position, path)

    def _is_free(self, path: str, position: Position, enclosing: Sequence[Position]) -> bool:
        """Tell whether no skill has a path at or below `path`, and only enclosing skills have one above it."""
        if path in self._occupied:
            return False
        holders = [self.holder[above] for above in _above(path) if above in self.holder]
        if not set(enclosing).issuperset(holders):
            return False
        return not enclosing or self._has_room(path, position, enclosing[0])

    def _has_room(self, path: str, position: Position, outer: Position) -> bool:
        """Tell whether `path` is the candidate's own path below `outer`, or is not taken by files of `outer`."""
        base = self.path_of[outer] + "/"
        inside = path.removeprefix(base)
        real = position[1].removeprefix(f"{outer[1]}/")
        if not path.startswith(base) or inside == real:
            return True
        is_room = _is_room(self._candidates[outer].content, inside)
        self.room.setdefault(outer, {})[inside] = is_room
        return is_room

    def _choices(self, position: Position, enclosing: Sequence[Position]) -> Iterator[str]:
        """Yield possible paths for a candidate, the best first, without end."""
        candidate, outer = self._candidates[position], enclosing[0] if enclosing else None
        folder = position[1].removeprefix(f"{outer[1]}/" if outer and outer[1] else "")
        above, _, last = folder.rpartition("/")
        base = "/".join(part for part in (self.path_of[outer] if outer else "", above) if part)
        name = candidate.name if _is_segment(candidate.name) else last or "skill"
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


def _above(path: str) -> Iterator[str]:
    """Yield the paths above one, the longest first; the last one is empty."""
    while path:
        path = parent(path)
        yield path


def _prefixes(path: str) -> list[str]:
    """Return the path and all paths above it, the shortest first."""
    return [path[: match.start()] for match in re.finditer("/", path)] + [path]


def _is_segment(name: str) -> bool:
    return name not in {"", ".", ".."} and not any(char in name for char in "/\\\0")
