"""Roles: which skills the callers with each role see, and which tools they may use."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from skills_core.skill_choice import chooses, fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from server.access.principal import Principal
    from skills_core.skill import Skill

__all__ = ["Roles"]

_NOTHING: Mapping[str, Sequence[str]] = MappingProxyType({})


class Roles:
    """The roles of one server.

    Roles that the server does not know make no difference. What cannot be read of a skill, such as the tags in broken
    frontmatter, selects nothing.
    """

    def __init__(
        self,
        skills: Mapping[str, Sequence[str]],
        default: Iterable[str] = (),
        tools: Mapping[str, Sequence[str]] = _NOTHING,
    ) -> None:
        """Take the skills and tools of each role; with an empty table, all roles have all of them.

        Every caller has the roles in `default`.
        """
        self._skills = {role: tuple(each) for role, each in skills.items()}
        self._tools = {role: tuple(each) for role, each in tools.items()}
        self._known = self._skills.keys() | self._tools.keys()
        self._default = frozenset(default).intersection(self._known)

    def of(self, principal: Principal) -> frozenset[str]:
        """Return the known roles of a principal."""
        return principal.roles.intersection(self._known) | self._default

    def show(self, roles: frozenset[str], skill: Skill) -> bool:
        """Tell whether a caller with these roles sees a skill."""
        if not self._skills:
            return True
        names = (skill.content.name,)
        choices = (choice for role in roles for choice in self._skills.get(role, ()))
        return any(chooses(choice, skill.content, skill.source, names) for choice in choices)

    def allow(self, roles: frozenset[str], tool: str) -> bool:
        """Tell whether a caller with these roles may use a tool that the settings switch on."""
        if not self._tools:
            return True
        return any(fits(choice, tool) for role in roles for choice in self._tools.get(role, ()))
