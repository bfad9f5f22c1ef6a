"""Roles: which skills the callers with each role see, and which tools they may use."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from skills_core.skills.skill import chooses, fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcp.server.context import ServerRequestContext

    from server.access.principal import Principal
    from skills_core.skills.skill import Skill

__all__ = [
    "PROFILE_KEY",
    "ProfileFault",
    "Profiles",
    "Roles",
    "profile_of",
]


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


PROFILE_KEY = "skillserve.profile"
"""The key of the chosen profile in the ASGI scope of a request."""


class ProfileFault(StrEnum):
    """Why the profile that a request names is not used."""

    UNKNOWN = "unknown"
    """There is none of this name."""
    AMBIGUOUS = "ambiguous"
    """The request names several, or one several times in its headers."""


class Profiles:
    """The profiles of one server. A profile adds nothing: a caller has those of its roles that the profile has too."""

    def __init__(self, roles: Mapping[str, Iterable[str]]) -> None:
        """Take the roles of each profile."""
        self._roles = {name: frozenset(each) for name, each in roles.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all profiles."""
        return tuple(self._roles)

    def choose(self, in_path: str | None, in_headers: Sequence[str]) -> str | ProfileFault | None:
        """Return the profile that a request names, None if it names none.

        `in_path` is the name in its path, and `in_headers` are the values of all headers for profiles.
        """
        named = {*in_headers, *(() if in_path is None else (in_path,))}
        if len(in_headers) > 1 or len(named) > 1:
            return ProfileFault.AMBIGUOUS
        if not named <= self._roles.keys():
            return ProfileFault.UNKNOWN
        return next(iter(named), None)

    def narrowed(self, held: frozenset[str], profile: str | None) -> frozenset[str]:
        """Return those of a caller's roles that count in a profile; in an unknown one, none does."""
        return held if profile is None else held & self._roles.get(profile, frozenset())


def profile_of(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Return the profile that a request was sent to, None if it was sent to none."""
    scope = getattr(ctx.request, "scope", None)
    profile = scope.get(PROFILE_KEY) if isinstance(scope, dict) else None
    return profile if isinstance(profile, str) else None
