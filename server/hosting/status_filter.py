"""Filter skills by state, reason, scope and name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Self, TypeVar

from skills_core.diagnostics import Reason
from skills_core.errors import SkillsError, similar_to
from skills_core.skill import State
from skills_core.sources import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skills_core.skill import Skill

__all__ = ["MAX_PATTERN", "MAX_VALUES", "StatusFilter", "StatusFilterError"]

MAX_VALUES = 50
MAX_PATTERN = 200
# A pattern is tried on every skill.

EnumT = TypeVar("EnumT", bound=StrEnum)


class StatusFilterError(SkillsError):
    """A filter has an invalid value; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class StatusFilter:
    """A filter for skills: each kind of value is a condition, which one of its values has to meet.

    A kind without values is no condition. `names` are case-sensitive patterns with `*`, `?` and `[…]`, matched against
    the name and the key.
    """

    states: tuple[State, ...] = ()
    reasons: tuple[Reason, ...] = ()
    scopes: tuple[Scope, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def parse(cls, values: Mapping[str, object]) -> Self:
        """Parse the lists of strings under `state`, `reason`, `scope` and `name`; a string is a list of one.

        Raises:
            StatusFilterError: a key or a value is unknown, or a value is not a list of strings.
        """
        unknown = sorted(set(values) - {"state", "reason", "scope", "name"})
        if unknown:
            raise StatusFilterError(f"unknown argument {unknown[0][:100]!r}; expected state, reason, scope or name")
        return cls(
            states=_members(State, "state", values),
            reasons=_members(Reason, "reason", values),
            scopes=_members(Scope, "scope", values),
            names=tuple(_texts("name", values)),
        )

    def admits(self, skill: Skill) -> bool:
        """Return whether a skill passes the filter."""
        return (
            (not self.states or skill.state in self.states)
            and (not self.reasons or skill.reason in self.reasons)
            and (not self.scopes or skill.source.scope in self.scopes)
            and (not self.names or any(_matches(skill, pattern) for pattern in self.names))
        )


def _matches(skill: Skill, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in (skill.name, skill.key, skill.skill_key))


def _members(kind: type[EnumT], key: str, values: Mapping[str, object]) -> tuple[EnumT, ...]:
    known: dict[str, EnumT] = {member.value: member for member in kind}
    members: list[EnumT] = []
    for text in _texts(key, values):
        if text not in known:
            raise StatusFilterError(f"{key}: unknown value {text!r}; expected {_expected(text, known)}")
        members.append(known[text])
    return tuple(members)


def _expected(text: str, known: Mapping[str, object]) -> str:
    """Return similar values, or all values if none is similar."""
    return " or ".join(map(repr, similar_to(text, known))) or f"one of {', '.join(known)}"


def _texts(key: str, values: Mapping[str, object]) -> Sequence[str]:
    given = values.get(key)
    texts = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise StatusFilterError(f"{key} must be a list of strings")
    if len(texts) > MAX_VALUES or any(len(text) > MAX_PATTERN for text in texts):
        raise StatusFilterError(f"{key} may have at most {MAX_VALUES} values of {MAX_PATTERN} characters")
    return texts
