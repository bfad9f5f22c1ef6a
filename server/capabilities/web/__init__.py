"""The page at `/`: what skills there are, what they say, what is wrong with them, and what runs without their users.

The page shows what its visitor may see as a client: the skills of its roles. Other capabilities add panels to the page
of a skill, and tabs beside the catalog.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from server.capabilities.web.settings import SECTION, WebSettings
from server.capability import Capability
from server.config.settings.server import HttpSettings

if TYPE_CHECKING:
    import typer

    from server.capability import ServerPart
    from server.cli.config_check.finding import ConfigFinding
    from server.cli.config_check.settings_check import Configuration
    from server.config.settings.model import Settings
    from server.hosting.host import Host

_USUAL_PORT: Final = str(HttpSettings().port)


def _http_part(host: Host) -> ServerPart | None:
    if not host.settings.section(WebSettings).enabled:
        return None
    if host.views_differ and not host.settings.access.known_roles:
        # A program has a rule of its own, whose views have other names than those of roles.
        return None
    from server.capabilities.web.part import WebPage

    return host.service(WebPage)


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.web.commands import page
    from server.cli.help_pages import CommandGroup

    app.command(rich_help_panel=CommandGroup.OPERATE)(page)


def _checks(configuration: Configuration) -> Iterator[ConfigFinding]:
    from server.capabilities.web.checks import check_web

    return check_web(configuration)


def _start_lines(settings: Settings, origin: str) -> Iterable[tuple[str, str]]:
    from server.config.machine import own_command
    from server.transport.listening import requires_login

    if not settings.section(WebSettings).enabled:
        return
    yield "page", f"{origin}/"
    if not requires_login(settings) and sys.platform != "win32":
        port = origin.rpartition(":")[2]
        yield "as operator", f"{own_command()} page{'' if port == _USUAL_PORT else f' --port {port}'}"


CAPABILITY: Final = Capability(
    name="web",
    sections=(SECTION,),
    commands=_add_commands,
    checks=_checks,
    http_part=_http_part,
    start_lines=_start_lines,
)
