"""The input and output types of both rankings: policy, match and band, and the menu of matches that are close."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from skills_core.skills.skill import Skill

CLOSE_SHARE = 0.9
"""Minimum share of the best score that counts as close: adk-skill's 0.5 below 5.0, where its highest band begins."""

MAX_MENU = 5


class Band(StrEnum):
    """What a score means: how strongly the query asks for the skill."""

    TRACE = "trace"
    BROAD = "broad"
    SPECIFIC = "specific"
    HIGH = "high"

    @classmethod
    def of(cls, score: float) -> Band:
        """Return the band of an adk-skill score: broad from 1.0, specific from 2.5, high from 5.0."""
        if score < 1.0:
            return cls.TRACE
        if score < 2.5:  # noqa: PLR2004 - the source's own bounds
            return cls.BROAD
        return cls.SPECIFIC if score < 5.0 else cls.HIGH  # noqa: PLR2004 - likewise


@dataclass(frozen=True, slots=True)
class SelectionPolicy:
    """Which matches to return: the best `top_k` with at least `min_score`, filtered by tags (ignoring case)."""

    top_k: int = 1
    min_score: float = 1.0
    include_tags: tuple[str, ...] = ()
    exclude_tags: tuple[str, ...] = ()

    @property
    def has_tags(self) -> bool:
        """Whether the tags of skills matter."""
        return bool(self.include_tags or self.exclude_tags)

    def admission(self) -> Callable[[Skill], bool]:
        """Return whether the tags of a skill admit it, as a predicate; the policy's own tags are case-folded once."""
        included = frozenset(tag.casefold() for tag in self.include_tags)
        excluded = frozenset(tag.casefold() for tag in self.exclude_tags)

        if not self.has_tags:
            return lambda _: True

        def admits(skill: Skill) -> bool:
            fold = {tag.casefold() for tag in skill.frontmatter.tags}
            return fold.isdisjoint(excluded) and (not included or not fold.isdisjoint(included))

        return admits


@dataclass(frozen=True, slots=True)
class Match:
    """A skill with its score for one query.

    `relative` is the score as a share of the best match's, from 0 to 1. `weak` means that the skill covers little of
    the query. `why` maps fields of the skill (`name`, `description`, `tags`, `body`) to the query's words in them.
    `alike` are other skills for which this one stands, because they are nearly the same.
    """

    skill: Skill
    score: float
    band: Band
    relative: float = 1.0
    weak: bool = False
    why: tuple[tuple[str, tuple[str, ...]], ...] = ()
    alike: tuple[Skill, ...] = ()

    @property
    def for_log(self) -> str:
        """The skill with its digest and score, as log lines about a selection show it."""
        return f"{one_line(self.skill.key)} {self.skill.digest} score {self.score:.6g}"

    @property
    def order(self) -> tuple[float, str, str]:
        """The sort key: best score first, ties by name, then by path."""
        return -self.score, self.skill.name, self.skill.path


def menu_of(matches: Sequence[Match]) -> tuple[Match, ...]:
    """Return the leading ones of the ordered `matches` that are close together; empty if the best one stands out.

    Weak matches are left out, because a choice between skills that do not fit is useless.
    """
    close = tuple(takewhile(lambda match: match.relative >= CLOSE_SHARE and not match.weak, matches[:MAX_MENU]))
    return close if len(close) > 1 else ()
