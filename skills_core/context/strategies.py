"""The coordinator's input and output types: strategies, tool registry, context and rejections."""

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
    """Select the skill whose key, path or `skillKey` is `name`, even one that models may not choose."""

    name: str


@dataclass(frozen=True, slots=True)
class ByQuery:
    """Select the skills that match a query best, within the policy."""

    query: str


@dataclass(frozen=True, slots=True)
class ByTag:
    """Select the first skill by name that has a tag, ignoring case."""

    tag: str


Strategy: TypeAlias = ByName | ByQuery | ByTag


class MissingTools(StrEnum):
    """How to treat a skill whose `allowed-tools` are not all available."""

    STRICT = "strict"
    """Reject it."""
    PERMISSIVE = "permissive"
    """Use it without the missing tools."""


class ToolRegistry(Protocol[ToolT_co]):
    """The tools of a program, by name."""

    def resolve(self, name: str) -> ToolT_co | None:
        """Return the tool with that name; None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class CoordinatorConfig:
    """How the coordinator selects skills. `generalist` is tried after all strategies.

    `policy` applies to queries, and its excluded tags also to selection by tag. `max_instruction_chars` are code points
    of a body. `ranking` builds the ranking from the skills: `by_shared_words` for adk-skill's score, or `by_full_text`.
    """

    policy: SelectionPolicy = field(default_factory=SelectionPolicy)
    max_instruction_chars: int = 8000
    treatment: MissingTools = MissingTools.STRICT
    generalist: Strategy | None = None
    ranking: Callable[[Iterable[Skill]], Ranking] = by_shared_words


class Rejection(StrEnum):
    """Why a strategy, or a skill that it found, was rejected. The values are stable."""

    UNKNOWN_NAME = "unknown_name"
    NO_MATCH = "no_match"
    NOT_ACTIVE = "not_active"
    MISSING_TOOLS = "missing_tools"


@dataclass(frozen=True, slots=True)
class Rejected:
    """A strategy that found nothing, or a match that was not acceptable; `missing` are the unavailable tools."""

    strategy: Strategy
    reason: Rejection
    match: Match | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkillContext(Generic[ToolT]):
    """A skill for a model: the instruction, and exactly the tools that it mentions.

    `granted` are the entries of `allowed-tools` with an available tool, `omitted` those without; `tools` has each tool
    once. `strategy` found the skill; `fallback` is true if that was the generalist.
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
        """The selected skill."""
        return self.match.skill


@dataclass(frozen=True, slots=True)
class Resolution(Generic[ToolT]):
    """The context, None if no strategy succeeded, and the rejections before it, in order."""

    context: SkillContext[ToolT] | None
    rejected: tuple[Rejected, ...] = ()
