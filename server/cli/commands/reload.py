"""The command `reload`. What speaks to servers is imported only when it runs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.commands.options import AsJson
from server.cli.console import NO, WRONG_USE, fail, print_json, print_text
from server.config.machine import current_places, runtime_folders
from server.config.settings import Settings, load_settings
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from server.admin.client import Reloaded

__all__ = ["reload"]


def reload(
    *,
    port: Annotated[int | None, typer.Option(help="The port of a server on this machine; 8000 by default.")] = None,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where a server is; its token is in SKILLSERVE_ADMIN_TOKEN.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let a running server compare everything with the disk, and say what changed."""
    from server.admin.client import NoServerAnswerError

    settings = load_settings({"port": port}, os.environ, current_places().config_home)
    if url is not None and port is not None:
        fail("--port is for a server on this machine, --url for any; give one of them", WRONG_USE)
    try:
        done = _by_socket(settings) if url is None else _over_http(url, settings)
    except NoServerAnswerError as error:
        fail(str(error), NO)
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        print_text("\n".join(_lines(done)))


def _by_socket(settings: Settings) -> Reloaded:
    from server.admin.client import reload_by_socket
    from server.admin.sockets import sockets_of

    if sys.platform == "win32":
        fail("this system has no sockets for this; name the server with --url", WRONG_USE)
    return reload_by_socket(sockets_of(runtime_folders(), settings.port), settings.port)


def _over_http(url: str, settings: Settings) -> Reloaded:
    from server.admin.client import reload_at
    from server.remote.address import Address

    address = Address.parse(url)
    if settings.admin_token is None:
        fail("--url needs the token of the server; set SKILLSERVE_ADMIN_TOKEN", WRONG_USE)
    return reload_at(address, settings.path, settings.admin_token.get_secret_value())


def _lines(done: Reloaded) -> list[str]:
    parts = {"added": done.added, "removed": done.removed, "updated": done.updated}
    changed = [f"{what:<8} {one_line(key)}" for what, keys in parts.items() for key in keys]
    states = ", ".join(f"{count} {one_line(state)}" for state, count in done.states.items())
    return [*(changed or ["nothing changed"]), f"{sum(done.states.values())} skills: {states}"]
