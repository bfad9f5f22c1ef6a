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
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from ctypes import c_float
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from skills_core.selection.bm25 import Hit, QueryTerms, SkillRows
from skills_core.selection.comparison import TwinComparison
from skills_core.selection.fulltext import query_words
from skills_core.selection.fusion import FUSION_DEPTH, checked, fuse
from skills_core.selection.policy import Band, Match, SelectionPolicy
from skills_core.selection.postings import TextIndex

if TYPE_CHECKING:
    from pathlib import Path

    from skills_core.selection.fusion import Reranker, Reranking
    from skills_core.selection.twins import Twins
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
        scored = ((skill, self._score(skill, terms)) for skill in self.skills if admits(skill))
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


logger = logging.getLogger(__name__)

TOP_TEN = SelectionPolicy(top_k=10, min_score=0.0)
"""The first ten matches, whatever their score: no fixed score separates fitting skills from others."""

_MIN_FALLBACK_SCORE = 0.0001
"""Stands for "above 0" when the fallback scores a query."""

_MOSTLY_STALE = 1000
"""Contents in an index from which it is emptied if most of them are of no skill any more."""

_BATCH = 512
# Contents that are written to an index at once: a search waits for so many where it is in memory.

_SIGNED_LATER = 1000
# Up to so many skills are searched in half the time, as signatures, for which each body is read again, are made later.

_LOOKED_UP = 2048
# Most contents that a search looks up while others wait for it, which takes 10 us each.

_Ranked = TypeVar("_Ranked", Hit, Match)


class SkillSearch:
    """A search over skills, which may be shared between threads."""

    def __init__(
        self,
        reranker: Reranker | None = None,
        *,
        texts: TextIndex | None = None,
        at_once: int | None = None,
    ) -> None:
        """Start empty; each search passes its skills. The answer of a `reranker` is merged with the word ranking.

        `texts` is an index that searches share; without it, one in memory is opened. A search indexes skills that are
        new first, if these are up to `at_once`, or with None in any case. Otherwise it leaves out those that it does
        not find in the index at once: `warm` indexes them ahead, and `unsearched` counts them.
        """
        self._reranker = reranker
        self._at_once = at_once
        self._lock = Lock()
        self._own = open_texts() if texts is None else None
        index = self._own if texts is None else texts
        self._index = None if index is None else SkillRows(index)
        self._lexical = SkillIndex()
        self._comparison = TwinComparison()
        # The skills of the last search by path, for the next one over the same skills.
        self._candidates: tuple[tuple[Skill, ...], Mapping[str, Skill]] = ((), {})

    @property
    def twins(self) -> Twins:
        """The alike ones among the skills that `warm` compared last."""
        return self._comparison.twins

    @property
    def unsearched(self) -> int:
        """The number of skills that are not indexed yet, or not looked up in the index, so searches leave them out."""
        with self._lock:
            return 0 if self._index is None else self._index.missing

    def warm(
        self, skills: tuple[Skill, ...], pause: Callable[[], None] = lambda: None, *, compare: bool = True
    ) -> None:
        """Index skills ahead and, with `compare`, find those that are alike; `pause` is called often and may block.

        Others may search meanwhile: what is looked up and indexed becomes part of the search a batch at a time. If they
        search other skills, it goes on with those, which are likely to be newer. The first comparison takes about 50 us
        for each skill.
        """
        if (index := self._index) is None:
            return
        with self._lock:
            index.update(skills)
        while self._take(index, pause):
            pause()
        if compare and index.skills is skills:
            self._comparison.follow(index, self._lock, pause)

    def _take(self, index: SkillRows, pause: Callable[[], None]) -> bool:
        """Look up or index a batch of skills that are not searched yet; return whether there were any."""
        with self._lock:
            index.update(index.skills)
            contents, generation, sign = index.lacking(_BATCH), index.generation, index.missing > _SIGNED_LATER
        rows = _rows(index, contents, pause, sign=sign)
        with self._lock:
            index.place(contents, rows, generation)
        return bool(contents)

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
        if policy.has_tags:
            admits = policy.admission()
            return {skill.path: skill for skill in skills if admits(skill)}
        known, by_path = self._candidates
        if known is not skills:
            by_path = {skill.path: skill for skill in skills}
            self._candidates = skills, by_path
        return by_path

    def _rank(
        self, skills: tuple[Skill, ...], query: str, policy: SelectionPolicy, also: Sequence[Skill] = ()
    ) -> _WordRanking[Hit] | _WordRanking[Match]:
        """Rank by words; skills in `also` are included with their word score even if they are not among the best."""
        if self._index is None:
            with self._lock:
                return _WordRanking(self._fallback(skills, query, policy), list)
        with self._lock:
            if self._own is not None and len(self._own) > max(_MOSTLY_STALE, 2 * len(skills)):
                self._own.clear()
            found = self._searched(self._index, skills, query, policy, also)
            if not self._index.is_current:
                # The file of the index has failed, or another process has emptied it.
                found = self._searched(self._index, skills, query, policy, also)
        terms, hits = found
        return _WordRanking(hits, partial(self._with_reasons, self._index, terms), sum(terms.weights.values()))

    def _searched(
        self, index: SkillRows, skills: tuple[Skill, ...], query: str, policy: SelectionPolicy, also: Sequence[Skill]
    ) -> tuple[QueryTerms, list[Hit]]:
        is_new = index.skills is not skills
        index.update(skills)
        if self._at_once is None or index.missing <= self._at_once:
            self._fill(index)
        elif is_new:
            contents = index.lacking(_LOOKED_UP)
            index.place(contents, index.look_up(contents), index.generation)
        return index.search(query_words(query), policy, also)

    def _fill(self, index: SkillRows) -> None:
        while contents := index.lacking(_BATCH):
            index.place(contents, _rows(index, contents), index.generation)
            if not index.is_current:
                return

    def _with_reasons(self, index: SkillRows, terms: QueryTerms, hits: Sequence[Hit]) -> list[Match]:
        """Return the hits as matches with reasons."""
        best = hits[0].score if hits else 0.0
        with self._lock:
            reasons = index.reasons(terms, hits)
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


def _rows(
    index: SkillRows, contents: Sequence[SkillContent], pause: Callable[[], None] = lambda: None, *, sign: bool = False
) -> list[int]:
    """Return the rows of contents, which are indexed where the index lacks them."""
    rows = index.look_up(contents)
    lacking = [content for content, row in zip(contents, rows, strict=True) if not row]
    new = iter(index.index(index.read(lacking, pause, sign=sign)) if lacking else ())
    return [row or next(new) for row in rows]


def open_texts(path: Path | None = None) -> TextIndex | None:
    """Return an index of texts for searches, in the file at `path` or in memory; None if SQLite has no FTS5."""
    try:
        return TextIndex(path)
    except sqlite3.Error as error:
        logger.warning("skills are ranked by adk-skill's score, because this SQLite has no full-text index: %s", error)
        return None
