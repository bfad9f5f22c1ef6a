"""The default ranking: BM25 over stemmed words, fields weighted, from an index that follows the skills.

Where SQLite lacks FTS5, adk-skill's score stands in.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import defaultdict
from dataclasses import dataclass, replace
from math import log
from threading import Lock
from typing import TYPE_CHECKING

from skills_core.selection.fields import texts_of
from skills_core.selection.fulltext import FullText, Stems
from skills_core.selection.fusion import DEPTH, fused
from skills_core.selection.lexical import SkillIndex
from skills_core.selection.policy import Band, Match, SelectionPolicy
from skills_core.selection.reasons import Asked, Vocabulary, reasons_for
from skills_core.selection.words import query_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skills_core.selection.fusion import Reranker
    from skills_core.skill import Skill, SkillContent

__all__ = ["ALL_THAT_MATCH", "SkillSearch"]

logger = logging.getLogger(__name__)

ALL_THAT_MATCH = SelectionPolicy(top_k=10, min_score=0.0)
"""The first ten, whatever their score: no score separates what fits from what does not."""

_LEAST = 0.0001
"""What stands for "above 0" in a policy of the score that stands in."""

_MANY, _MUCH = 500, 0.25
"""A word is passed over that more than so many skills have, and more than this share of all."""


class SkillSearch:
    """A search over skills. It may be shared between threads."""

    def __init__(self, reranker: Reranker | None = None) -> None:
        """Begin with no skills; each search brings its own. A `reranker` is asked too, and has as much of a say."""
        self._reranker = reranker
        self._lock = Lock()
        self._rows = _rows()
        self._lexical = SkillIndex()

    def select(self, skills: tuple[Skill, ...], query: str, policy: SelectionPolicy = ALL_THAT_MATCH) -> list[Match]:
        """Return those of `skills` that match best, best first; ties are ordered by name, then by path.

        The index is brought up to date with `skills` first, at the price of what is not the same as last time. A
        query without words selects nothing, or with included tags all that has such a tag, with a score of 0.
        """
        if self._reranker is None or not query_words(query):
            return self._by_words(skills, query, policy)
        matches = self._by_words(skills, query, replace(policy, top_k=max(policy.top_k, DEPTH), min_score=0.0))
        admits = policy.admission()
        shown = {skill.path: skill for skill in skills if admits(skill.frontmatter.tags)}
        try:
            # It may have kept skills of an earlier catalog, or name some that nobody may find.
            ranked = [shown[skill.path] for skill in self._reranker(query, [*shown.values()]) if skill.path in shown]
        except Exception:
            logger.exception("the reranker failed; skills are ranked by their words alone")
            return self._by_words(skills, query, policy)
        return [match for match in fused(matches, ranked, policy.top_k) if match.score >= policy.min_score]

    def _by_words(self, skills: tuple[Skill, ...], query: str, policy: SelectionPolicy) -> list[Match]:
        if self._rows is None:
            with self._lock:
                return self._stand_in(skills, query, policy)
        words = query_words(query)
        if policy.top_k <= 0 or not (words or policy.include_tags):
            return []
        with self._lock:
            self._rows.follow(skills)
            asked, found = self._rows.best(words, policy)
        # The reasons are of what was found, so that no search waits for those of another.
        return self._rows.explained(asked, found)

    def _stand_in(self, skills: tuple[Skill, ...], query: str, policy: SelectionPolicy) -> list[Match]:
        if self._lexical.skills is not skills:
            self._lexical = self._lexical.extended(skills)
        least = max(policy.min_score, _LEAST) if query_words(query) else policy.min_score
        return self._lexical.select(query, replace(policy, min_score=least))


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the index: its number, the content that its texts are from, and all skills that have this content."""

    number: int
    content: SkillContent
    vocabulary: Vocabulary
    skills: tuple[Skill, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    score: float
    skill: Skill
    vocabulary: Vocabulary


class _Rows:
    """The contents of skills as rows of a full-text index."""

    def __init__(self) -> None:
        self._texts = FullText()
        self._stems = Stems()
        self._skills: tuple[Skill, ...] = ()
        # By identity, for both are frozen; the mappings hold them, so their ids cannot be given to others.
        self._known: dict[int, Skill] = {}
        self._of_content: dict[int, _Row] = {}
        self._at: dict[int, _Row] = {}
        self._next = 1

    def follow(self, skills: tuple[Skill, ...]) -> None:
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
            row = changed.get(key) or self._of_content.get(key) or _new_row(number, skill.content)
            number = max(number, row.number + 1)
            changed[key] = replace(row, skills=(*row.skills, skill))
        self._write(changed)
        self._skills, self._known, self._next = skills, coming, number

    def _write(self, changed: Mapping[int, _Row]) -> None:
        with self._texts.changing():
            for key, row in changed.items():
                if key not in self._of_content:
                    self._texts.insert(row.number, texts_of(row.content))
                elif not row.skills:
                    self._texts.delete(row.number, texts_of(row.content))
        for key, row in changed.items():
            if row.skills:
                self._of_content[key] = self._at[row.number] = row
            else:
                del self._of_content[key], self._at[row.number]

    def best(self, words: Sequence[str], policy: SelectionPolicy) -> tuple[Asked, list[_Found]]:
        asked = self._asked(words)
        return asked, self._best(self._scores(asked) if words else dict.fromkeys(self._at, 0.0), policy)

    def explained(self, asked: Asked, found: Sequence[_Found]) -> list[Match]:
        """Return matches with their reasons; the index may be changed meanwhile."""
        best = found[0].score if found else 0.0
        reasons = reasons_for([each.vocabulary for each in found], asked, self._stems.of)
        return [
            Match(
                each.skill,
                each.score,
                why.band,
                each.score / best if best else 1.0,
                bool(asked.words) and why.band is Band.TRACE,
                why.fields,
            )
            for each, why in zip(found, reasons, strict=True)
        ]

    def _asked(self, words: Iterable[str]) -> Asked:
        """Weigh the words by how few skills have them; words of the same stem are one."""
        stems = self._stems.of(words)
        counts = self._texts.counts(dict.fromkeys(stems.values()))
        total = len(self._at)
        word_of: dict[str, str] = {}
        for word, stem in stems.items():
            word_of.setdefault(stem, word)
        weights = {stem: log(1 + (total - count + 0.5) / (count + 0.5)) for stem, count in counts.items()}
        return Asked(word_of, weights, counts)

    def _scores(self, asked: Asked) -> dict[int, float]:
        total = len(self._at)
        present = [stem for stem in asked.words if asked.counts[stem]]
        # What many of many skills have tells little, and is what costs most to look up.
        telling = [stem for stem in present if asked.counts[stem] <= max(_MANY, total * _MUCH)] or present
        scores: dict[int, float] = defaultdict(float)
        for stem in telling:
            weight = asked.weights[stem]
            for row, saturation in self._texts.saturations(asked.words[stem], asked.counts[stem], total):
                scores[row] += weight * saturation
        return scores

    def _best(self, scores: Mapping[int, float], policy: SelectionPolicy) -> list[_Found]:
        admits = policy.admission()
        kept: list[_Found] = []
        least = policy.min_score
        for row, score in sorted(scores.items(), key=lambda pair: -pair[1]):
            # All that tie with the last are wanted too, for names and paths have the last word.
            if score < least or (len(kept) >= policy.top_k and score < kept[-1].score):
                break
            at = self._at[row]
            kept += [_Found(score, skill, at.vocabulary) for skill in at.skills if admits(skill.frontmatter.tags)]
        kept.sort(key=lambda found: (-found.score, found.skill.name, found.skill.path))
        return kept[: policy.top_k]


def _new_row(number: int, content: SkillContent) -> _Row:
    return _Row(number, content, Vocabulary(content))


def _rows() -> _Rows | None:
    try:
        return _Rows()
    except sqlite3.Error as error:
        logger.warning("skills are ranked by adk-skill's score, for SQLite has no full-text index here: %s", error)
        return None
