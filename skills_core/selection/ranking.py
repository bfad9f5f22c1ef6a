"""The default ranking: BM25 over stemmed words in weighted fields, from an index that is updated with the skills.

If SQLite lacks FTS5, adk-skill's lexical score is the fallback. There, each token of the query adds 4.0 if the name has
it, 2.5 for the description, 2.0 for the tags and 1.0 for the body; the sum is divided by the square root of the number
of distinct tokens in the body. Tokens are runs of ASCII letters and digits in lower case; a token that the query
repeats counts each time. Later versions of adk-skill accept letters of other scripts; the default ranking covers those.
"""

from __future__ import annotations

import logging
import math
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from ctypes import c_float
from dataclasses import dataclass, field, replace
from functools import partial
from math import log
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from skills_core.selection.fulltext import FIELDS, FullTextIndex, Stems, query_words, texts_of
from skills_core.selection.fusion import FUSION_DEPTH, checked, fuse
from skills_core.selection.policy import Band, Match, SelectionPolicy

if TYPE_CHECKING:
    from skills_core.selection.fusion import Reranker, Reranking
    from skills_core.skills.skill import Skill, SkillContent


_TOKEN = re.compile(r"[A-Za-z0-9]+")
_FIELDS = ("name", "description", "tags", "body")
_WEIGHTS = (4.0, 2.5, 2.0, 1.0)


def tokens(text: str) -> list[str]:
    """Return the tokens of a text, in order."""
    # Lower-cased after the search, because some non-ASCII letters have ASCII lower-case forms.
    return [token.lower() for token in _TOKEN.findall(text)]


@dataclass(frozen=True, slots=True)
class _SkillTokens:
    """The distinct tokens of one skill: name, description, tags, body."""

    fields: tuple[frozenset[str], ...]
    divisor: float


@dataclass(frozen=True, slots=True)
class SkillIndex:
    """Skills prepared for scoring. `extended` reuses the tokens of unchanged contents."""

    skills: tuple[Skill, ...] = ()
    _words: dict[int, tuple[SkillContent, _SkillTokens]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Tokenize the contents that `_words` does not hold."""
        for skill in self.skills:
            # Keyed by identity; the entry holds the content, so its id cannot be reused.
            if id(skill.content) not in self._words:
                self._words[id(skill.content)] = skill.content, _analyse(skill)

    def extended(self, skills: Iterable[Skill]) -> SkillIndex:
        """Return an index of `skills`, tokenizing only contents that this index does not hold."""
        chosen = tuple(skills)
        held = {id(skill.content) for skill in chosen} & self._words.keys()
        return SkillIndex(chosen, {key: self._words[key] for key in held})

    def select(self, query: str, policy: SelectionPolicy | None = None) -> list[Match]:
        """Return the best matches, best first; ties are ordered by name, then by path.

        A query without tokens selects nothing or, with included tags, all skills with such a tag and a score of 0.
        Skills that share no word score 0, so only a `min_score` above 0 excludes them.
        """
        policy = policy or SelectionPolicy()
        terms = Counter(tokens(query))
        if policy.top_k <= 0 or not (terms or policy.include_tags):
            return []
        admits, least = policy.admission(), _float32(policy.min_score)
        scored = ((skill, self._score(skill, terms)) for skill in self.skills if admits(skill.frontmatter.tags))
        kept = [(skill, score) for skill, score in scored if score >= least]
        kept.sort(key=lambda pair: (-pair[1], pair[0].name, pair[0].path))
        best = kept[0][1] if kept else 0.0
        return [self._match(skill, score, best, terms) for skill, score in kept[: policy.top_k]]

    def _score(self, skill: Skill, terms: Mapping[str, int]) -> float:
        words = self._words[id(skill.content)][1]
        total = 0.0
        for token, times in terms.items():
            for weight, field_words in zip(_WEIGHTS, words.fields, strict=True):
                if token in field_words:
                    total += weight * times
        return _float32(total / words.divisor) if total else 0.0

    def _match(self, skill: Skill, score: float, best: float, terms: Mapping[str, int]) -> Match:
        fields = zip(_FIELDS, self._words[id(skill.content)][1].fields, strict=True)
        found = ((name, tuple(token for token in terms if token in words)) for name, words in fields)
        band = Band.of(score)
        why = tuple((name, words) for name, words in found if words)
        return Match(skill, score, band, score / best if best else 1.0, band is Band.TRACE, why)


def _analyse(skill: Skill) -> _SkillTokens:
    texts = (skill.name, skill.description, " ".join(skill.frontmatter.tags), skill.body)
    fields = tuple(frozenset(tokens(text)) for text in texts)
    return _SkillTokens(fields, _float32(math.sqrt(max(1, len(fields[-1])))))


def _float32(number: float) -> float:
    """Round to single precision, which adk-skill computes in: this decides ties and scores at the minimum."""
    return c_float(number).value


_WORD = re.compile(r"[^\W_]+")
_GAP = "\n"
# Separates words; no word contains it.

# Minimum shares of the query for each band, tuned on the first half of the labelled queries.
_HIGH, _SPECIFIC, _BROAD = 0.6, 0.35, 0.12
_BROAD_ANYWHERE = 0.5

logger = logging.getLogger(__name__)

TOP_TEN = SelectionPolicy(top_k=10, min_score=0.0)
"""The first ten matches, whatever their score: no fixed score separates fitting skills from others."""

_MIN_FALLBACK_SCORE = 0.0001
"""Stands for "above 0" when the fallback scores a query."""

_KEPT_ROWS = 500_000
# Some 50 MB, for a catalog of a few thousand skills.

_COMMON_COUNT, _COMMON_SHARE = 500, 0.25
"""A word is ignored if more skills than both this number and this share of all contain it."""

_Ranked = TypeVar("_Ranked", "_Hit", Match)


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """A query's words by stem, with the weight of each stem and the number of skills that contain it."""

    words: Mapping[str, str]
    weights: Mapping[str, float]
    counts: Mapping[str, int]


class Vocabulary:
    """The distinct words of a skill by field, collected on first use."""

    __slots__ = ("_content", "_fields")

    def __init__(self, content: SkillContent) -> None:
        """Keep the content; collect nothing yet."""
        self._content = content
        self._fields: tuple[str, ...] | None = None

    def words_with_prefix(self, prefixes: Iterable[str]) -> list[list[str]]:
        """Return the words of each field that have one of the prefixes. Concurrent first calls may collect twice."""
        if self._fields is None:
            # One joined text takes a fraction of a set's memory and is searched as fast.
            self._fields = tuple(
                f"{_GAP}{_GAP.join(dict.fromkeys(_WORD.findall(text)))}{_GAP}" for text in texts_of(self._content)
            )
        wanted = [_GAP + words_with_prefix for words_with_prefix in prefixes]
        return [[word for each in wanted for word in _words(field, each)] for field in self._fields]


def _words(field: str, wanted: str) -> Iterator[str]:
    at = field.find(wanted)
    while at >= 0:
        end = field.index(_GAP, at + 1)
        yield field[at + 1 : end]
        at = field.find(wanted, end)


@dataclass(frozen=True, slots=True)
class Reasons:
    """Which words of the query each field contains.

    `front` is the share of the query's weight, from 0 to 1, that the name, description and tags contain; `whole` is the
    share that all fields contain.
    """

    fields: tuple[tuple[str, tuple[str, ...]], ...]
    front: float
    whole: float

    @property
    def band(self) -> Band:
        """The band of the match, from "high" (the front has most of the query) to "trace" (hardly any of it)."""
        if self.front >= _HIGH:
            return Band.HIGH
        if self.front >= _SPECIFIC:
            return Band.SPECIFIC
        return Band.BROAD if self.front >= _BROAD or self.whole >= _BROAD_ANYWHERE else Band.TRACE


def reasons_for(
    vocabularies: Sequence[Vocabulary], terms: QueryTerms, stems_of: Callable[[Iterable[str]], Mapping[str, str]]
) -> list[Reasons]:
    """Return the reasons for each of `vocabularies`; `stems_of` maps words to their stems."""
    if not terms.words:
        return [Reasons((), 0.0, 0.0) for _ in vocabularies]
    # A stem is its word without the ending, except that its last letter may differ.
    prefixes = {stem[: max(1, len(stem) - 1)] for stem in terms.words}
    words = [vocabulary.words_with_prefix(prefixes) for vocabulary in vocabularies]
    stems = stems_of(word for fields in words for field in fields for word in field)
    return [_reasons([{stems.get(word, "") for word in field} for field in fields], terms) for fields in words]


def _reasons(fields: Sequence[set[str]], terms: QueryTerms) -> Reasons:
    found = [[stem for stem in terms.words if stem in stems] for stems in fields]
    total = sum(terms.weights.values()) or 1.0

    def share(parts: Sequence[Sequence[str]]) -> float:
        return sum(terms.weights[stem] for stem in {stem for part in parts for stem in part}) / total

    named = zip(FIELDS, found, strict=True)
    why = tuple((field, tuple(terms.words[stem] for stem in stems)) for field, stems in named if stems)
    return Reasons(why, share(found[:-1]), share(found))


class SkillSearch:
    """A search over skills, which may be shared between threads."""

    def __init__(self, reranker: Reranker | None = None, *, many: bool = False) -> None:
        """Start empty; each search passes its skills. The answer of a `reranker` is merged with the word ranking.

        `many` searches over the same skills take less time, and more memory.
        """
        self._reranker = reranker
        self._lock = Lock()
        self._index = _open_index(_KEPT_ROWS if many else 0)
        self._lexical = SkillIndex()
        # The skills of the last search by path, for the next one over the same skills.
        self._candidates: tuple[tuple[Skill, ...], Mapping[str, Skill]] = ((), {})

    def select(
        self, skills: tuple[Skill, ...], query: str, policy: SelectionPolicy = TOP_TEN, *, words_only: bool = False
    ) -> list[Match]:
        """Return those of `skills` that match best, best first; ties are ordered by name, then by path.

        The index is updated to `skills` first, at the cost of the differences from the previous call. A query without
        words selects nothing or, with included tags, all skills with such a tag and a score of 0. `words_only` leaves
        the reranker out.
        """
        words = query_words(query)
        if policy.top_k <= 0 or not (words or policy.include_tags):
            return []
        reranking = self._reranked(skills, query, policy) if words and not words_only else None
        if reranking is None:
            return self._rank(skills, query, policy).matches()
        deep = replace(policy, top_k=max(policy.top_k, FUSION_DEPTH), min_score=0.0)
        ranking = self._rank(skills, query, deep, also=reranking.skills)
        found = fuse([(hit.skill, hit.score) for hit in ranking.hits], reranking, policy.top_k, ranking.full)
        # Reasons take longer than the rest of a search, so only skills that are returned get them.
        by_words = {match.skill.path: match for match in ranking.matches({fused.skill.path for fused in found})}
        matches = [fused.match(by_words.get(fused.skill.path)) for fused in found]
        return [match for match in matches if match.score >= policy.min_score]

    def _reranked(self, skills: tuple[Skill, ...], query: str, policy: SelectionPolicy) -> Reranking | None:
        """Return the reranker's answer; None if there is none, or no reranker, or it fails."""
        if self._reranker is None:
            return None
        candidates = self._admitted(skills, policy)
        try:
            answer = self._reranker(query, [*candidates.values()])
            return None if answer is None else checked(answer, candidates, max(policy.top_k, FUSION_DEPTH))
        except Exception:
            logger.exception("the reranker failed; skills are ranked by their words alone")
            return None

    def _admitted(self, skills: tuple[Skill, ...], policy: SelectionPolicy) -> Mapping[str, Skill]:
        if policy.include_tags or policy.exclude_tags:
            admits = policy.admission()
            return {skill.path: skill for skill in skills if admits(skill.frontmatter.tags)}
        known, by_path = self._candidates
        if known is not skills:
            by_path = {skill.path: skill for skill in skills}
            self._candidates = skills, by_path
        return by_path

    def _rank(
        self, skills: tuple[Skill, ...], query: str, policy: SelectionPolicy, also: Sequence[Skill] = ()
    ) -> _WordRanking[_Hit] | _WordRanking[Match]:
        """Rank by words; skills in `also` are included with their word score even if they are not among the best."""
        if self._index is None:
            with self._lock:
                return _WordRanking(self._fallback(skills, query, policy), list)
        with self._lock:
            self._index.update(skills)
            terms, hits = self._index.search(query_words(query), policy, also)
        # Reasons are computed outside the lock, so that no search waits for those of another.
        return _WordRanking(hits, partial(self._index.with_reasons, terms), sum(terms.weights.values()))

    def _fallback(self, skills: tuple[Skill, ...], query: str, policy: SelectionPolicy) -> list[Match]:
        if self._lexical.skills is not skills:
            self._lexical = self._lexical.extended(skills)
        least = max(policy.min_score, _MIN_FALLBACK_SCORE) if query_words(query) else policy.min_score
        return self._lexical.select(query, replace(policy, min_score=least))


@dataclass(frozen=True, slots=True)
class _WordRanking(Generic[_Ranked]):
    """Skills with their word scores, best first, and a function that adds the reasons to some of them.

    `full` is the score from which a skill has the whole query; 0 if the ranking has no such score.
    """

    hits: Sequence[_Ranked]
    explain: Callable[[Sequence[_Ranked]], list[Match]]
    full: float = 0.0

    def matches(self, paths: Container[str] | None = None) -> list[Match]:
        """Return the matches with reasons: all, or those of the skills at `paths`."""
        return self.explain(self.hits if paths is None else [hit for hit in self.hits if hit.skill.path in paths])


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the index: its number, the content that it indexes, and all skills with this content.

    `mark` is a hash of the texts: the index deletes a row by its texts, and these may be gone with the file by then.
    Such a row stays in the index and is of no skill.
    """

    number: int
    content: SkillContent
    vocabulary: Vocabulary
    skills: tuple[Skill, ...] = ()
    mark: int = 0


@dataclass(frozen=True, slots=True)
class _Hit:
    score: float
    skill: Skill
    vocabulary: Vocabulary


class _Index:
    """A full-text index with one row per distinct content of the skills."""

    def __init__(self, keep: int) -> None:
        self._texts = FullTextIndex(keep)
        self._stems = Stems()
        self._skills: tuple[Skill, ...] = ()
        # Keyed by identity; the mappings hold the skills and contents, so their ids cannot be reused.
        self._known: dict[int, Skill] = {}
        self._of_content: dict[int, _Row] = {}
        self._at: dict[int, _Row] = {}
        self._next = 1

    def update(self, skills: tuple[Skill, ...]) -> None:
        if self._skills is skills:
            return
        coming = {id(skill): skill for skill in skills}
        changed: dict[int, _Row] = {}
        number = self._next
        for skill in [skill for key, skill in self._known.items() if key not in coming]:
            row = changed.get(id(skill.content)) or self._of_content[id(skill.content)]
            changed[id(skill.content)] = replace(row, skills=tuple(other for other in row.skills if other is not skill))
        for skill in [skill for key, skill in coming.items() if key not in self._known]:
            key = id(skill.content)
            row = (
                changed.get(key) or self._of_content.get(key) or _Row(number, skill.content, Vocabulary(skill.content))
            )
            number = max(number, row.number + 1)
            changed[key] = replace(row, skills=(*row.skills, skill))
        self._write(changed)
        self._skills, self._known, self._next = skills, coming, number

    def _write(self, changed: Mapping[int, _Row]) -> None:
        marks: dict[int, int] = {}
        with self._texts.transaction():
            for key, row in changed.items():
                if key not in self._of_content:
                    texts = texts_of(row.content)
                    self._texts.insert(row.number, texts)
                    marks[key] = hash(texts)
                elif not row.skills and hash(texts := texts_of(row.content)) == row.mark:
                    self._texts.delete(row.number, texts)
        for key, row in changed.items():
            if row.skills:
                marked = replace(row, mark=marks[key]) if key in marks else row
                self._of_content[key] = self._at[row.number] = marked
            else:
                del self._of_content[key], self._at[row.number]

    def search(
        self, words: Sequence[str], policy: SelectionPolicy, also: Iterable[Skill] = ()
    ) -> tuple[QueryTerms, list[_Hit]]:
        """Return the best hits, then those of `also` that contain a word of the query."""
        terms = self._weigh(words)
        scores = self._scores(terms) if words else dict.fromkeys(self._at, 0.0)
        best = self._best(scores, policy)
        known = {hit.skill.path for hit in best}
        rows = ((skill, self._of_content[id(skill.content)]) for skill in also if skill.path not in known)
        rest = [_Hit(scores[row.number], skill, row.vocabulary) for skill, row in rows if row.number in scores]
        return terms, [*best, *sorted(rest, key=lambda hit: -hit.score)]

    def with_reasons(self, terms: QueryTerms, hits: Sequence[_Hit]) -> list[Match]:
        """Return the hits as matches with reasons; safe while another thread updates the index."""
        best = hits[0].score if hits else 0.0
        reasons = reasons_for([hit.vocabulary for hit in hits], terms, self._stems.of)
        return [
            Match(
                hit.skill,
                hit.score,
                why.band,
                hit.score / best if best else 1.0,
                bool(terms.words) and why.band is Band.TRACE,
                why.fields,
            )
            for hit, why in zip(hits, reasons, strict=True)
        ]

    def _weigh(self, words: Iterable[str]) -> QueryTerms:
        """Return the words with their inverse document frequency; words with the same stem are one term."""
        stems = self._stems.of(words)
        counts = self._texts.counts(dict.fromkeys(stems.values()))
        total = len(self._at)
        word_of: dict[str, str] = {}
        for word, stem in stems.items():
            word_of.setdefault(stem, word)
        weights = {stem: log(1 + (total - count + 0.5) / (count + 0.5)) for stem, count in counts.items()}
        return QueryTerms(word_of, weights, counts)

    def _scores(self, terms: QueryTerms) -> dict[int, float]:
        total = len(self._at)
        present = [stem for stem in terms.words if terms.counts[stem]]
        # Words that most skills contain tell little and are the slowest to look up.
        most = max(_COMMON_COUNT, total * _COMMON_SHARE)
        selective = [stem for stem in present if terms.counts[stem] <= most] or present
        scores: dict[int, float] = defaultdict(float)
        for stem in selective:
            weight = terms.weights[stem]
            for row, saturation in self._texts.saturations(terms.words[stem], terms.counts[stem], total):
                if row in self._at:
                    scores[row] += weight * saturation
        return scores

    def _best(self, scores: Mapping[int, float], policy: SelectionPolicy) -> list[_Hit]:
        admits = policy.admission()
        kept: list[_Hit] = []
        least = policy.min_score
        for row, score in sorted(scores.items(), key=lambda pair: -pair[1]):
            # Keep all that tie with the last one, because names and paths order ties.
            if score < least or (len(kept) >= policy.top_k and score < kept[-1].score):
                break
            at = self._at[row]
            kept += [_Hit(score, skill, at.vocabulary) for skill in at.skills if admits(skill.frontmatter.tags)]
        kept.sort(key=lambda found: (-found.score, found.skill.name, found.skill.path))
        return kept[: policy.top_k]


def _open_index(keep: int) -> _Index | None:
    try:
        return _Index(keep)
    except sqlite3.Error as error:
        logger.warning("skills are ranked by adk-skill's score, because this SQLite has no full-text index: %s", error)
        return None
