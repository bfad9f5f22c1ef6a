"""The tab `Connect`: how a visitor adds the server at this very address to each client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from server.capabilities.connect.clients import SYSTEMS, ClientFile, HttpServer, deeplink, entry_for, known_clients
from server.capabilities.connect.documents import with_entry
from server.capability import PageParts, PageTab
from server.transport.client_commands import (
    TOKEN_HEADER,
    USUAL_NAME,
    TerminalCommand,
    connect_command,
    login_header,
    terminal_commands,
)
from server.transport.listening import requires_login

if TYPE_CHECKING:
    from server.capability import Visit
    from server.config.settings.model import Settings
    from server.hosting.host import Host


class ClientWay(NamedTuple):
    """How a client gets the server by hand: in its files, which text; and by a link, None if it has none.

    `files` are the places of its file, each with the systems that have it there. `text` is None if the file holds
    programs alone.
    """

    key: str
    title: str
    files: tuple[tuple[str, str], ...]
    text: str | None
    link: str | None
    next: str


class Ways(NamedTuple):
    """How to connect to an address: by commands in a terminal, and for each client by hand or by a link."""

    commands: tuple[TerminalCommand, ...]
    clients: tuple[ClientWay, ...]


def page_parts(host: Host) -> PageParts:
    """Return the tab, which all visitors see."""

    def show(visit: Visit) -> Mapping[str, Any]:
        return connect_values(host.settings, visit)

    return PageParts(tabs=(PageTab("connect", "Connect", "connect/connect.html", show, operators=False),))


def connect_values(settings: Settings, visit: Visit) -> Mapping[str, Any]:
    """Return the values for the template."""
    header = TOKEN_HEADER if login_header(settings) else ""
    endpoint = visit.address.endpoint
    return {
        "endpoint": endpoint,
        "ways": _ways(endpoint, header),
        "needs_token": bool(header),
        "logs_in": requires_login(settings) and not header,
    }


@lru_cache(maxsize=16)
def _ways(endpoint: str, header: str) -> Ways:
    """Return the ways to an address; visitors of one server come by few of its names."""
    name, _, value = header.partition(": ")
    server = HttpServer(endpoint, {name: value} if header else {})
    ours = TerminalCommand("Every client on this machine, with skillserve", connect_command(endpoint, header))
    commands = (*terminal_commands(endpoint, header), ours)
    return Ways(commands, tuple(_way(client, server) for client in known_clients().values()))


def _way(client: ClientFile, server: HttpServer) -> ClientWay:
    entry = entry_for(client, USUAL_NAME, server)
    path = (*client.path, USUAL_NAME)
    text = None if entry is None else with_entry("", client.format, path, entry, in_list=client.in_list).rstrip()
    link = deeplink(client, USUAL_NAME, entry)
    return ClientWay(client.key, client.title, tuple(_files(client)), text, link, client.next)


def _files(client: ClientFile) -> Iterator[tuple[str, str]]:
    if isinstance(client.user, str):
        yield "", client.user
    else:
        yield from ((SYSTEMS.get(system, system), file) for system, file in client.user.items())
    if client.project is not None:
        yield "one project", client.project
