"""Whether skills can be downloaded over HTTP, and whose."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from server.config.settings.section import Section
from server.config.values import NonEmpty

if TYPE_CHECKING:
    from server.cli.config_check.finding import ConfigFinding
    from server.cli.config_check.settings_check import Configuration
    from server.config.settings.model import Settings


class PublishMode(StrEnum):
    """When skills can be downloaded."""

    AUTO = "auto"
    """While this machine alone can reach the server."""
    ON = "on"
    """At every address."""
    OFF = "off"
    """Never."""


class PublishSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Skills as downloads for installers, such as `npx skills add`, at `/.well-known/agent-skills/`."""

    mode: PublishMode = PublishMode.AUTO
    """Whether the server offers the skills that models may use as downloads, to everybody who reaches it: `auto` does
    so if it listens on a loopback address and `http.allowed_hosts` is empty, `on` at every address, `off` never."""
    roles: tuple[NonEmpty, ...] = ()
    """Roles of `access.roles` whose skills can be downloaded. By default they are `access.default_roles`, and where
    clients have to log in nobody's: downloads need no login, so name the roles whose skills everybody may have."""


SECTION: Final = Section(name="publish", kind=PublishSettings, prefix="publish_", options={"mode": "publish"})


def public_roles(settings: Settings) -> frozenset[str] | None:
    """Return the roles whose skills everybody may download, which is the name of a view; None if nobody may."""
    from server.transport.listening import checks_host, requires_login

    publish, access = settings.section(PublishSettings), settings.access
    # Pages of other sites, which a browser on this machine shows, reach no server that checks its name.
    is_private = checks_host(settings.http) and not settings.http.allowed_hosts
    if publish.mode is PublishMode.OFF or (publish.mode is PublishMode.AUTO and not is_private):
        return None
    needs_login = requires_login(settings)
    chosen = publish.roles or (() if needs_login else access.default_roles)
    roles = access.known_roles.intersection(chosen)
    # Without roles there is one view, of all skills, which a login protects.
    return None if needs_login and not roles else roles


def check_publish(configuration: Configuration) -> Iterator[ConfigFinding]:
    """Check what is published; sections with a fault of their own are left out."""
    from server.cli.config_check.finding import Level
    from server.transport.listening import requires_login

    checked = configuration.checked
    if not checked.can_compare("publish", "access", "login"):
        return
    publish, access = checked.settings.section(PublishSettings), checked.settings.access
    for number, role in enumerate(publish.roles):
        if role not in access.known_roles:
            message = f"{role[:80]!r}: expected a role of access.roles, which has: {', '.join(access.roles) or 'none'}"
            yield checked.finding(Level.ERROR, "publish.roles", message, "correct it, or add the role", f".{number}")
    if publish.mode is PublishMode.ON and not publish.roles and requires_login(checked.settings):
        message = "clients have to log in, so nothing is published"
        advice = "name the roles whose skills everybody may download in publish.roles"
        yield checked.finding(Level.WARNING, "publish.mode", message, advice)
