"""Profiles: parts of what a caller may use, of which the client chooses one by path or header."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcp.server.context import ServerRequestContext

__all__ = ["PROFILE_KEY", "ProfileFault", "Profiles", "profile_of"]

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
