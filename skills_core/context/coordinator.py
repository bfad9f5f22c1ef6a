"""The coordinator: select a skill by strategies and build its context, whose instruction names only available tools.

Source: adk-skill's `ContextCoordinator`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar, assert_never

from skills_core.context.injection import by_shared_words, instruction_of
from skills_core.diagnostics import one_line
from skills_core.selection.policy import Band, Match, SelectionPolicy
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from skills_core.context.injection import Ranking
    from skills_core.skills.skill import Skill


ToolT = TypeVar("ToolT")
ToolT_co = TypeVar("ToolT_co", covariant=True)

logger = logging.getLogger(__name__)


NAMED_SCORE = (2 - 2**-23) * 2.0**127
"""The score of a skill selected by name, as in adk-skill: the largest single-precision number."""


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


class ContextCoordinator(Generic[ToolT]):
    """Selects a skill and resolves the tools that it may use. It may be shared between threads."""

    def __init__(
        self, skills: Iterable[Skill], registry: ToolRegistry[ToolT], config: CoordinatorConfig | None = None
    ) -> None:
        """Select among the active ones of `skills`; `registry` resolves tools."""
        self._skills = tuple(skills)
        self._registry = registry
        self._config = config or CoordinatorConfig()
        self._ranking = self._config.ranking(self._skills)

    def build_context(self, query: str) -> SkillContext[ToolT] | None:
        """Return the context for a query; None if no skill fits."""
        return self.resolve([ByQuery(query)]).context

    def build_context_by_name(self, name: str) -> SkillContext[ToolT] | None:
        """Return the context of the skill with that name; None if there is none."""
        return self.resolve([ByName(name)]).context

    def resolve(self, strategies: Sequence[Strategy]) -> Resolution[ToolT]:
        """Try each strategy, then the generalist if configured, and return the first acceptable skill.

        The matches of a query are tried in order, up to the policy's `top_k`.
        """
        rejected: list[Rejected] = []
        for strategy, fallback in self._attempts(strategies):
            matches = self._matches(strategy)
            if not matches:
                reason = Rejection.UNKNOWN_NAME if isinstance(strategy, ByName) else Rejection.NO_MATCH
                rejected.append(_log_rejected(Rejected(strategy, reason)))
            for match in matches:
                outcome = self._bind_tools(strategy, match, fallback=fallback)
                if isinstance(outcome, SkillContext):
                    return Resolution(_log_taken(outcome), tuple(rejected))
                rejected.append(_log_rejected(outcome))
        return Resolution(None, tuple(rejected))

    def _attempts(self, strategies: Sequence[Strategy]) -> Iterator[tuple[Strategy, bool]]:
        yield from ((strategy, False) for strategy in strategies)
        if self._config.generalist is not None:
            yield self._config.generalist, True

    def _matches(self, strategy: Strategy) -> Sequence[Match]:
        policy = self._config.policy
        match strategy:
            case ByName(name):
                return [Match(skill, NAMED_SCORE, Band.HIGH) for skill in self._named(name)]
            case ByQuery(query):
                return self._ranking(query, policy)
            case ByTag(tag):
                return self._ranking("", replace(policy, include_tags=(tag,), top_k=1, min_score=0.0))
            case _:
                assert_never(strategy)

    def _named(self, name: str) -> list[Skill]:
        """Return the skill whose key or path is `name`, else the only active one with that name or `skillKey`."""
        named = [skill for skill in self._skills if name in {skill.key, skill.path}]
        named.sort(key=lambda skill: skill.state is not State.ACTIVE)
        if named:
            return named[:1]
        keyed = [skill for skill in self._skills if skill.state is State.ACTIVE and name in skill.content.names]
        return keyed if len(keyed) == 1 else []

    def _bind_tools(self, strategy: Strategy, match: Match, *, fallback: bool) -> SkillContext[ToolT] | Rejected:
        skill = match.skill
        if skill.state is not State.ACTIVE:
            return Rejected(strategy, Rejection.NOT_ACTIVE, match)
        entries = tuple(dict.fromkeys(skill.frontmatter.allowed_tools or ()))
        found = {entry: tool for entry in entries if (tool := self._find_tool(entry)) is not None}
        missing = tuple(entry for entry in entries if entry not in found)
        if missing and self._config.treatment is MissingTools.STRICT:
            return Rejected(strategy, Rejection.MISSING_TOOLS, match, missing)
        instruction = instruction_of(skill, tuple(found), self._config.max_instruction_chars)
        tools = tuple({id(tool): tool for tool in found.values()}.values())
        return SkillContext(instruction, tools, tuple(found), missing, match, strategy, fallback)

    def _find_tool(self, entry: str) -> ToolT | None:
        """Return the tool for an entry such as `Bash(git:*)`: by the whole entry, else by the name before `(`."""
        tool = self._registry.resolve(entry)
        name = entry.partition("(")[0].strip()
        return self._registry.resolve(name) if tool is None and name not in {"", entry} else tool


def _log_taken(context: SkillContext[ToolT]) -> SkillContext[ToolT]:
    by = f"{_described_for_log(context.strategy)}{' (generalist)' if context.fallback else ''}"
    logger.info("context: %s %s", context.match.for_log, by)
    if context.omitted:
        tools = ", ".join(map(one_line, context.omitted))
        logger.warning("context: %s is used without its missing tools: %s", one_line(context.skill.key), tools)
    return context


def _log_rejected(rejected: Rejected) -> Rejected:
    what = rejected.match.for_log if rejected.match else "nothing"
    missing = f": {', '.join(map(one_line, rejected.missing))}" if rejected.missing else ""
    logger.info("context: rejected %s %s: %s%s", what, _described_for_log(rejected.strategy), rejected.reason, missing)
    return rejected


def _described_for_log(strategy: Strategy) -> str:
    """Describe a strategy for the log, without the user's query."""
    match strategy:
        case ByName(name):
            return f"by the name {one_line(name[:100])}"
        case ByTag(tag):
            return f"by the tag {one_line(tag[:100])}"
        case ByQuery():
            return "by a query"
        case _:
            assert_never(strategy)
