"""Keep queries with what they found, and tell what they find differently in a later catalog.

A search is deterministic, so a difference comes from the texts of the skills: those of the match itself, or those of
others. A match counts by its key, the name under which the catalog serves it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from skills_core.errors import SkillsError
from skills_core.selection.policy import Band, SelectionPolicy

if TYPE_CHECKING:
    from skills_core.selection.policy import Match


DEFAULT_TOLERANCE: Final = 0.1
"""The share of a score that a change must exceed: in the default ranking every new skill shifts scores a little."""

MAX_QUERIES: Final = 10_000


class KeptQueryError(SkillsError):
    """What should be kept queries is something else; the message names the query and the field."""


class Move(StrEnum):
    """What is different about a match."""

    LOST = "lost"
    NEW = "new"
    RANK = "rank"
    BAND = "band"
    SCORE = "score"


@dataclass(frozen=True, slots=True)
class FoundBefore:
    """One match of a kept query: its place from 1, and the skill's `id`, which changes with its text."""

    name: str
    rank: int
    score: float
    band: Band
    id: str | None = None

    @classmethod
    def of(cls, match: Match, rank: int) -> FoundBefore:
        """Return what is kept of a match."""
        return cls(match.skill.key, rank, round(match.score, 4), match.band, match.skill.id)

    def as_object(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"name": self.name, "rank": self.rank, "score": self.score, "band": self.band.value, "id": self.id}


@dataclass(frozen=True, slots=True)
class KeptQuery:
    """A query with the ranking and the policy that it was made with; `found` is None if it was never made."""

    query: str
    ranking: str
    policy: SelectionPolicy
    found: tuple[FoundBefore, ...] | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        """What tells it from other queries of a file."""
        return self.query, self.ranking, self.policy

    def with_matches(self, matches: Sequence[Match]) -> KeptQuery:
        """Return the query with what it finds now."""
        found = tuple(FoundBefore.of(match, rank) for rank, match in enumerate(matches, 1))
        return KeptQuery(self.query, self.ranking, self.policy, found)

    def as_object(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "query": self.query,
            "ranking": self.ranking,
            "limit": self.policy.top_k,
            "min_score": self.policy.min_score,
            "tags": list(self.policy.include_tags),
            "exclude_tags": list(self.policy.exclude_tags),
            "matches": None if self.found is None else [each.as_object() for each in self.found],
        }

    @classmethod
    def read(cls, value: object, where: str, rankings: Sequence[str]) -> KeptQuery:
        """Read what `as_object` returns; only the query itself is required, and a string is a query alone.

        Raises:
            KeptQueryError: the value has another form; the message begins with `where`.
        """
        reader = _QueryReader({"query": value} if isinstance(value, str) else value, where)
        ranking = reader.text("ranking", rankings[0])
        if ranking not in rankings:
            raise KeptQueryError(f"{where}: ranking is {ranking[:60]!r}; expected {' or '.join(rankings)}")
        limit, least = reader.number("limit", 10), reader.number("min_score", 0)
        if limit < 1 or limit != int(limit):
            raise KeptQueryError(f"{where}: limit must be a whole number from 1 on")
        policy = SelectionPolicy(int(limit), least, reader.texts("tags"), reader.texts("exclude_tags"))
        return cls(reader.text("query"), ranking, policy, reader.found())


@dataclass(frozen=True, slots=True)
class Drift:
    """A match that moved: what it was, what it is, and how; `edited` tells that its own text has changed."""

    name: str
    moves: tuple[Move, ...]
    before: FoundBefore | None
    now: FoundBefore | None

    @property
    def edited(self) -> bool:
        """Whether the skill's own text has changed."""
        return self.before is not None and self.now is not None and self.before.id != self.now.id

    def as_object(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "name": self.name,
            "moves": [move.value for move in self.moves],
            "edited": self.edited,
            "before": self.before.as_object() if self.before else None,
            "now": self.now.as_object() if self.now else None,
        }


@dataclass(frozen=True, slots=True)
class QueryDrift:
    """What moved for one query; `is_new` tells that the file has no result to compare with."""

    query: KeptQuery
    moved: tuple[Drift, ...] = field(default=())
    is_new: bool = False


def compared(query: KeptQuery, matches: Sequence[Match], tolerance: float = DEFAULT_TOLERANCE) -> QueryDrift:
    """Compare what a query found with what it finds now.

    Weak matches fit by chance, so what was weak and still is does not count. A new match counts if it ranks above a
    former one, or if the query found nothing before.
    """
    if query.found is None:
        return QueryDrift(query, is_new=True)
    now = {each.name: each for each in (FoundBefore.of(match, rank) for rank, match in enumerate(matches, 1))}
    return QueryDrift(query, tuple(_drifts(query.found, now, tolerance)))


def _drifts(found: Sequence[FoundBefore], now: Mapping[str, FoundBefore], tolerance: float) -> Iterator[Drift]:
    former = {each.name for each in found}
    strong = [each for each in found if each.band is not Band.TRACE]
    last = max((now[each.name].rank for each in strong if each.name in now), default=0)
    for each in found:
        moves = tuple(_moves(each, now.get(each.name), tolerance))
        if moves:
            yield Drift(each.name, moves, each, now.get(each.name))
    for name, each in now.items():
        if name not in former and each.band is not Band.TRACE and (each.rank < last or not strong):
            yield Drift(name, (Move.NEW,), None, each)


def _moves(before: FoundBefore, now: FoundBefore | None, tolerance: float) -> Iterator[Move]:
    if before.band is Band.TRACE and (now is None or now.band is Band.TRACE):
        return
    if now is None:
        yield Move.LOST
        return
    if now.rank != before.rank:
        yield Move.RANK
    if now.band is not before.band:
        yield Move.BAND
    if abs(now.score - before.score) > tolerance * max(abs(before.score), abs(now.score)):
        yield Move.SCORE


class _QueryReader:
    """Reads the fields of one query of a file."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise KeptQueryError(f"{where}: expected an object with the field query, or the query as a string")
        self._value, self._where = value, where

    def text(self, name: str, default: str | None = None) -> str:
        value = self._value.get(name, default)
        if not isinstance(value, str):
            raise KeptQueryError(f"{self._where}: {name} must be a string")
        return value

    def number(self, name: str, default: float) -> float:
        value = self._value.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise KeptQueryError(f"{self._where}: {name} must be a number")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._value.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise KeptQueryError(f"{self._where}: {name} must be a list of strings")
        return tuple(value)

    def found(self) -> tuple[FoundBefore, ...] | None:
        value = self._value.get("matches")
        if value is None:
            return None
        if not isinstance(value, list):
            raise KeptQueryError(f"{self._where}: matches must be a list, or null")
        return tuple(self._match(each, rank) for rank, each in enumerate(value, 1))

    def _match(self, value: object, rank: int) -> FoundBefore:
        reader = _QueryReader(value, f"{self._where}, match {rank}")
        band, identity = reader.text("band"), reader._value.get("id")
        if band not in set(Band):
            raise KeptQueryError(f"{reader._where}: band is {band[:60]!r}; expected one of {', '.join(Band)}")
        if identity is not None and not isinstance(identity, str):
            raise KeptQueryError(f"{reader._where}: id must be a string, or null")
        return FoundBefore(reader.text("name"), rank, reader.number("score", math.nan), Band(band), identity)
