"""Which skills somebody wants to see the status of: by state, reason, scope and name."""

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

__all__ = ["MAX_PATTERN", "MAX_VALUES", "ChoiceError", "StatusChoice"]

MAX_VALUES = 50
MAX_PATTERN = 200
# A pattern is tried on every skill.

EnumT = TypeVar("EnumT", bound=StrEnum)


class ChoiceError(SkillsError):
    """A value cannot choose skills; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class StatusChoice:
    """What is asked for: a skill must fit one value of each kind; a kind without values is no condition.

    `names` are patterns with `*`, `?` and `[…]`, held against the name and the key, upper and lower case apart.
    """

    states: tuple[State, ...] = ()
    reasons: tuple[Reason, ...] = ()
    scopes: tuple[Scope, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def parse(cls, values: Mapping[str, object]) -> Self:
        """Read the lists of texts under `state`, `reason`, `scope` and `name`; one text stands for a list of it.

        Raises:
            ChoiceError: there are other keys, something is no list of texts, or a value is unknown.
        """
        unknown = sorted(set(values) - {"state", "reason", "scope", "name"})
        if unknown:
            raise ChoiceError(f"unknown argument {unknown[0][:100]!r}; expected state, reason, scope or name")
        return cls(
            states=_members(State, "state", values),
            reasons=_members(Reason, "reason", values),
            scopes=_members(Scope, "scope", values),
            names=tuple(_texts("name", values)),
        )

    def admits(self, skill: Skill) -> bool:
        """Tell whether `skill` is one that is asked for."""
        return (
            (not self.states or skill.state in self.states)
            and (not self.reasons or skill.reason in self.reasons)
            and (not self.scopes or skill.source.scope in self.scopes)
            and (not self.names or any(_matches(skill, pattern) for pattern in self.names))
        )


def _matches(skill: Skill, pattern: str) -> bool:
    return fnmatchcase(skill.name, pattern) or fnmatchcase(skill.key, pattern)


def _members(kind: type[EnumT], key: str, values: Mapping[str, object]) -> tuple[EnumT, ...]:
    known: dict[str, EnumT] = {member.value: member for member in kind}
    members: list[EnumT] = []
    for text in _texts(key, values):
        if text not in known:
            raise ChoiceError(f"{key}: there is no {text!r}; expected {_expected(text, known)}")
        members.append(known[text])
    return tuple(members)


def _expected(text: str, known: Mapping[str, object]) -> str:
    """Return what may have been meant, or all there is."""
    return " or ".join(map(repr, similar_to(text, known))) or f"one of {', '.join(known)}"


def _texts(key: str, values: Mapping[str, object]) -> Sequence[str]:
    given = values.get(key)
    texts = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ChoiceError(f"{key} must be a list of strings")
    if len(texts) > MAX_VALUES or any(len(text) > MAX_PATTERN for text in texts):
        raise ChoiceError(f"{key} may have {MAX_VALUES} values of {MAX_PATTERN} characters")
    return texts
