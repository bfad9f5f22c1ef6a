"""`lint`: skills that compete, collide on queries or are the same, and skills that are never activated."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from server.cli.console import print_text
from server.hosting.searches import reranker_of
from server.hosting.status import display_path
from skills_core.diagnostics import agreeing, counted, one_line, printable, shortened
from skills_core.disk.sources import SkillKind
from skills_core.evals.triggers.queries import QueryFileError, queries_of_skill
from skills_core.evals.triggers.ranks import MIN_QUERIES, rank_query
from skills_core.selection.fulltext import fold, index_text, query_words
from skills_core.selection.ranking import TOP_TEN, SkillSearch
from skills_core.selection.rivals import NEAREST, CatalogWords
from skills_core.selection.twins import alike, signature

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from skills_core.evals.triggers.queries import Query
    from skills_core.evals.triggers.ranks import RankedQuery, Search
    from skills_core.selection.policy import Match
    from skills_core.selection.rivals import Rivals
    from skills_core.skills.skill import Skill


_NEAREST = replace(TOP_TEN, top_k=NEAREST)
_BODY = "body"


@dataclass(frozen=True, slots=True)
class Collision:
    """A query of `skill` that another skill takes, or that `skill` takes from another; `rival` is the other one.

    `rank` is that of `skill`, None if the search does not find it. The first match is `weak` if it covers little of the
    query, or if no rare word of it is in the match's name, description or tags.
    """

    skill: Skill
    rival: Skill
    query: Query
    rank: int | None
    weak: bool = False


@dataclass(frozen=True, slots=True)
class QueryCheck:
    """The collisions on the queries of all skills, how many each skill has by its path, and the files' errors.

    `tested` are the paths of skills with enough queries that should trigger them to tell which others these find, and
    `found` the pairs of paths of a skill and another one that is among the first matches of such a query.
    """

    collisions: tuple[Collision, ...]
    by_skill: Mapping[str, int]
    errors: tuple[str, ...]
    tested: frozenset[str] = frozenset()
    found: frozenset[tuple[str, str]] = frozenset()

    @property
    def asked(self) -> int:
        """How many queries were asked."""
        return sum(self.by_skill.values())

    @property
    def files(self) -> int:
        """How many skills have queries."""
        return len(self.by_skill)

    def keeps_apart(self, one: str, other: str) -> bool:
        """Tell whether queries of the skills at two paths were asked, enough of them, and none found the other one."""
        return not self.tested.isdisjoint({one, other}) and self.found.isdisjoint({(one, other), (other, one)})


def check_queries(skills: Sequence[Skill], search: Search, words: CatalogWords) -> QueryCheck:
    """Ask the trigger queries of all `skills`, as far as they have any; `words` are those of the same skills."""
    by_key = {name: skill for skill in reversed(skills) for name in (skill.name, skill.key)}
    collisions: list[Collision] = []
    errors: list[str] = []
    by_skill: dict[str, int] = {}
    tested: set[str] = set()
    found: set[tuple[str, str]] = set()
    for skill in skills:
        try:
            queries = _queries(skill)
        except QueryFileError as error:
            errors.append(str(error))
            continue
        if queries:
            by_skill[skill.path] = len(queries)
        if sum(query.should_trigger for query in queries) >= MIN_QUERIES:
            tested.add(skill.path)
        for query in queries:
            matches = search(query.text, _NEAREST)
            if query.should_trigger:
                found |= {(skill.path, match.skill.path) for match in matches if not _is_weak(match, words)}
            first = next(iter(matches), None)
            if first is None or (first.skill.path == skill.path) is query.should_trigger:
                # The usual case takes a fraction of the time of a ranking.
                continue
            ranked, weak = rank_query(search, skill, query), _is_weak(first, words)
            collisions += [
                Collision(skill, by_key[rival], query, ranked.rank, weak) for rival in _rivals(ranked, by_key)
            ]
    return QueryCheck(tuple(collisions), by_skill, tuple(errors), frozenset(tested), frozenset(found))


def _is_weak(match: Match, words: CatalogWords) -> bool:
    return match.weak or not words.has_rare(word for field, these in match.why if field != _BODY for word in these)


def _queries(skill: Skill) -> tuple[Query, ...]:
    if skill.content.kind is not SkillKind.FOLDER:
        return ()
    folder = skill.source.root / skill.content.folder
    # Most skills have no such folder, and one look is faster than three.
    if not os.path.isdir(folder / "evals") and not os.path.lexists(folder / "eval_queries.json"):  # noqa: PTH112
        return ()
    found = queries_of_skill(folder)
    return found[1] if found else ()


def _rivals(ranked: RankedQuery, known: dict[str, Skill]) -> Iterator[str]:
    """Yield the skill that takes the query of the skill, or the one from which the skill takes the query."""
    if ranked.query.should_trigger:
        yield from ranked.above[:1]
    elif ranked.is_false_trigger and ranked.query.expected_skill in known:
        yield ranked.query.expected_skill


NEAR: Final = 0.8
"""Least share of their distinct words that two descriptions have in common to be nearly the same."""

_MIN_WORDS: Final = 4
# Short descriptions are alike by chance.


class DuplicateKind(StrEnum):
    """What skills have in common."""

    BODY = "body"
    """The text after the frontmatter, apart from white space."""

    DESCRIPTION = "description"
    """The description, apart from case, accents and punctuation."""

    ALIKE = "alike"
    """Most of the description and the body: each skill shares it with another one of the group."""

    SIMILAR_DESCRIPTION = "similar_description"
    """Most words of the description: each skill shares them with another one of the group."""


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Skills that have something in common; `share` is the smallest of the shares of words that connect them.

    Where they are alike, these are runs of words.
    """

    kind: DuplicateKind
    skills: tuple[Skill, ...]
    share: float = 1.0


def duplicates(skills: Sequence[Skill]) -> tuple[Duplicates, ...]:
    """Return the groups of skills that are equal, then those that are alike or have similar descriptions."""
    bodies = _groups(skills, (_body_digest(skill) for skill in skills))
    signatures = [signature(index_text(skill.description), index_text(skill.body)) for skill in skills]
    texts = [" ".join(fold(skill.description).split()) for skill in skills]
    # Of equal descriptions, one is compared with the others.
    distinct = list(dict(zip(reversed(texts), reversed(skills), strict=True)).values())[::-1]
    similar = _similar([frozenset(query_words(skill.description)) for skill in distinct])
    return (
        *(Duplicates(DuplicateKind.BODY, group) for group in bodies),
        *(Duplicates(DuplicateKind.DESCRIPTION, group) for group in _groups(skills, texts)),
        *(
            Duplicates(DuplicateKind.ALIKE, group, found.least)
            for found in alike(signatures)
            # Groups of equal bodies are reported already.
            if (group := tuple(skills[number] for number in found.members)) not in bodies
        ),
        *(
            Duplicates(DuplicateKind.SIMILAR_DESCRIPTION, tuple(distinct[number] for number in group), share)
            for group, share in similar
        ),
    )


def _body_digest(skill: Skill) -> bytes | None:
    text = " ".join(skill.body.split())
    return sha256(text.encode("utf-8", "surrogatepass")).digest() if text else None


def _groups(skills: Sequence[Skill], keys: Iterable[str | bytes | None]) -> list[tuple[Skill, ...]]:
    """Return the skills with equal keys, where there are several; None and empty texts equal nothing."""
    groups: dict[str | bytes, list[Skill]] = defaultdict(list)
    for skill, key in zip(skills, keys, strict=True):
        if key:
            groups[key].append(skill)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def _similar(words: Sequence[frozenset[str]]) -> list[tuple[list[int], float]]:
    """Return the groups of sets that are connected by shares of at least `NEAR`, each with its smallest such share.

    The share is that of the intersection in the union. Such a pair shares one of the rarest fifth of the words of
    either set (prefix filtering; Chaudhuri, Ganti and Kaushik, 2006), so only sets that share one of these are
    compared, and those of one group are not compared again.
    """
    counts = Counter(word for each in words for word in each)
    having: dict[str, list[int]] = defaultdict(list)
    group_of = list(range(len(words)))
    groups = {number: ([number], 1.0) for number in group_of}
    for number, each in enumerate(words):
        if len(each) < _MIN_WORDS:
            continue
        rarest = sorted(each, key=lambda word: (counts[word], word))
        prefix = rarest[: len(each) - _at_least(len(each)) + 1]
        for other in sorted({other for word in prefix for other in having[word]}):
            if group_of[other] == group_of[number]:
                continue
            share = len(each & words[other]) / len(each | words[other])
            if share >= NEAR:
                kept, least = groups[group_of[other]]
                moved, least_moved = groups.pop(group_of[number])
                for member in moved:
                    group_of[member] = group_of[other]
                groups[group_of[other]] = sorted([*kept, *moved]), min(least, least_moved, share)
        for word in prefix:
            having[word].append(number)
    return [group for group in groups.values() if len(group[0]) > 1]


def _at_least(size: int) -> int:
    """Return how many words a set of this size shares at least with one that is nearly the same."""
    return -int(-size * NEAR // 1)


MIN_COLLISIONS: Final = 2
"""Fewest queries, found by no weak match, on which skills collide that compete by queries alone."""


class EvidenceReason(StrEnum):
    """Why the evidence of a competition is strong, or what it lacks."""

    DESCRIPTIONS = "descriptions"
    """Strong: each is near the other by several rare words, one of them in a name, and no query tells otherwise."""

    QUERIES = "queries"
    """Strong: several queries find the wrong one of the two."""

    ONE_DIRECTION = "one_direction"
    """The words of one find the other, but not the other way round: others are nearer."""

    NO_NAME = "no_name"
    """No word of either name is shared, so that they are rather two of a kind."""

    QUERIES_APART = "queries_apart"
    """The descriptions compete, but none of the trigger queries finds the other skill."""

    FEW_QUERIES = "few_queries"
    """The descriptions do not compete, and only one query collides, or only by weak matches."""


@dataclass(frozen=True, slots=True)
class Competition:
    """Two skills that compete: `pair` by their descriptions, None if they do not; and the queries on which they do.

    `asked` is how many queries both have; `apart` tells that these keep the skills apart.
    """

    skills: tuple[Skill, Skill]
    pair: Rivals | None
    collisions: tuple[Collision, ...]
    asked: int
    apart: bool = False

    @property
    def is_strong(self) -> bool:
        """Whether the evidence is strong, by descriptions or by queries."""
        return not _STRONG.isdisjoint(self.reasons)

    @property
    def reasons(self) -> tuple[EvidenceReason, ...]:
        """Why the evidence is strong; if it is weak, what it lacks."""
        pair = self.pair
        holds = {
            EvidenceReason.DESCRIPTIONS: pair is not None and pair.is_alike and not self.apart,
            EvidenceReason.QUERIES: sum(not each.weak for each in self.collisions) >= MIN_COLLISIONS,
        }
        lacks = {
            EvidenceReason.ONE_DIRECTION: pair is not None and not pair.nearest,
            EvidenceReason.NO_NAME: pair is not None and not pair.names,
            EvidenceReason.QUERIES_APART: pair is not None and self.apart,
            EvidenceReason.FEW_QUERIES: pair is None,
        }
        return tuple(reason for reason, is_so in (holds if any(holds.values()) else lacks).items() if is_so)

    @property
    def order(self) -> tuple[bool, int, float, str, str]:
        """The sort key: strong evidence first, then most collisions, then the closest descriptions."""
        overlap, keys = self.pair.overlap if self.pair else 0.0, (self.skills[0].key, self.skills[1].key)
        return not self.is_strong, -len(self.collisions), -overlap, *keys


_STRONG: Final = frozenset({EvidenceReason.DESCRIPTIONS, EvidenceReason.QUERIES})


@dataclass(frozen=True, slots=True)
class CatalogLint:
    """What was found in the `skills` that are offered to models.

    `unused` is None if no use was recorded.
    """

    skills: tuple[Skill, ...]
    competing: tuple[Competition, ...]
    queries: QueryCheck
    duplicates: tuple[Duplicates, ...]
    unused: tuple[Skill, ...] | None

    @property
    def has_findings(self) -> bool:
        """Whether something should be changed; one query is weak evidence, and what was never used may only be new."""
        return bool(any(each.is_strong for each in self.competing) or self.duplicates or self.queries.errors)


def lint_catalog(offered: Sequence[Skill], settings: Settings, used: Mapping[str, int]) -> CatalogLint:
    """Lint the skills that are offered to models; `used` counts the recorded activations by key.

    Raises:
        ConfigurationError: the reranker of the settings cannot be loaded.
    """
    skills = tuple(offered)
    search, words = SkillSearch(reranker_of(settings, wait=True)), CatalogWords(skills)
    queries = check_queries(skills, partial(search.select, skills), words)
    unused = tuple(skill for skill in skills if not used.get(skill.key)) if used else None
    return CatalogLint(skills, _competing(words.rivals(), queries), queries, duplicates(skills), unused)


def _competing(pairs: Iterable[Rivals], queries: QueryCheck) -> tuple[Competition, ...]:
    by_pair: dict[frozenset[str], Rivals] = {frozenset((pair.skill.path, pair.rival.path)): pair for pair in pairs}
    found: dict[frozenset[str], list[Collision]] = defaultdict(list)
    for each in queries.collisions:
        found[frozenset((each.skill.path, each.rival.path))].append(each)
    competing: list[Competition] = []
    for key in {**by_pair, **found}:
        pair, these = by_pair.get(key), tuple(found.get(key, ()))
        skills = (pair.skill, pair.rival) if pair else (these[0].skill, these[0].rival)
        paths = [skill.path for skill in skills]
        asked = sum(queries.by_skill.get(path, 0) for path in paths)
        competing.append(Competition(skills, pair, these, asked, not these and queries.keeps_apart(*paths)))
    return tuple(sorted(competing, key=lambda competition: competition.order))


_MAX_LINES = 20
"""Most findings of a kind, and queries of a pair, that the text lists; the JSON has all."""

_MAX_WORDS = 8
_MAX_QUERY = 80

_LACKS = {
    EvidenceReason.ONE_DIRECTION: "others are nearer to one of them",
    EvidenceReason.NO_NAME: "they share no word of a name",
    EvidenceReason.QUERIES_APART: "but no query of either finds the other",
}

_IN_COMMON = {
    DuplicateKind.BODY: "the same body",
    DuplicateKind.DESCRIPTION: "the same description",
    DuplicateKind.ALIKE: "most of the description and the body",
    DuplicateKind.SIMILAR_DESCRIPTION: "nearly the same description",
}


def lint_object(found: CatalogLint) -> dict[str, Any]:
    """Return the object of `lint --json`."""
    queries = found.queries
    return {
        "skills": len(found.skills),
        "competing": [_competition_object(each) for each in found.competing],
        "duplicates": [_duplicates_object(each) for each in found.duplicates],
        "queries": {"asked": queries.asked, "files": queries.files, "errors": list(map(printable, queries.errors))},
        "unused": None if found.unused is None else [printable(skill.key) for skill in found.unused],
    }


def _competition_object(competition: Competition) -> dict[str, Any]:
    pair = competition.pair
    return {
        "skill": printable(competition.skills[0].key),
        "rival": printable(competition.skills[1].key),
        "share": round(pair.share, 4) if pair else None,
        "back": round(pair.back, 4) if pair else None,
        "overlap": round(pair.overlap, 4) if pair else None,
        "words": [*pair.words] if pair else [],
        "evidence": "strong" if competition.is_strong else "weak",
        "reasons": [reason.value for reason in competition.reasons],
        "asked": competition.asked,
        "queries": [_collision_object(each) for each in competition.collisions],
    }


def _collision_object(collision: Collision) -> dict[str, Any]:
    return {
        "query": collision.query.text,
        "skill": printable(collision.skill.key),
        "should_trigger": collision.query.should_trigger,
        "rank": collision.rank,
        "weak": collision.weak,
    }


def _duplicates_object(found: Duplicates) -> dict[str, Any]:
    skills = [{"key": printable(skill.key), "path": display_path(skill)} for skill in found.skills]
    return {"kind": found.kind.value, "share": round(found.share, 4), "skills": skills}


def print_lint(found: CatalogLint) -> None:
    """Print the findings for people, those with the most queries first."""
    for line in _lines(found):
        print_text(one_line(line))


def _lines(found: CatalogLint) -> Iterator[str]:
    queries = found.queries
    yield f"skills for models: {len(found.skills):,}; skills with trigger queries: {queries.files:,}"
    for strong, title in ((True, "Skills that compete"), (False, "Skills that may compete")):
        chosen = [each for each in found.competing if each.is_strong is strong]
        yield from _section(title, [line for each in chosen for line in _pair_lines(each)])
    yield from _section("Skills that are the same", [_duplicate_line(each) for each in found.duplicates])
    yield from _section("Files of queries that cannot be used", list(queries.errors))
    if found.unused is None:
        yield "No use of skills is recorded on this machine, so that none can be said to be unused."
    else:
        yield from _section("Skills without a recorded use", [_name(skill) for skill in found.unused])
    if not found.has_findings:
        yield "No skills compete, and none are the same."


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if not lines:
        return
    yield f"{title}:"
    yield from (f"  {line}" for line in lines[:_MAX_LINES])
    if more := max(0, len(lines) - _MAX_LINES):
        yield f"  and {counted(more, 'more line')}, which --json has"


def _pair_lines(competition: Competition) -> Iterator[str]:
    one, other = map(_name, competition.skills)
    pair = competition.pair
    words = ", ".join(pair.words[:_MAX_WORDS]) if pair else ""
    alike = f"descriptions overlap by {pair.overlap:.2f}: {words}" if pair else "descriptions do not compete"
    strength = "strong" if competition.is_strong else "weak"
    lacks = "".join(f"; {_LACKS[reason]}" for reason in competition.reasons if reason in _LACKS)
    number = len(competition.collisions)
    collide = f"{number} of {counted(competition.asked, 'query', 'queries')} {agreeing(number, 'collides', 'collide')}"
    yield f"{one} / {other}: {strength} evidence ({collide if competition.asked else 'no queries'}; {alike}{lacks})"
    for each in competition.collisions:
        rank = f"has rank {each.rank}" if each.rank else "is not found"
        needs = "" if each.query.should_trigger else f", which needs {_name(each.rival)}"
        weak = " (a weak match)" if each.weak else ""
        yield f"  {_name(each.skill)} {rank} for {shortened(each.query.text, _MAX_QUERY)!r}{needs}{weak}"


def _duplicate_line(found: Duplicates) -> str:
    return f"{', '.join(map(_name, found.skills))}: {_IN_COMMON[found.kind]}"


def _name(skill: Skill) -> str:
    return shortened(skill.key, 100)
