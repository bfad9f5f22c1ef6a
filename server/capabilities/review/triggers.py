"""What a branch does to the ranks of skills for their trigger queries, by the search of the server, without a model.

Both versions answer the queries that the branch has, each among the skills of its time. The ranking is deterministic:
an effect is certain for these queries, and its interval says how far it may be from that for all that users say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from server.capabilities.review.changes import fault_of
from server.capabilities.review.effects import Effect, effect_of
from server.hosting.searches import reranker_of
from skills_core.diagnostics import counted
from skills_core.errors import SkillsError
from skills_core.evals.triggers.queries import queries_of_skill
from skills_core.evals.triggers.ranks import rank_queries
from skills_core.evals.triggers.results import Rate
from skills_core.selection.ranking import SkillSearch
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from server.capabilities.review.changes import SkillChange, Version
    from server.config.settings.model import Settings
    from skills_core.evals.triggers.queries import Query
    from skills_core.evals.triggers.ranks import RankedQuery
    from skills_core.skills.skill import Skill

_LEAST_SKILLS: Final = 2
# The skill and a rival.


@dataclass(frozen=True, slots=True)
class QueryChange:
    """One query: whether each version finds the skill first as it should, or not as it should not; words for both."""

    query: Query
    before: float | None
    after: float | None
    shown_before: str = ""
    shown_after: str = ""


@dataclass(frozen=True, slots=True)
class TriggerEffect:
    """What became of the trigger queries of a skill; `note` says why they could not be compared, or measured at all.

    The scores of queries are from 0, wrong, to 1. `effect` is the mean difference of both versions over the queries.
    """

    place: str
    name: str
    queries: tuple[QueryChange, ...] = ()
    effect: Effect | None = None
    note: str = ""

    @property
    def differing(self) -> tuple[QueryChange, ...]:
        """The queries with another score than before."""
        pairs = (each for each in self.queries if each.before is not None and each.after is not None)
        return tuple(each for each in pairs if each.before != each.after)

    def recall(self, *, before: bool) -> Rate | None:
        """Return how many of the queries that should trigger do so; None if this was not measured."""
        return self._rate(should_trigger=True, before=before)

    def false_alarms(self, *, before: bool) -> Rate | None:
        """Return how many of the queries that should not trigger do so; None if this was not measured."""
        right = self._rate(should_trigger=False, before=before)
        return None if right is None else Rate(right.total - right.count, right.total)

    def _rate(self, *, should_trigger: bool, before: bool) -> Rate | None:
        chosen = [each for each in self.queries if each.query.should_trigger is should_trigger]
        scores = [score for each in chosen if (score := each.before if before else each.after) is not None]
        measured = any((each.before if before else each.after) is not None for each in self.queries)
        return Rate(sum(score > 0.5 for score in scores), len(scores)) if measured else None  # noqa: PLR2004 - a half


class RankComparison:
    """Ranks the skills of both versions of a repository."""

    def __init__(self, before: Version, after: Version, settings: Settings) -> None:
        self._before = before
        self._after = after
        self._searches = [SkillSearch(reranker_of(settings, wait=True)) for _ in range(2)]

    def of_change(self, change: SkillChange) -> TriggerEffect:
        """Return the effect on a skill that the branch adds or changes."""
        if change.after is None:
            return TriggerEffect(change.place, change.name, note="the skill is removed")
        return self._effect(change.place, change.before, change.after)

    def others(self, changes: Sequence[SkillChange]) -> Iterator[TriggerEffect]:
        """Yield the effects on skills that the branch leaves as they are, where their queries find other skills now."""
        changed = {each.place for each in changes}
        if all(each.only_evals for each in changes):
            return
        for place, skill in self._after.skills.items():
            old = self._before.skills.get(place)
            if place not in changed and old is not None and skill.is_offered and old.is_offered:
                found = self._effect(place, old, skill)
                if found.differing:
                    yield found

    def _effect(self, place: str, before: Skill | None, after: Skill) -> TriggerEffect:
        try:
            found = queries_of_skill(self._after.folder_of(after))
        except SkillsError as error:
            return TriggerEffect(place, after.name, note=str(error))
        if found is None:
            return TriggerEffect(place, after.name, note="it has no trigger queries")
        queries = found[1]
        if note := self._fault(after, self._after):
            return TriggerEffect(place, after.name, note=f"not measured: {note}")
        new = self._ranks(after, self._after, 1, queries)
        note = "the skill is new" if before is None else self._fault(before, self._before)
        old = self._ranks(before, self._before, 0, queries) if before is not None and not note else None
        changes = tuple(_query_change(each, old.get(each.query.id) if old else None) for each in new.values())
        effect = effect_of([(each.before, each.after) for each in changes]) if old else None
        return TriggerEffect(place, after.name, changes, effect, f"not compared: {note}" if note else "")

    def _fault(self, skill: Skill, version: Version) -> str:
        """Return why a skill cannot be ranked; empty if it can."""
        if skill.state is not State.ACTIVE:
            return fault_of(skill)
        if not skill.is_offered:
            return "models may not activate it by themselves"
        offered = len(version.catalog.offered)
        return "" if offered >= _LEAST_SKILLS else f"there was no rival: {counted(offered, 'skill')} in the folders"

    def _ranks(
        self, skill: Skill, version: Version, number: int, queries: Sequence[Query]
    ) -> Mapping[str, RankedQuery]:
        search = partial(self._searches[number].select, version.catalog.offered)
        return {each.query.id: each for each in rank_queries(search, skill, queries)}


def _query_change(new: RankedQuery, old: RankedQuery | None) -> QueryChange:
    return QueryChange(
        new.query, None if old is None else float(old.is_right), float(new.is_right), _rank(old), _rank(new)
    )


def _rank(ranked: RankedQuery | None) -> str:
    if ranked is None:
        return ""
    if ranked.rank is None:
        return "not found"
    return f"rank {ranked.rank}{' (weak)' if ranked.match is not None and ranked.match.weak else ''}"
