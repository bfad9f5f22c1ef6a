"""The commands `reload` and `watch`: they reach a running server by its socket, or over HTTP with the admin token."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple
from urllib.parse import urlsplit

import msgspec
import typer

from server.capabilities.operation.settings import REFUSALS, RELOAD_PATH, AdminSettings
from server.cli.admin_requests import ask_by_socket, post, run_with_sockets
from server.cli.commands.options import AsJson
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_text
from server.config.machine import current_places, runtime_folders
from server.config.settings.layers import load_settings
from server.config.settings.model import Settings
from skills_core.diagnostics import Reason, one_line

if TYPE_CHECKING:
    from server.capabilities.operation.watching import Target
    from server.wire.address import Address
    from server.wire.http_client import HttpAnswer


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
    from server.wire.http_client import HttpCallError

    address, shown, proxy, headers = _over_http(url, settings, RELOAD_PATH)
    try:
        return post(address, proxy=proxy, headers=headers)
    except HttpCallError as error:
        told = "" if error.reason is Reason.TOO_LARGE else " cannot be reached"
        fail(f"{shown}{told}: {error}", EXIT_NO)


class _Reached(NamedTuple):
    """How to reach a path of a server: its address without secrets is `shown`."""

    address: Address
    shown: str
    proxy: str | None
    headers: Mapping[str, str]


def _over_http(url: str, settings: Settings, path: str) -> _Reached:
    """Return how to reach `path` of the server at `url`, which may end in the path of its MCP endpoint."""
    from server.wire.address import Address

    given = Address.parse(url)
    token = settings.section(AdminSettings).token
    if token is None:
        fail("--url requires the admin token of the server; set SKILLSERVE_ADMIN_TOKEN", EXIT_USAGE)
    parts = urlsplit(url)
    base = parts.path.rstrip("/").removesuffix(settings.http.path.rstrip("/"))
    address = Address.parse(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{base}{path}")
    return _Reached(address, given.shown, given.proxy, {"Authorization": f"Bearer {token.get_secret_value()}"})


def _parse(answer: HttpAnswer) -> _Reloaded:
    refusals = {**REFUSALS, 500: "the reload failed and the skills are unchanged; the server's log says why"}
    if answer.status != 200:  # noqa: PLR2004 - OK
        fail(refusals.get(answer.status, f"the server answered with HTTP {answer.status}"), EXIT_NO)
    try:
        return msgspec.json.decode(answer.body, type=_Reloaded)
    except (msgspec.DecodeError, UnicodeDecodeError):
        fail("the server at this address is not skillserve", EXIT_NO)


def _lines(reloaded: _Reloaded) -> list[str]:
    parts = {"added": reloaded.added, "removed": reloaded.removed, "updated": reloaded.updated}
    changed = [f"{what:<8} {one_line(key)}" for what, keys in parts.items() for key in keys]
    states = ", ".join(f"{count} {one_line(state)}" for state, count in reloaded.states.items())
    return [*(changed or ["nothing changed"]), f"{sum(reloaded.states.values())} skills: {states}"]


def watch(
    *,
    port: Annotated[
        int | None,
        typer.Option(metavar="PORT", help="The port of a server on this machine.", show_default="all of your servers"),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The URL of a server; set SKILLSERVE_ADMIN_TOKEN to its admin token."),
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Print a line for each event.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each event, one a line.")] = False,
) -> None:
    """Show uses, edits, refusals and schedules as they happen."""
    from server.capabilities.operation.watch_screen import print_events, show_screen
    from server.capabilities.operation.watching import WatchError

    settings = load_settings({"port": port}, os.environ, current_places().config_home)
    if url is not None and port is not None:
        fail("--port and --url exclude each other; give one of them", EXIT_USAGE)
    targets = _targets(port, url, settings)
    is_one = port is not None or url is not None
    lines = plain or as_json or not sys.stdout.isatty()
    show = partial(print_events, as_json=as_json) if lines else show_screen
    try:
        run_with_sockets(partial(show, targets, is_one=is_one))
    except* KeyboardInterrupt:
        pass
    except* WatchError as refused:
        fail(str(_first_of(refused)), EXIT_NO)


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return an error in a group, which may hold further groups."""
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first


def _targets(port: int | None, url: str | None, settings: Settings) -> list[Target]:
    """Return the servers to watch: the named one, or all of this user on this machine."""
    from server.capabilities.operation.settings import EVENTS_PATH
    from server.capabilities.operation.watching import Target, found_servers, target_of_socket
    from server.transport.admin_sockets import sockets_of

    if url is not None:
        reached = _over_http(url, settings, EVENTS_PATH)
        return [Target(reached.shown, reached.address.url, None, reached.headers, reached.proxy)]
    if sys.platform == "win32":
        fail("Windows has no local control socket; name the server with --url", EXIT_USAGE)
    if port is not None:
        sockets = [path for path in sockets_of(runtime_folders(), port) if path.exists()]
        if not sockets:
            fail(f"port {port}: none of your servers on this machine has a socket for this port", EXIT_NO)
        return [target_of_socket(sockets[0])]
    targets = found_servers()
    if not targets:
        fail("none of your servers runs on this machine; start one, or name a server elsewhere with --url", EXIT_NO)
    return targets
