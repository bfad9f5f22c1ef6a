"""Examine each client: its configuration, the server as it starts it, and the last error that it has logged."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.capabilities.connect.changes import connected
from server.capabilities.connect.clients import ClientFile, HttpServer, LocalServer, known_clients
from server.capabilities.connect.trial import try_server
from server.capabilities.doctor.patient import guarded
from server.capabilities.doctor.symptoms import Kind, Symptom, found, good
from server.cli.serve_options import parse_plain_options
from server.config.values import home_path
from server.wire.address import Address, AddressError
from skills_core.disk.files import open_to_read
from skills_core.disk.sources import directory_error

if TYPE_CHECKING:
    from server.capabilities.doctor.patient import Patient

_LOG_BYTES: Final = 200_000
# Logs grow for months; of the end, only so much is read.

NEEDS_PYTHON: Final = "skillserve needs Python"
"""What skillserve says where an earlier Python starts it."""


def clients(patient: Patient) -> Iterator[Symptom]:
    """Which clients are installed, whether they have this server, and whether it answers as they start it."""
    home = patient.machine.places.home
    count = 0
    for client in known_clients().values():
        try:
            is_installed = client.is_installed(home, patient.environment)
        except OSError as error:
            yield found(Kind.CLIENT_FILE_BROKEN, f"{client.title}: {error}")
            is_installed = False
            count += 1
        if is_installed:
            count += 1
            yield from guarded(_client(client, patient), client.title)
    if not count:
        yield found(Kind.NO_CLIENT, "no client that is known is installed")


def _client(client: ClientFile, patient: Patient) -> Iterator[Symptom]:
    home = patient.machine.places.home
    servers = connected(client, home)
    if isinstance(servers, str):
        yield found(Kind.CLIENT_FILE_BROKEN, f"{client.title}: {servers}")
        return
    if not servers:
        yield found(Kind.CLIENT_NOT_CONNECTED, f"{client.title} does not have this server", client=client.key)
    for name, (server, is_on) in servers.items():
        what = f"{client.title}: {name}"
        if not is_on:
            yield found(Kind.CLIENT_SWITCHED_OFF, f"{what} is switched off in {client.file(home, patient.environment)}")
        elif isinstance(server, HttpServer):
            yield from _address(client, what, server)
        else:
            yield from _command(client, what, server, home)
        if log := client.log_file(name, home, patient.environment):
            yield from _log(what, log)


def _address(client: ClientFile, what: str, server: HttpServer) -> Iterator[Symptom]:
    """Yield where a client finds a server; its headers are the client's, so that it is not asked here."""
    try:
        shown = Address.parse(server.url).shown
    except AddressError as error:
        yield found(Kind.CLIENT_FILE_BROKEN, f"{what}: {error}", client=client.key)
    else:
        yield good(f"{what} uses {shown}, which was not asked: skillserve doctor {shown}")


def _command(client: ClientFile, what: str, server: LocalServer, home: Path) -> Iterator[Symptom]:
    program = shutil.which(server.command)
    if program is None:
        message = f"{what}: {server.command} does not exist, or cannot be executed"
        yield found(Kind.CLIENT_COMMAND_MISSING, message, client=client.key)
        return
    if not Path(server.command).is_absolute():
        message = f"{what}: {server.command} is named without its folder"
        yield found(Kind.CLIENT_COMMAND_RELATIVE, message, client=client.key)
    if not Path(program).is_absolute():
        # It is another program in each working directory, and in this one perhaps a stranger's.
        return
    unusable = [*_folders(client, what, server)]
    yield from unusable
    # In the working directory, which may be a stranger's, `python -m server` would find its modules.
    trial = try_server(server, home)
    message = "; ".join(line.strip() for line in trial.message.splitlines())
    if not trial.works:
        kind = Kind.PYTHON_TOO_OLD if NEEDS_PYTHON in message else Kind.CLIENT_NO_ANSWER
        yield found(kind, f"{what} does not answer as it should: {message}", client=client.key)
    elif not unusable:
        yield good(f"{what} answers ({message})")


def _folders(client: ClientFile, what: str, server: LocalServer) -> Iterator[Symptom]:
    """Yield which folders of the command cannot be used; the server stays without them, and answers."""
    start = server.args.index("serve") + 1 if "serve" in server.args else len(server.args)
    parsed = parse_plain_options(server.args[start:])
    for directory in () if parsed is None else parsed[0]:
        folder = home_path(directory)
        if not folder.is_absolute():
            message = f"{what}: the folder {folder} is named without the folders above it"
            yield found(Kind.CLIENT_FOLDER_RELATIVE, message, client=client.key)
        elif error := directory_error(folder):
            yield found(Kind.CLIENT_FOLDER_MISSING, f"{what}: {error}", client=client.key)


def _log(what: str, log: Path) -> Iterator[Symptom]:
    try:
        line = _last_error(log)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield found(Kind.CLIENT_LOG_UNREADABLE, f"{what}: {log}: {(error.strerror or str(error)).lower()}", log=log)
        return
    if line:
        yield found(Kind.CLIENT_LOGGED_ERROR, f"{what}: logged: {line}", log=log)


def _last_error(log: Path) -> str:
    """Return the last line of a log that tells of an error; an empty text if there is none, or it is not a file.

    Raises:
        OSError: the log cannot be read.
    """
    with os.fdopen(open_to_read(log, follows_links=True), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return ""
        file.seek(max(0, status.st_size - _LOG_BYTES))
        lines = file.read(_LOG_BYTES).decode("utf-8", errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if "error" in line.lower()), "")
