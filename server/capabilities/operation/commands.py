"""The command `reload`: make a running server reload its skills."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from server.capabilities.operation.settings import AdminSettings
from server.cli.commands.options import AsJson
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_text
from server.config.machine import current_places, runtime_folders
from server.config.settings.layers import load_settings
from server.config.settings.model import Settings
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from server.capabilities.operation.admin_client import Reloaded

__all__ = ["reload"]


def reload(
    *,
    port: Annotated[
        int | None, typer.Option(metavar="PORT", help="The port of a server on this machine.", show_default="8000")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The URL of a server; set SKILLSERVE_ADMIN_TOKEN to its admin token."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Reload the skills of a running server, and print the changes."""
    from server.capabilities.operation.admin_client import NoServerAnswerError

    settings = load_settings({"port": port}, os.environ, current_places().config_home)
    if url is not None and port is not None:
        fail("--port and --url exclude each other; give one of them", EXIT_USAGE)
    try:
        reloaded = _by_socket(settings) if url is None else _over_http(url, settings)
    except NoServerAnswerError as error:
        fail(str(error), EXIT_NO)
    if as_json:
        print_json(reloaded.model_dump(mode="json"))
    else:
        print_text("\n".join(_lines(reloaded)))


def _by_socket(settings: Settings) -> Reloaded:
    from server.capabilities.operation.admin_client import reload_by_socket
    from server.capabilities.operation.admin_sockets import sockets_of

    if sys.platform == "win32":
        fail("Windows has no local control socket; name the server with --url", EXIT_USAGE)
    return reload_by_socket(sockets_of(runtime_folders(), settings.http.port), settings.http.port)


def _over_http(url: str, settings: Settings) -> Reloaded:
    from server.capabilities.operation.admin_client import reload_at
    from server.capabilities.remote.address import Address

    address = Address.parse(url)
    token = settings.section(AdminSettings).token
    if token is None:
        fail("--url requires the admin token of the server; set SKILLSERVE_ADMIN_TOKEN", EXIT_USAGE)
    return reload_at(address, settings.http.path, token.get_secret_value())


def _lines(reloaded: Reloaded) -> list[str]:
    parts = {"added": reloaded.added, "removed": reloaded.removed, "updated": reloaded.updated}
    changed = [f"{what:<8} {one_line(key)}" for what, keys in parts.items() for key in keys]
    states = ", ".join(f"{count} {one_line(state)}" for state, count in reloaded.states.items())
    return [*(changed or ["nothing changed"]), f"{sum(reloaded.states.values())} skills: {states}"]
