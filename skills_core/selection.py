"""Score skills against a query by the words they share.

Source: adk-skill's lexical score. For each token of the query: 4.0 if the name has it, 2.5 for the description,
2.0 for the tags, 1.0 for the body; the sum is divided by the square root of the body's distinct tokens. Tokens
are runs of ASCII letters and digits in lower case; one that the query repeats counts each time.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from skills_core.skill import Skill, SkillContent

__all__ = ["Band", "Match", "SelectionPolicy", "SkillIndex"]

_TOKEN = re.compile(r"[a-z0-9]+")
_WEIGHTS = (4.0, 2.5, 2.0, 1.0)


class Band(StrEnum):
    """What a score means, as strength of intent."""

    TRACE = "trace"
    BROAD = "broad"
    SPECIFIC = "specific"
    HIGH = "high"

    @classmethod
    def of(cls, score: float) -> Band:
        """Return the band of a score: from 1.0 broad, from 2.5 specific, from 5.0 high."""
        if score < 1.0:
            return cls.TRACE
        if score < 2.5:  # noqa: PLR2004 - the source's own bounds
            return cls.BROAD
        return cls.SPECIFIC if score < 5.0 else cls.HIGH  # noqa: PLR2004 - likewise


@dataclass(frozen=True, slots=True)
class SelectionPolicy:
    """Which matches count: the best `top_k` with at least `min_score`, by tags (in any case) if given."""

    top_k: int = 1
    min_score: float = 1.0
    include_tags: tuple[str, ...] = ()
    exclude_tags: tuple[str, ...] = ()

    def admission(self) -> Callable[[Iterable[str]], bool]:
        """Return the test whether a skill with these tags may be selected; the policy's tags are folded once."""
        included = frozenset(tag.casefold() for tag in self.include_tags)
        excluded = frozenset(tag.casefold() for tag in self.exclude_tags)

        def admits(tags: Iterable[str]) -> bool:
            folded = {tag.casefold() for tag in tags}
            return folded.isdisjoint(excluded) and (not included or not folded.isdisjoint(included))

        return admits


@dataclass(frozen=True, slots=True)
class Match:
    """A skill with its score for one query."""

    skill: Skill
    score: float

    @property
    def band(self) -> Band:
        """What the score means."""
        return Band.of(self.score)


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

        An empty query with included tags selects by the tags alone.
        """
        policy = policy or SelectionPolicy()
        tokens = Counter(_TOKEN.findall(query.lower()))
        by_tag = not tokens and bool(policy.include_tags)
        admits = policy.admission()
        matches: list[Match] = []
        for skill in self.skills:
            score = 0.0 if by_tag else self._score(skill, tokens)
            if (by_tag or (score > 0 and score >= policy.min_score)) and admits(skill.frontmatter.tags):
                matches.append(Match(skill, score))
        matches.sort(key=lambda match: (-match.score, match.skill.name, match.skill.path))
        return matches[: policy.top_k]

    def _score(self, skill: Skill, tokens: Mapping[str, int]) -> float:
        words = self._words[id(skill.content)][1]
        total = 0.0
        for token, times in tokens.items():
            for weight, field_words in zip(_WEIGHTS, words.fields, strict=True):
                if token in field_words:
                    total += weight * times
        return total / words.divisor


def _analyse(skill: Skill) -> _Words:
    texts = (skill.name, skill.description, " ".join(skill.frontmatter.tags), skill.body)
    fields = tuple(frozenset(_TOKEN.findall(text.lower())) for text in texts)
    return _Words(fields, math.sqrt(max(1, len(fields[-1]))))
