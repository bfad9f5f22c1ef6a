"""Who asks, and what they may do: principals, the roles that show skills and allow tools, and profiles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from skills_core.skills.choices import Choices, fits

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from skills_core.skills.skill import Skill


ADMIN_ROLE = "admin"
"""The role of the admin token; `login.admin_roles` says which roles may use the admin routes."""

METRICS_ROLE = "metrics"
"""The role that may read the metrics, and nothing more of the operator's routes."""


_MAX_CHOSEN = 256
# Most sets of roles whose choices are kept.


class PrincipalKind(StrEnum):
    """How a principal proved who it is."""

    LOCAL = "local"
    """Not at all: the client of stdio, or any client of a server without login."""
    TOKEN = "token"  # noqa: S105 - the name of a kind
    """By a static token of `skillserve token`."""
    JWT = "jwt"
    """By a token that the identity provider signed."""
    OPAQUE = "opaque"
    """By a token that the identity provider confirmed by introspection."""
    NONE = ""
    """Not at all, at a server that requires a login."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The user or service behind a request; it contains no secret, so it may be logged.

    `subject` is unique for one kind and issuer only. `client_id` is the OAuth client that the token was issued to.
    `expires_at` is in seconds since 1970, None for a token that does not expire.
    """

    subject: str
    kind: PrincipalKind
    roles: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    client_id: str | None = None
    expires_at: int | None = None


LOCAL = Principal("local", PrincipalKind.LOCAL)
"""The principal of stdio, and of every request to a server without login."""

STRANGER = Principal("", PrincipalKind.NONE)
"""The sender of a request whose login is not accepted yet, or is refused."""


def principal_of(ctx: ServerRequestContext[Any, Any]) -> Principal:
    """Return the principal of a request in either protocol era.

    The token of the HTTP request decides, not the token that opened the session.
    """
    return principal_of_scope(getattr(ctx.request, "scope", None))


def principal_of_scope(scope: object) -> Principal:
    """Return the principal that the login middleware left in an ASGI scope, `LOCAL` if there is none."""
    user = scope.get("user") if isinstance(scope, dict) else None
    principal = getattr(getattr(user, "access_token", None), "principal", None)
    return principal if isinstance(principal, Principal) else LOCAL


class Roles:
    """The roles of one server.

    Roles that the server does not know make no difference. What cannot be read of a skill, such as the tags in broken
    frontmatter, selects nothing.
    """

    def __init__(
        self, skills: Mapping[str, Sequence[str]], default: Iterable[str], tools: Mapping[str, Sequence[str]]
    ) -> None:
        """Take the skills and tools of each role; with an empty table, all roles have all of them.

        Every caller has the roles in `default`.
        """
        self._skills = {role: tuple(each) for role, each in skills.items()}
        self._tools = {role: tuple(each) for role, each in tools.items()}
        self._known = self._skills.keys() | self._tools.keys()
        self._default = frozenset(default).intersection(self._known)
        # A view asks for each skill of the library.
        self._chosen = lru_cache(_MAX_CHOSEN)(self._choices_of)

    def of(self, principal: Principal) -> frozenset[str]:
        """Return the known roles of a principal."""
        return principal.roles.intersection(self._known) | self._default

    def show(self, roles: frozenset[str], skill: Skill) -> bool:
        """Tell whether a caller with these roles sees a skill."""
        if not self._skills:
            return True
        return self._chosen(roles).select(skill.content, skill.source, (skill.content.name,))

    def _choices_of(self, roles: frozenset[str]) -> Choices:
        return Choices(choice for role in roles for choice in self._skills.get(role, ()))

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
