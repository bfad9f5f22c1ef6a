"""Split queries into training, validation and a sealed test, each with its share of both kinds.

A set whose queries all name one of two parts stays in two parts, as the guide of the format has it: nothing is sealed.
The order is by a hash of the seed and the text, so that it does not depend on the order of the file. A query that has
been in an opened test is never sealed again: the more often a test is opened, the more likely chance passes it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from skills_core.evals.triggers.queries import Query

__all__ = ["SEALED_SHARE", "TRAIN_SHARE", "Part", "SplitError", "split_queries"]

SEALED_SHARE: Final = 0.25
"""The share of each kind of query that is sealed for the test at the end."""

TRAIN_SHARE: Final = 0.6
"""The share of the rest that failures are taken from; the others are for validation."""


class Part(StrEnum):
    """A part of a set of queries."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


_SPELLED: Final = {**{part.value: part for part in Part}, "val": Part.VALIDATION}


class SplitError(SkillsError):
    """The queries cannot be split; the message says what is missing."""


_FRESH: Final = "add fresh queries for the test, or begin anew with another --workspace"

_USED_UP: Final = f"earlier optimizations have opened all queries for the test that {{}}; {_FRESH}"


@dataclass(frozen=True, slots=True)
class _Counts:
    train: int
    validation: int
    test: int


def split_queries(
    queries: Sequence[Query], seed: int, opened: Collection[str] = frozenset()
) -> Mapping[Part, tuple[Query, ...]]:
    """Return the parts, each in the order of the file. Queries that name their part (`split`) are in that one.

    Queries that all name a part, and two parts in all, have an empty test: the part beside training, whether it is
    called validation or test, is the validation. `opened` are texts of queries that earlier tests have opened.

    Raises:
        SplitError: a query names another part, or the test although it was opened, or a part would lack queries of one
            kind.
    """
    if two := _two_parts(queries):
        return two
    part_of: dict[str, Part] = {}
    for should_trigger in (True, False):
        kind = [query for query in queries if query.should_trigger is should_trigger]
        free = sorted((query for query in kind if query.split is None), key=lambda query: _order(query, seed))
        part_of |= {query.id: _named(query, opened) for query in kind if query.split is not None}
        counts = _counts(len(free), given=len(free) < len(kind))
        sealed = [query for query in free if query.query not in opened][: counts.test]
        rest = [query for query in free if query not in sealed]
        part_of |= dict.fromkeys((query.id for query in sealed), Part.TEST)
        part_of |= dict.fromkeys((query.id for query in rest), Part.TRAIN)
        part_of |= dict.fromkeys((query.id for query in rest[: counts.validation]), Part.VALIDATION)
    found = {part: tuple(query for query in queries if part_of[query.id] is part) for part in Part}
    for part, chosen in found.items():
        for kind_name in _missing_kinds(chosen):
            if part is Part.TEST and any(query.query in opened for query in queries):
                raise SplitError(_USED_UP.format(kind_name))
            raise SplitError(
                f"the part {part} has no query that {kind_name}; write at least 3 queries of each kind, better 8 to "
                "10, or name the part of each with `split`: train, validation and test, or train and validation alone"
            )
    return found


def _two_parts(queries: Sequence[Query]) -> Mapping[Part, tuple[Query, ...]] | None:
    """Return the parts of a set that names training and one other part throughout; None for any other set."""
    named = [_SPELLED.get((query.split or "").lower()) for query in queries]
    if len(set(named)) != len((Part.TRAIN, Part.VALIDATION)) or Part.TRAIN not in named or None in named:
        return None
    found = {
        Part.TRAIN: tuple(query for query, part in zip(queries, named, strict=True) if part is Part.TRAIN),
        Part.VALIDATION: tuple(query for query, part in zip(queries, named, strict=True) if part is not Part.TRAIN),
        Part.TEST: (),
    }
    for part in (Part.TRAIN, Part.VALIDATION):
        for kind_name in _missing_kinds(found[part]):
            raise SplitError(f"the part {part} has no query that {kind_name}; give each part queries of both kinds")
    return found


def _missing_kinds(chosen: Sequence[Query]) -> Iterator[str]:
    for should_trigger, kind_name in ((True, "should trigger"), (False, "should not trigger")):
        if not any(query.should_trigger is should_trigger for query in chosen):
            yield kind_name


def _counts(total: int, *, given: bool) -> _Counts:
    """Return how many queries go into each part; with `given` parts, a part may be left to them."""
    least = 0 if given or total < len(Part) else 1
    test = max(round(total * SEALED_SHARE), least)
    train = max(round((total - test) * TRAIN_SHARE), least)
    train = min(train, total - test - least)
    return _Counts(train, total - test - train, test)


def _order(query: Query, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\n{query.query}".encode()).digest()


def _named(query: Query, opened: Collection[str]) -> Part:
    part = _SPELLED.get((query.split or "").lower())
    if part is None:
        raise SplitError(f"query {query.id}: split is {query.split!r}; expected train, validation or test")
    if part is Part.TEST and query.query in opened:
        raise SplitError(f"query {query.id}: an earlier optimization has opened it, so it cannot be sealed; {_FRESH}")
    return part
