"""Measure without a model whether a skill is found and seen: its rank for each query, and its entry in each client."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from server.capabilities.visibility.served_listing import EntryState, Sight, served_skills
from server.hosting.searches import load_reranker
from skills_core.diagnostics import printable
from skills_core.evals.triggers.ranks import rank_queries, summarize
from skills_core.selection.ranking import SkillSearch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from server.clients.profile import ClientProfile
    from server.listing.snapshot import Snapshot
    from skills_core.evals.triggers.queries import Query
    from skills_core.evals.triggers.ranks import Limits, QuerySummary, RankedQuery
    from skills_core.evals.triggers.results import Rate
    from skills_core.skills.skill import Skill


@dataclass(frozen=True, slots=True)
class ClientSight:
    """What one client shows of the skill in its catalog, at the `position` from 1 of its order.

    `described` counts the skills whose whole entries the model sees from the start, among all `offered` ones.
    """

    client: ClientProfile
    version: str | None
    sight: Sight
    entry: EntryState
    position: int
    described: int
    offered: int

    @property
    def shown(self) -> bool:
        """Whether the model sees the skill's whole entry from the start."""
        return self.sight is Sight.DESCRIBED

    @property
    def label(self) -> str:
        """The client's key, with the version that was asked about."""
        return f"{self.client.key}@{self.version}" if self.version else self.client.key


@dataclass(frozen=True, slots=True)
class RankedTriggers:
    """The ranks of a skill for the queries in `file`, among the skills that a server would offer to models."""

    skill: Skill
    file: str
    ranked: tuple[RankedQuery, ...]
    clients: tuple[ClientSight, ...]
    skills: int
    unknown: tuple[str, ...]
    """Skills that queries name as expected, but that the catalog does not offer."""
    summary: QuerySummary

    @property
    def shown(self) -> bool:
        """Whether all chosen clients show the skill's entry."""
        return all(sight.shown for sight in self.clients)


def rank_triggers(
    snapshot: Snapshot,
    skill: Skill,
    queries: Sequence[Query],
    file: str,
    clients: Sequence[tuple[ClientProfile, str | None]],
    limits: Limits,
) -> RankedTriggers:
    """Rank `skill`, which the catalog offers, with the search and the settings that `serve` uses.

    Raises:
        ConfigurationError: the reranker of the settings cannot be loaded.
    """
    offered = snapshot.catalog.offered
    search = SkillSearch(load_reranker(snapshot.settings.search.reranker), many=True)
    ranked = rank_queries(partial(search.select, offered), skill, queries)
    sights = tuple(_sight(snapshot, skill, client, version) for client, version in clients)
    known = {name for each in offered for name in (each.key, each.name)}
    named = dict.fromkeys(query.expected_skill for query in queries if query.expected_skill is not None)
    unknown = tuple(name for name in named if name not in known)
    return RankedTriggers(skill, file, ranked, sights, len(offered), unknown, summarize(ranked, len(offered), limits))


def _sight(snapshot: Snapshot, skill: Skill, client: ClientProfile, version: str | None) -> ClientSight:
    profile = client.of_version(version)
    listed = [shown for shown in served_skills(snapshot, profile).skills if shown.sight is not None]
    positions = (number for number, shown in enumerate(listed, 1) if shown.skill.path == skill.path)
    position = next(positions)
    found = listed[position - 1]
    described = sum(shown.sight is Sight.DESCRIBED for shown in listed)
    return ClientSight(
        profile, version, found.sight or Sight.FIND_SKILLS, found.entry, position, described, len(listed)
    )


def triggers_object(triggers: RankedTriggers) -> dict[str, Any]:
    """Return the object of `triggers --no-model --json`; docs/guides/test-triggers.md documents it."""
    return {
        "skill": printable(triggers.skill.key),
        "file": printable(triggers.file),
        "catalog": {"skills": triggers.skills},
        "clients": [_client(sight) for sight in triggers.clients],
        "queries": [_query(ranked, shown=triggers.shown) for ranked in triggers.ranked],
        "summary": _summary(triggers),
    }


def _client(sight: ClientSight) -> dict[str, Any]:
    return {
        "client": sight.client.key,
        "version": sight.version,
        "shown": sight.shown,
        "sight": sight.sight.value,
        "entry": sight.entry.value,
        "position": sight.position,
        "described": sight.described,
        "offered": sight.offered,
    }


def _query(ranked: RankedQuery, *, shown: bool) -> dict[str, Any]:
    query, match = ranked.query, ranked.match
    return {
        "id": query.id,
        "query": query.text,
        "should_trigger": query.should_trigger,
        "rank": ranked.rank,
        "shown": shown,
        "pass": ranked.is_right,
        "weak": match.weak if match else None,
        "relative": round(match.relative, 4) if match else None,
        "above": [printable(key) for key in ranked.above],
        "expected_skill": query.expected_skill,
        "expected_rank": ranked.expected_rank,
        "split": query.split,
    }


def _summary(triggers: RankedTriggers) -> dict[str, Any]:
    summary = triggers.summary
    return {
        "recall_at_1": _rate(summary.recall_at_1),
        "recall_at_5": _rate(summary.recall_at_5),
        "false_triggers": _rate(summary.false_triggers),
        "first_of_near_misses": _rate(summary.first_of_near_misses),
        "expected_first": _rate(summary.expected_first),
        "shown": triggers.shown,
        "confusions": [
            {"rival": printable(each.rival), "above": list(each.above), "displaced": list(each.displaced)}
            for each in summary.confusions
        ],
        "unknown_skills": [printable(name) for name in triggers.unknown],
        "verdict": summary.verdict.value if summary.verdict else None,
        "reasons": list(summary.reasons),
    }


def _rate(rate: Rate) -> dict[str, Any]:
    """Return a rate with its interval; the share is null without queries."""
    low, high = rate.interval
    share = None if rate.value is None else round(rate.value, 4)
    return {"hits": rate.count, "total": rate.total, "rate": share, "interval": [round(low, 4), round(high, 4)]}
