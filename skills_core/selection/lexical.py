"""Score skills against a query by the words they share.

Source: adk-skill's lexical score. For each token of the query: 4.0 if the name has it, 2.5 for the description,
2.0 for the tags, 1.0 for the body; the sum is divided by the square root of the body's distinct tokens. Tokens
are runs of ASCII letters and digits in lower case; a token that the query repeats counts each time. Later versions of
adk-skill take letters of other scripts too; here the default ranking is for those.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from ctypes import c_float
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skills_core.selection.policy import Band, Match, SelectionPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skills_core.skill import Skill, SkillContent

__all__ = ["SkillIndex", "tokens"]

_TOKEN = re.compile(r"[A-Za-z0-9]+")
_FIELDS = ("name", "description", "tags", "body")
_WEIGHTS = (4.0, 2.5, 2.0, 1.0)


def tokens(text: str) -> list[str]:
    """Return the tokens of a text, in its order."""
    # Lowered after the search: the lower case of some other letters is an ASCII one.
    return [token.lower() for token in _TOKEN.findall(text)]


@dataclass(frozen=True, slots=True)
class _Words:
    """The distinct tokens of one skill: name, description, tags, body."""

    fields: tuple[frozenset[str], ...]
    divisor: float


@dataclass(frozen=True, slots=True)
class SkillIndex:
    """Skills prepared for scoring. `extended` reuses the words of contents that did not change."""

    skills: tuple[Skill, ...] = ()
    _words: dict[int, tuple[SkillContent, _Words]] = field(default_factory=dict, repr=False)

    def extended(self, skills: Iterable[Skill]) -> SkillIndex:
        """Return an index of `skills`, analysing only those whose content this one does not hold."""
        chosen = tuple(skills)
        words: dict[int, tuple[SkillContent, _Words]] = {}
        for skill in chosen:
            # Keyed by identity; the entry holds the content, so its id cannot be given to another.
            known = self._words.get(id(skill.content))
            words[id(skill.content)] = known or (skill.content, _analyse(skill))
        return SkillIndex(chosen, words)

    def select(self, query: str, policy: SelectionPolicy | None = None) -> list[Match]:
        """Return the best matches, best first; ties are ordered by name, then by path.

        A query without tokens selects nothing, or with included tags all that has such a tag, with a score of 0.
        As a score of 0 is one, only a `min_score` above it leaves out what shares no word.
        """
        policy = policy or SelectionPolicy()
        asked = Counter(tokens(query))
        if policy.top_k <= 0 or not (asked or policy.include_tags):
            return []
        admits, least = policy.admission(), _single(policy.min_score)
        scored = ((skill, self._score(skill, asked)) for skill in self.skills if admits(skill.frontmatter.tags))
        kept = [(skill, score) for skill, score in scored if score >= least]
        kept.sort(key=lambda pair: (-pair[1], pair[0].name, pair[0].path))
        best = kept[0][1] if kept else 0.0
        return [self._match(skill, score, best, asked) for skill, score in kept[: policy.top_k]]

    def _score(self, skill: Skill, asked: Mapping[str, int]) -> float:
        words = self._words[id(skill.content)][1]
        total = 0.0
        for token, times in asked.items():
            for weight, field_words in zip(_WEIGHTS, words.fields, strict=True):
                if token in field_words:
                    total += weight * times
        return _single(total / words.divisor) if total else 0.0

    def _match(self, skill: Skill, score: float, best: float, asked: Mapping[str, int]) -> Match:
        fields = zip(_FIELDS, self._words[id(skill.content)][1].fields, strict=True)
        found = ((name, tuple(token for token in asked if token in words)) for name, words in fields)
        band = Band.of(score)
        why = tuple((name, words) for name, words in found if words)
        return Match(skill, score, band, score / best if best else 1.0, band is Band.TRACE, why)


def _analyse(skill: Skill) -> _Words:
    texts = (skill.name, skill.description, " ".join(skill.frontmatter.tags), skill.body)
    fields = tuple(frozenset(tokens(text)) for text in texts)
    return _Words(fields, _single(math.sqrt(max(1, len(fields[-1])))))


def _single(number: float) -> float:
    """Return the number in single precision, which adk-skill counts in: it settles what ties and what just suffices."""
    return c_float(number).value
