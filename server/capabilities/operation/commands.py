"""The command `reload`: make a running server reload its skills, by its socket or over HTTP with the admin token."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import msgspec
import typer

from server.capabilities.operation.admin_requests import ask_by_socket, post
from server.capabilities.operation.settings import RELOAD_PATH, AdminSettings
from server.cli.commands.options import AsJson
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_text
from server.config.machine import current_places
from server.config.settings.layers import load_settings
from server.config.settings.model import Settings
from skills_core.diagnostics import Reason, one_line

if TYPE_CHECKING:
    from server.wire.http_client import HttpAnswer

_REFUSALS = {
    401: "the server does not accept this token; SKILLSERVE_ADMIN_TOKEN must be the same here and for the server",
    404: "the server has no admin endpoint over HTTP, or a proxy denies it; set SKILLSERVE_ADMIN_TOKEN where the server"
    " runs, or ask it there",
    421: "the server does not accept this host name; allow it where the server runs, with --allowed-host",
    500: "the reload failed and the skills are unchanged; the server's log says why",
}


class _Reloaded(msgspec.Struct, frozen=True):
    """What a reload changed: the keys of the skills, their counts, and how many skills are in each state."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    updated: tuple[str, ...]
    counts: dict[str, int]
    states: dict[str, int]


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
    settings = load_settings({"port": port}, os.environ, current_places().config_home)
    if url is not None and port is not None:
        fail("--port and --url exclude each other; give one of them", EXIT_USAGE)
    if url is None:
        answer = ask_by_socket(settings.http.port, RELOAD_PATH, "name the server with --url")
    else:
        answer = _ask_over_http(url, settings)
    reloaded = _parse(answer)
    if as_json:
        print_json(msgspec.to_builtins(reloaded))
    else:
        print_text("\n".join(_lines(reloaded)))


def _ask_over_http(url: str, settings: Settings) -> HttpAnswer:
    """Ask the server at `url`, which may end in the path of its MCP endpoint."""
    from server.wire.address import Address
    from server.wire.http_client import HttpCallError

    given = Address.parse(url)
    token = settings.section(AdminSettings).token
    if token is None:
        fail("--url requires the admin token of the server; set SKILLSERVE_ADMIN_TOKEN", EXIT_USAGE)
    parts = urlsplit(url)
    base = parts.path.rstrip("/").removesuffix(settings.http.path.rstrip("/"))
    address = Address.parse(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{base}{RELOAD_PATH}")
    headers = {"Authorization": f"Bearer {token.get_secret_value()}"}
    try:
        return post(address, proxy=given.proxy, headers=headers)
    except HttpCallError as error:
        told = "" if error.reason is Reason.TOO_LARGE else " cannot be reached"
        fail(f"{given.shown}{told}: {error}", EXIT_NO)


def _parse(answer: HttpAnswer) -> _Reloaded:
    if answer.status != 200:  # noqa: PLR2004 - OK
        fail(_REFUSALS.get(answer.status, f"the server answered with HTTP {answer.status}"), EXIT_NO)
    try:
        return msgspec.json.decode(answer.body, type=_Reloaded)
    except (msgspec.DecodeError, UnicodeDecodeError):
        fail("the server at this address is not skillserve", EXIT_NO)


def _lines(reloaded: _Reloaded) -> list[str]:
    parts = {"added": reloaded.added, "removed": reloaded.removed, "updated": reloaded.updated}
    changed = [f"{what:<8} {one_line(key)}" for what, keys in parts.items() for key in keys]
    states = ", ".join(f"{count} {one_line(state)}" for state, count in reloaded.states.items())
    return [*(changed or ["nothing changed"]), f"{sum(reloaded.states.values())} skills: {states}"]
