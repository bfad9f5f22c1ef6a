"""Views by role: each set of roles that callers have is one view, with its skills and its tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.access.principal import principal_of
from server.access.roles import Profiles, Roles, profile_of
from server.hosting.views import ViewRule

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from server.config.settings.access import AccessSettings

__all__ = ["role_rule"]


def role_rule(settings: AccessSettings) -> ViewRule | None:
    """Return the rule that gives callers the skills and tools of their roles; None if the settings have no roles."""
    if not settings.known_roles:
        return None
    roles = Roles(settings.roles, settings.default_roles, settings.tools)

    profiles = Profiles(settings.profiles)

    def view_of(ctx: ServerRequestContext[Any, Any]) -> frozenset[str]:
        return profiles.narrowed(roles.of(principal_of(ctx)), profile_of(ctx))

    return ViewRule(view_of, roles.show, roles.allow)
