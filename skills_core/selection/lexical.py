"""Score skills against a query by shared words.

Source: adk-skill's lexical score. Each token of the query adds 4.0 if the name has it, 2.5 for the description, 2.0 for
the tags and 1.0 for the body; the sum is divided by the square root of the number of distinct tokens in the body.
Tokens are runs of ASCII letters and digits in lower case; a token that the query repeats counts each time. Later
versions of adk-skill accept letters of other scripts; here the default ranking covers those.
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
