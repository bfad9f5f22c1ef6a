"""Login over HTTP: static tokens, tokens of an identity provider, and the refusals that clients can act on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from server.capabilities.login.settings import SECTION, LoginSettings
from server.capability import Capability

if TYPE_CHECKING:
    import typer

    from server.capability import ServerPart
    from server.cli.config_check.finding import CheckedFile, ConfigFinding
    from server.cli.config_check.settings_check import Configuration
    from server.config.settings.model import Settings
    from server.hosting.host import Host


def _add_commands(app: typer.Typer) -> None:
    from server.capabilities.login.commands import token
    from server.cli.help_pages import CommandGroup

    app.add_typer(token, name="token", rich_help_panel=CommandGroup.OPERATE)


def _requires_login(settings: Settings) -> bool:
    return settings.section(LoginSettings).required


def _login_header(settings: Settings) -> str | None:
    return "Authorization: Bearer $TOKEN" if settings.section(LoginSettings).tokens else None


def _http_part(host: Host) -> ServerPart | None:
    if not _requires_login(host.settings):
        return None
    from server.capabilities.login.login import ServerLogin

    return host.service(ServerLogin)


def _checks(configuration: Configuration) -> Iterator[ConfigFinding]:
    from server.capabilities.login.checks import check_login

    return check_login(configuration)


def _files(_: Settings) -> Iterable[CheckedFile]:
    from server.capabilities.login.checks import checked_files

    return checked_files()


CAPABILITY: Final = Capability(
    name="login",
    sections=(SECTION,),
    commands=_add_commands,
    checks=_checks,
    files=_files,
    http_part=_http_part,
    requires_login=_requires_login,
    login_header=_login_header,
)
