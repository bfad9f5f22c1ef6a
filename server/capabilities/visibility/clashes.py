"""Skills that stand in each other's way: names that clash, and descriptions that compete for the same requests."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from skills_core.selection.policy import SelectionPolicy
from skills_core.selection.ranking import SkillSearch
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from server.clients.profile import ClientProfile
    from server.hosting.views import View
    from skills_core.catalog.catalog import Catalog
    from skills_core.selection.policy import Match
    from skills_core.skills.skill import Skill

_PARTS = re.compile(r"[^\W_]+")
_SHORTEST_PLURAL = 4


class NameClashKind(StrEnum):
    """The kind of a clash."""

    SHADOWED = "shadowed"
    """Several sources have the name; the source with the highest precedence is served."""

    SHARED = "shared"
    """Several skills of one source have the name and are served under their paths."""

    ALIKE = "alike"
    """The names differ only by case, separators or a plural."""

    COMMAND = "command"
    """A client has a slash command with that name."""


@dataclass(frozen=True, slots=True)
class NameClash:
    """Skills that clash by name; `clients` are those with a command of that name."""

    kind: NameClashKind
    skills: tuple[Skill, ...]
    clients: tuple[ClientProfile, ...] = ()


def name_clashes(catalog: Catalog, clients: Iterable[ClientProfile]) -> tuple[NameClash, ...]:
    """Return the name clashes, the skills of each in the order of the catalog."""
    named = [skill for skill in catalog.skills if skill.state in {State.ACTIVE, State.SHADOWED}]
    return (*_same(named), *_alike(catalog.active), *_commands(catalog.active, tuple(clients)))


def plain_name(name: str) -> str:
    """Return a name without differences that people overlook: case, separators, and plurals."""
    return "".join(_singular(part) for part in _PARTS.findall(name.casefold()))


def _same(skills: Iterable[Skill]) -> Iterator[NameClash]:
    for group in _groups(skills, lambda skill: skill.name):
        served = [skill for skill in group if skill.state is State.ACTIVE]
        if len(served) < len(group):
            yield NameClash(NameClashKind.SHADOWED, group)
        if len(served) > 1:
            yield NameClash(NameClashKind.SHARED, tuple(served))


def _alike(skills: Iterable[Skill]) -> Iterator[NameClash]:
    for group in _groups(skills, lambda skill: plain_name(skill.name)):
        if len({skill.name for skill in group}) > 1:
            yield NameClash(NameClashKind.ALIKE, group)


def _commands(skills: Iterable[Skill], clients: tuple[ClientProfile, ...]) -> Iterator[NameClash]:
    commands = [(client, client.commands.names) for client in clients if client.commands]
    for skill in skills:
        having = tuple(client for client, names in commands if skill.name.lower() in names)
        if having:
            yield NameClash(NameClashKind.COMMAND, (skill,), having)


def _groups(skills: Iterable[Skill], key: Callable[[Skill], str]) -> Iterator[tuple[Skill, ...]]:
    """Yield each group of skills that share a non-empty key."""
    groups: dict[str, list[Skill]] = defaultdict(list)
    for skill in skills:
        groups[key(skill)].append(skill)
    return (tuple(group) for shared, group in groups.items() if shared and len(group) > 1)


def _singular(word: str) -> str:
    return word[:-1] if len(word) >= _SHORTEST_PLURAL and word.endswith("s") and not word.endswith("ss") else word


_THRESHOLD = 0.6
# Minimum share of a skill's own score. Curated collections of distinct skills stay below 0.55: see
# docs/guides/check-visibility.md.

_MAX_COMPARISONS = 2_000_000
# Maximum comparisons of a description with a skill: enough for all of 1,400 skills, or 200 of 10,000.

_RIVALS = SelectionPolicy(top_k=4, min_score=0.0)
# The skill itself and its three closest rivals.

_FIELDS = frozenset({"name", "description", "tags"})


@dataclass(frozen=True, slots=True)
class SimilarPair:
    """A search for the description of `skill` finds `rival` with this `share` of the score of `skill` itself.

    `back` is the share in the other direction. `words` are the words of the description that the rival also has.
    """

    skill: Skill
    rival: Skill
    share: float
    back: float
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SimilarDescriptions:
    """The competing pairs, closest first, and how many descriptions were compared and left out."""

    pairs: tuple[SimilarPair, ...]
    compared: int
    left_out: int


def similar_descriptions(skills: Sequence[Skill]) -> SimilarDescriptions:
    """Compare descriptions with all of `skills`: those of the first ones, where there are too many for all."""
    search, listed = SkillSearch(), tuple(skills)
    asked = listed[: _MAX_COMPARISONS // max(1, len(listed))]
    found: dict[tuple[int, int], tuple[Skill, Match, float]] = {}
    for skill in asked:
        for match, share in _rivals(skill, search.select(listed, skill.description, _RIVALS)):
            found[id(skill), id(match.skill)] = (skill, match, share)
    pairs = [_pair(found, key) for key in found if found[key][2] >= _THRESHOLD and _is_closer(found, key)]
    pairs.sort(key=lambda pair: (-pair.share, -pair.back, pair.skill.key, pair.rival.key))
    return SimilarDescriptions(tuple(pairs), len(asked), len(listed) - len(asked))


def rivals_of(skill: Skill, view: View) -> tuple[tuple[Skill, float], ...]:
    """Return the skills of a view that a search for the description of an offered one finds too, with their shares."""
    matches = view.search(skill.description, _RIVALS, words_only=True)
    return tuple((match.skill, share) for match, share in _rivals(skill, matches) if share >= _THRESHOLD)


def _rivals(skill: Skill, matches: Sequence[Match]) -> Iterator[tuple[Match, float]]:
    """Yield the matches that are other skills, each with its share of the score of the skill itself."""
    own = next((match.score for match in matches if match.skill is skill), 0.0)
    if own:
        yield from ((match, match.score / own) for match in matches if match.skill is not skill)


def _is_closer(found: dict[tuple[int, int], tuple[Skill, Match, float]], key: tuple[int, int]) -> bool:
    """Tell whether this way round says more than the other; of two that say the same, the first one asked does."""
    other = found.get((key[1], key[0]))
    if other is None or found[key][2] != other[2]:
        return other is None or found[key][2] > other[2]
    return found[key][0].key < other[0].key


def _pair(found: dict[tuple[int, int], tuple[Skill, Match, float]], key: tuple[int, int]) -> SimilarPair:
    skill, match, share = found[key]
    _, _, back = found.get((key[1], key[0]), (None, None, 0.0))
    words = dict.fromkeys(word for field, these in match.why if field in _FIELDS for word in these)
    return SimilarPair(skill, match.skill, share, back, tuple(words))
