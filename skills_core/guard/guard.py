"""Decide on a tool call: allow it, ask the user first, or deny it.

Source: the capability format. Patterns are matched against the tool's name, a space, and the arguments as JavaScript's
`JSON.stringify` writes them. Beyond the source, they are also matched against the tool's name, a space, and each
decoded string of the arguments, where a tab is a tab and `$` is the string's end. A danger pattern denies the call, a
confirm pattern asks; a denial wins.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.errors import NestedTooDeepError
from skills_core.guard.arguments import argument_texts, json_text
from skills_core.texts import compile_matcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skills_core.format.yaml12 import JsonValue
    from skills_core.skills.skill import Skill


logger = logging.getLogger(__name__)

MAX_SHOWN = 200
"""Maximum characters of a pattern in a reason."""

MAX_NAME = 100
"""Maximum characters of a tool's name in a reason and in the log."""


class Verdict(StrEnum):
    """The outcome for a call."""

    ALLOW = "allow"
    CONFIRM = "confirm"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern and the verdict on calls that it matches; `skill` is None for a rule of the configuration."""

    pattern: str
    verdict: Verdict
    skill: Skill | None = None

    @property
    def origin(self) -> str:
        """Where the rule comes from, in words."""
        return f"the skill {one_line(self.skill.key)}" if self.skill else "the configuration"


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict on one call; `reason` explains it to the caller and is empty if the call is allowed.

    `discloses_rule` tells whether the caller may learn whose `rule` decided, and by which pattern.
    """

    verdict: Verdict
    reason: str = ""
    rule: Rule | None = None
    discloses_rule: bool = True


class Guard:
    """Decides by rules, whose patterns it compiles at construction."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Compile the rules.

        Raises:
            InvalidPatternError: a pattern is invalid; those of active skills never are.
        """
        denials_first = sorted(rules, key=lambda rule: rule.verdict is not Verdict.DENY)
        self._rules = [
            (rule, compile_matcher(rule.pattern), compile_matcher(rule.pattern, across_lines=True))
            for rule in denials_first
        ]

    def disclosing(self, shown: Callable[[Skill], Skill | None]) -> Guard:
        """Return a guard that decides alike, and whose decisions name skills as a caller knows them.

        `shown` returns a skill as the caller sees it, None if it does not.
        """
        return _Disclosing(self, shown)

    def decide(self, tool: str, arguments: dict[str, JsonValue]) -> Decision:
        """Return the decision on a call of `tool`; arguments that nest too deeply for JSON are denied."""
        if not self._rules:
            return Decision(Verdict.ALLOW)
        try:
            text = f"{tool} {json_text(arguments)}"
        except NestedTooDeepError as error:
            return Decision(Verdict.DENY, f"The call is denied: {error}")
        strings = argument_texts(tool, arguments)
        for rule, matches, matches_string in self._rules:
            if matches(text) or any(map(matches_string, strings)):
                return Decision(rule.verdict, _reason(tool, rule), rule)
        return Decision(Verdict.ALLOW)


class _Disclosing(Guard):
    """Decides as another guard, and keeps to itself which rules of hidden skills decide."""

    def __init__(self, guard: Guard, shown: Callable[[Skill], Skill | None]) -> None:
        super().__init__(())
        self._guard = guard
        self._shown = shown

    def decide(self, tool: str, arguments: dict[str, JsonValue]) -> Decision:
        decision = self._guard.decide(tool, arguments)
        rule = decision.rule
        if rule is None or rule.skill is None:
            return decision
        skill = self._shown(rule.skill)
        if skill is None:
            return replace(decision, reason=_reason_without_rule(tool, rule.verdict), discloses_rule=False)
        rule = replace(rule, skill=skill)
        return replace(decision, reason=_reason(tool, rule), rule=rule)


def rules_of(skills: Iterable[Skill]) -> tuple[Rule, ...]:
    """Return the rules that skills declare, in their order."""
    return tuple(
        Rule(pattern, verdict, skill)
        for skill in skills
        for verdict, patterns in (
            (Verdict.DENY, skill.frontmatter.danger_patterns),
            (Verdict.CONFIRM, skill.frontmatter.confirm_patterns),
        )
        for pattern in patterns
    )


def log_decision(tool: str, decision: Decision) -> None:
    """Log a decision that a pattern made on a call of `tool`, with the digest of the pattern's skill."""
    if (rule := decision.rule) is not None:
        digest = rule.skill.digest if rule.skill else ""
        logger.info("guard: %s %s by %s %s", decision.verdict, one_line(tool)[:MAX_NAME], rule.origin, digest)


def _reason(tool: str, rule: Rule) -> str:
    pattern = one_line(rule.pattern)
    shown = pattern if len(pattern) <= MAX_SHOWN else pattern[:MAX_SHOWN] + "…"
    call = f"The call of {one_line(tool)[:MAX_NAME]}"
    if rule.verdict is Verdict.DENY:
        return (
            f"{call} is denied: it matches `{shown}`, which {rule.origin} calls dangerous. "
            "Do it another way, or tell the user why it cannot be done."
        )
    return f"{call} needs the user's consent: it matches `{shown}`, for which {rule.origin} wants to be asked."


def _reason_without_rule(tool: str, verdict: Verdict) -> str:
    call = f"The call of {one_line(tool)[:MAX_NAME]}"
    if verdict is Verdict.DENY:
        return f"{call} is denied by a rule of this server. Do it another way, or tell the user why it cannot be done."
    return f"{call} needs the user's consent, as a rule of this server says."
