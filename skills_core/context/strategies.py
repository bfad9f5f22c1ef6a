"""What the coordinator takes and returns: strategies, the registry of tools, the context, and what was rejected."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

from skills_core.context.rankings import by_shared_words
from skills_core.selection.policy import SelectionPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skills_core.context.rankings import Ranking
    from skills_core.selection.policy import Match
    from skills_core.skill import Skill

__all__ = [
    "ByName",
    "ByQuery",
    "ByTag",
    "CoordinatorConfig",
    "MissingTools",
    "Rejected",
    "Rejection",
    "Resolution",
    "SkillContext",
    "Strategy",
    "ToolRegistry",
]

ToolT = TypeVar("ToolT")
ToolT_co = TypeVar("ToolT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ByName:
    """The skill whose key or path is `name`, whether or not a model may choose it by itself."""

    name: str


@dataclass(frozen=True, slots=True)
class ByQuery:
    """The skills that match a query best, within the policy."""

    query: str


@dataclass(frozen=True, slots=True)
class ByTag:
    """The first skill that has a tag, in any case; by name, for there is no query to rank by."""

    tag: str


Strategy: TypeAlias = ByName | ByQuery | ByTag


class MissingTools(StrEnum):
    """What becomes of a skill that may use tools which are not there."""

    STRICT = "strict"
    """It is rejected."""
    PERMISSIVE = "permissive"
    """It is taken, without them."""


class ToolRegistry(Protocol[ToolT_co]):
    """The tools of a program, by name."""

    def resolve(self, name: str) -> ToolT_co | None:
        """Return the tool of that name, None where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class CoordinatorConfig:
    """How skills are chosen. `generalist` is tried where no strategy hits.

    `policy` counts for queries, and its excluded tags for tags. `max_instruction_chars` are code points of a body.
    `ranking` makes what ranks the skills: adk-skill's score, or the default one with `by_full_text`.
    """

    policy: SelectionPolicy = field(default_factory=SelectionPolicy)
    max_instruction_chars: int = 8000
    treatment: MissingTools = MissingTools.STRICT
    generalist: Strategy | None = None
    ranking: Callable[[Iterable[Skill]], Ranking] = by_shared_words


class Rejection(StrEnum):
    """Why a strategy, or a skill that it found, was not it. The values never change their spelling."""

    UNKNOWN_NAME = "unknown_name"
    NO_MATCH = "no_match"
    NOT_ACTIVE = "not_active"
    MISSING_TOOLS = "missing_tools"


@dataclass(frozen=True, slots=True)
class Rejected:
    """What was not taken: a strategy that found nothing, or the match that it found; `missing` names tools."""

    strategy: Strategy
    reason: Rejection
    match: Match | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkillContext(Generic[ToolT]):
    """A skill for a model, as one unit: the instruction, and the tools that it says are there.

    `granted` are the entries of `allowed-tools` for which there is a tool, `omitted` those for which there is none;
    `tools` has each tool once. `strategy` is what found the skill, `fallback` tells that it was the generalist.
    """

    instruction: str
    tools: tuple[ToolT, ...]
    granted: tuple[str, ...]
    omitted: tuple[str, ...]
    match: Match
    strategy: Strategy
    fallback: bool = False

    @property
    def skill(self) -> Skill:
        """The skill that was chosen."""
        return self.match.skill


@dataclass(frozen=True, slots=True)
class Resolution(Generic[ToolT]):
    """The context, None where nothing hit, and what was rejected before it, in the order of the attempts."""

    context: SkillContext[ToolT] | None
    rejected: tuple[Rejected, ...] = ()
