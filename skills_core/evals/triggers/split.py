"""Split queries into training, validation and a sealed test, each with its share of both kinds.

The order is by a hash of the seed and the text, so that it does not depend on the order of the file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


@dataclass(frozen=True, slots=True)
class _Counts:
    train: int
    validation: int
    test: int


def split_queries(queries: Sequence[Query], seed: int) -> Mapping[Part, tuple[Query, ...]]:
    """Return the parts, each in the order of the file. Queries that name their part (`split`) are in that one.

    Raises:
        SplitError: a query names another part, or a part would lack queries of one kind.
    """
    part_of: dict[str, Part] = {}
    for should_trigger in (True, False):
        kind = [query for query in queries if query.should_trigger is should_trigger]
        free = sorted((query for query in kind if query.split is None), key=lambda query: _order(query, seed))
        part_of |= {query.id: _named(query) for query in kind if query.split is not None}
        counts = _counts(len(free), given=len(free) < len(kind))
        parts = [Part.TEST] * counts.test + [Part.VALIDATION] * counts.validation + [Part.TRAIN] * counts.train
        part_of |= {query.id: part for query, part in zip(free, parts, strict=True)}
    found = {part: tuple(query for query in queries if part_of[query.id] is part) for part in Part}
    for part, chosen in found.items():
        for should_trigger, kind_name in ((True, "should trigger"), (False, "should not trigger")):
            if not any(query.should_trigger is should_trigger for query in chosen):
                raise SplitError(
                    f"the part {part} has no query that {kind_name}; write at least 3 queries of each kind, better 8 "
                    "to 10, or name the parts with `split`: train, validation and test"
                )
    return found


def _counts(total: int, *, given: bool) -> _Counts:
    """Return how many queries go into each part; with `given` parts, a part may be left to them."""
    least = 0 if given or total < len(Part) else 1
    test = max(round(total * SEALED_SHARE), least)
    train = max(round((total - test) * TRAIN_SHARE), least)
    train = min(train, total - test - least)
    return _Counts(train, total - test - train, test)


def _order(query: Query, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\n{query.query}".encode()).digest()


def _named(query: Query) -> Part:
    part = _SPELLED.get((query.split or "").lower())
    if part is None:
        raise SplitError(f"query {query.id}: split is {query.split!r}; expected train, validation or test")
    return part
