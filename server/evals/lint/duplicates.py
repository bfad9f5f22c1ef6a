"""Find skills that are the same, or nearly: equal bodies, and descriptions that share most of their words."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from skills_core.selection.words import fold, query_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skills_core.skill import Skill

__all__ = ["NEAR", "DuplicateKind", "Duplicates", "duplicates"]

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

    SIMILAR_DESCRIPTION = "similar_description"
    """Most words of the description: each skill shares them with another one of the group."""


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Skills that have something in common; `share` is the smallest of the shares of words that connect them."""

    kind: DuplicateKind
    skills: tuple[Skill, ...]
    share: float = 1.0


def duplicates(skills: Sequence[Skill]) -> tuple[Duplicates, ...]:
    """Return the groups of skills that are equal, then those with similar descriptions."""
    bodies = _groups(skills, (_body_digest(skill) for skill in skills))
    texts = [" ".join(fold(skill.description).split()) for skill in skills]
    # Of equal descriptions, one is compared with the others.
    distinct = list(dict(zip(reversed(texts), reversed(skills), strict=True)).values())[::-1]
    similar = _similar([frozenset(query_words(skill.description)) for skill in distinct])
    return (
        *(Duplicates(DuplicateKind.BODY, group) for group in bodies),
        *(Duplicates(DuplicateKind.DESCRIPTION, group) for group in _groups(skills, texts)),
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
