"""The parts of a set of trigger queries: training, validation, and a sealed test that is large enough to decide."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from skills_core.evals.triggers.queries import Query


SEALED_EACH: Final = 10
"""Fewest sealed queries of each kind that decide between two descriptions."""

SEALED_SHARE: Final = 0.6
"""The share of each kind of query that is sealed for the test at the end, if that is more."""

_OPEN_EACH: Final = 5
# Fewest queries of each kind that stay for training and validation beside sealed ones: three and two.

TRAIN_SHARE: Final = 0.6
"""The share of the rest that failures are taken from; the others are for validation."""

_FRESH: Final = "add fresh queries for the test, or begin anew with another --workspace"


class Part(StrEnum):
    """A part of a set of queries."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


_SPELLED: Final = {**{part.value: part for part in Part}, "val": Part.VALIDATION}


class SplitError(SkillsError):
    """The queries cannot be split; the message says what is missing."""


class MissingQueries(NamedTuple):
    """How many further queries of each kind it takes to decide between two descriptions; false if none."""

    should: int
    should_not: int

    def __bool__(self) -> bool:
        """Whether any is missing."""
        return any(self)

    def __str__(self) -> str:
        """Say how many of which kind."""
        kinds = [(self.should, "should trigger"), (self.should_not, "should not")]
        return " and ".join(f"{number} more that {kind}" for number, kind in kinds if number)


def missing_queries(queries: Sequence[Query], opened: Collection[str] = frozenset()) -> MissingQueries:
    """Return how many fresh queries of each kind must be added to seal enough of both.

    `opened` are texts of queries that earlier tests have opened.
    """
    return MissingQueries(*(_Kind.of(queries, kind, opened).missing for kind in (True, False)))


class _Kind(NamedTuple):
    """The queries of one kind: how many name the test, how many can be sealed besides, and how many should be."""

    named: int
    sealable: int
    wanted: int

    @classmethod
    def of(cls, queries: Sequence[Query], kind: bool, opened: Collection[str]) -> _Kind:  # noqa: FBT001 - a value
        own = [query for query in queries if query.should_trigger is kind]
        named = 0 if _in_two_parts(queries) else sum(_spelled(query) is Part.TEST for query in own)
        free = [query for query in own if query.split is None]
        open_ones = len(own) - len(free) - named
        fresh = sum(query.text not in opened for query in free)
        # Below 0, more must be added before any can be sealed.
        sealable = min(fresh, len(free) - max(0, _OPEN_EACH - open_ones)) if free else 0
        return cls(named, sealable, max(SEALED_EACH, round(len(own) * SEALED_SHARE)))

    @property
    def missing(self) -> int:
        return max(0, SEALED_EACH - self.named - self.sealable)

    @property
    def sealed(self) -> int:
        """How many are sealed besides those that name the test."""
        return max(0, min(self.sealable, self.wanted - self.named))


def split_queries(
    queries: Sequence[Query], seed: int, opened: Collection[str] = frozenset()
) -> Mapping[Part, tuple[Query, ...]]:
    """Return the parts, each in the order of the file. Queries that name their part (`split`) are in that one.

    Others are sealed for the test only if that is enough of both kinds to decide; otherwise the test may be empty.
    Queries that all name a part, and two parts in all, have an empty test: the part beside training, whether it is
    called validation or test, is the validation. `opened` are texts of queries that earlier tests have opened.

    Raises:
        SplitError: a query names another part, or the test although it was opened, or training or validation would
            lack queries of one kind.
    """
    if two := _two_parts(queries):
        return two
    part_of: dict[str, Part] = {}
    enough = not missing_queries(queries, opened)
    for should_trigger in (True, False):
        kind = [query for query in queries if query.should_trigger is should_trigger]
        free = sorted((query for query in kind if query.split is None), key=lambda query: _order(query, seed))
        part_of |= {query.id: _named(query, opened) for query in kind if query.split is not None}
        count = _Kind.of(queries, should_trigger, opened).sealed if enough else 0
        sealed = [query for query in free if query.text not in opened][:count]
        rest = [query for query in free if query not in sealed]
        part_of |= dict.fromkeys((query.id for query in sealed), Part.TEST)
        part_of |= dict.fromkeys((query.id for query in rest), Part.TRAIN)
        validation = _validation_count(len(rest), given=len(free) < len(kind))
        part_of |= dict.fromkeys((query.id for query in rest[:validation]), Part.VALIDATION)
    found = {part: tuple(query for query in queries if part_of[query.id] is part) for part in Part}
    for part in (Part.TRAIN, Part.VALIDATION):
        for kind_name in _missing_kinds(found[part]):
            raise SplitError(
                f"the part {part} has no query that {kind_name}; write at least 2 queries of each kind, and "
                f"{SEALED_EACH + _OPEN_EACH} for a verdict, or name the part of each with `split`: train, validation "
                "and test, or train and validation alone"
            )
    return found


def _two_parts(queries: Sequence[Query]) -> Mapping[Part, tuple[Query, ...]] | None:
    """Return the parts of a set that names training and one other part throughout; None for any other set."""
    if not _in_two_parts(queries):
        return None
    found = {
        Part.TRAIN: tuple(query for query in queries if _spelled(query) is Part.TRAIN),
        Part.VALIDATION: tuple(query for query in queries if _spelled(query) is not Part.TRAIN),
        Part.TEST: (),
    }
    for part in (Part.TRAIN, Part.VALIDATION):
        for kind_name in _missing_kinds(found[part]):
            raise SplitError(f"the part {part} has no query that {kind_name}; give each part queries of both kinds")
    return found


def _in_two_parts(queries: Sequence[Query]) -> bool:
    named = {_spelled(query) for query in queries}
    return len(named) == len((Part.TRAIN, Part.VALIDATION)) and Part.TRAIN in named and None not in named


def _spelled(query: Query) -> Part | None:
    """Return the part that a query names; None if it names none, or another one."""
    return _SPELLED.get((query.split or "").lower())


def _missing_kinds(chosen: Sequence[Query]) -> Iterator[str]:
    for should_trigger, kind_name in ((True, "should trigger"), (False, "should not trigger")):
        if not any(query.should_trigger is should_trigger for query in chosen):
            yield kind_name


def _validation_count(total: int, *, given: bool) -> int:
    """Return how many of the queries that are not sealed go into validation; `given` parts may have all they need."""
    least = 0 if given or total < 2 else 1  # noqa: PLR2004 - one for each of the parts
    return total - min(max(round(total * TRAIN_SHARE), least), total - least)


def _order(query: Query, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\n{query.text}".encode()).digest()


def _named(query: Query, opened: Collection[str]) -> Part:
    part = _spelled(query)
    if part is None:
        raise SplitError(f"query {query.id}: split is {query.split!r}; expected train, validation or test")
    if part is Part.TEST and query.text in opened:
        raise SplitError(f"query {query.id}: an earlier optimization has opened it, so it cannot be sealed; {_FRESH}")
    return part
