"""Roles: which skills the callers with each role see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.skill_choice import chooses

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from server.access.principal import Principal
    from skills_core.skill import Skill

__all__ = ["Roles"]


class Roles:
    """The roles of one server.

    Roles that the server does not know make no difference. What cannot be read of a skill, such as the tags in broken
    frontmatter, selects nothing.
    """

    def __init__(self, choices: Mapping[str, Sequence[str]], default: Iterable[str] = ()) -> None:
        """`choices` names the skills of each role; every caller has the roles in `default`."""
        self._choices = {role: tuple(each) for role, each in choices.items()}
        self._default = frozenset(default).intersection(self._choices)

    def of(self, principal: Principal) -> frozenset[str]:
        """Return the known roles of a principal."""
        return principal.roles.intersection(self._choices) | self._default

    def show(self, roles: frozenset[str], skill: Skill) -> bool:
        """Tell whether a caller with these roles sees a skill."""
        names = (skill.content.name,)
        choices = (choice for role in roles for choice in self._choices[role])
        return any(chooses(choice, skill.content, skill.source, names) for choice in choices)
