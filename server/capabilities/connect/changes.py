"""Plan and make the changes of clients' configuration files."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from server.capabilities.connect.clients import (
    ClientFile,
    HttpServer,
    LocalServer,
    entry_for,
    known_clients,
    own_command,
)
from server.capabilities.connect.documents import DocumentError, entry_at, read_document, with_entry, without_entry
from server.config.machine import current_places
from skills_core.disk.files import Location, read_bounded
from skills_core.disk.writing import write_file
from skills_core.errors import FileRefusedError, FileUnavailableError

_BACKUP: Final = ".before-skillserve"
_PRIVATE: Final = 0o600
# Such files hold tokens of other servers.


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one file: what it is before and after, or why it cannot be changed.

    `before` is None for a file that does not exist, `after` is None for one that is removed.
    """

    client: ClientFile
    name: str
    file: Path
    server: LocalServer | HttpServer
    entry: Mapping[str, Any] | None = None
    before: str | None = None
    after: str | None = None
    fault: str = ""

    @property
    def differs(self) -> bool:
        """Whether there is anything to write."""
        return not self.fault and self.before != self.after

    @property
    def backup(self) -> Path:
        """Where the file as it was before the first change is kept."""
        return self.file.with_name(f"{self.file.name}{_BACKUP}")

    def text(self) -> str:
        """Return what people see: the client, the file, and the difference."""
        head = f"{self.client.title}: {self.file}"
        if self.fault:
            return f"{head}\n  {self.fault}"
        if not self.differs:
            return f"{head}\n  nothing to change"
        before, after = (text.splitlines() if text else [] for text in (self.before, self.after))
        lines = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
        return "\n".join([head, *(f"  {line}" for line in lines)])


def plan(
    chosen: Sequence[ClientFile],
    folders: Iterable[Path],
    name: str,
    *,
    url: str | None = None,
    headers: Mapping[str, str] | None = None,
    project: bool = False,
    remove: bool = False,
) -> list[Change]:
    """Return the change for each chosen client; without any, for each one that is installed."""
    home = current_places().home
    clients = chosen or [each for each in known_clients().values() if each.is_installed(home, os.environ)]
    server: LocalServer | HttpServer
    if url is None:
        # Clients start the server in any working directory.
        server = own_command(["serve", *(str(folder.absolute()) for folder in folders)])
    else:
        server = HttpServer(url, headers or {})
    found = (_change(client, name, server, home, project=project, remove=remove) for client in clients)
    return [each for each in found if each is not None]


def apply(change: Change) -> None:
    """Write a change; the file as it was before the first one is kept beside it.

    Raises:
        FileRefusedError: the file, or the folder that it is in, cannot be written.
    """
    root = change.file.parent
    while not root.is_dir():
        root = root.parent
    place = Location(root, change.file.relative_to(root).as_posix())
    if change.after is None:
        change.file.unlink()
        change.backup.unlink(missing_ok=True)
        return
    if not change.backup.exists():
        backup = Location(root, change.backup.relative_to(root).as_posix())
        write_file(backup, (change.before or "").encode("utf-8"), _PRIVATE)
    write_file(place, change.after.encode("utf-8"), _PRIVATE)
    if change.before is not None and _text(change.backup) == change.after:
        change.backup.unlink()


def _change(
    client: ClientFile, name: str, server: LocalServer | HttpServer, home: Path, *, project: bool, remove: bool
) -> Change | None:
    file = client.file(home, os.environ)
    if project:
        file = None if client.project is None else Path.cwd() / client.project
    if file is None:
        return None
    path, entry = (*client.path, name), entry_for(client, name, server)
    if entry is None and not remove:
        fault = f"{client.title} cannot connect to an address by its file"
        return Change(client, name, file, server, fault=fault)
    try:
        if file.is_symlink():
            return Change(
                client, name, file, server, entry, fault=f"this is a link to {file.readlink()}; change that file"
            )
        before = _text(file)
        change = Change(client, name, file, server, entry, before)
        after = _removed(change, path) if remove else _with(before or "", client, path, entry or {})
    except (DocumentError, FileRefusedError, FileUnavailableError) as error:
        return Change(client, name, file, server, entry, fault=f"{error}; nothing was changed")
    return Change(client, name, file, server, entry, before, after)


def _with(text: str, client: ClientFile, path: Sequence[str], entry: Mapping[str, Any]) -> str:
    return with_entry(text, client.format, path, entry, in_list=client.in_list)


def _removed(change: Change, path: Sequence[str]) -> str | None:
    """Return the file without the server: as it was before, if the entry is all that has changed since."""
    if change.before is None:
        return None
    earlier, after = _text(change.backup), without_entry(change.before, change.client.format, path)
    if earlier is not None and change.entry is not None:
        again = _with(earlier, change.client, path, change.entry)
        if again == change.before or without_entry(again, change.client.format, path) == after:
            return earlier or None
    return after


def _text(file: Path) -> str | None:
    content = read_bounded(file)
    if content is None:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise DocumentError("the file is not UTF-8") from None


def connected(client: ClientFile, home: Path) -> dict[str, LocalServer | HttpServer] | str:
    """Return the servers of skillserve in a client's file, by name; or why the file cannot be read."""
    file = client.file(home, os.environ)
    try:
        text = None if file is None else _text(file)
        document = read_document(text or "", client.format)
    except (DocumentError, FileRefusedError, FileUnavailableError) as error:
        return f"{file}: {error}"
    servers = entry_at(document, client.path)
    if isinstance(servers, list):
        servers = {each.get("name"): each for each in servers if isinstance(each, dict)}
    found = {name: _server_of(entry) for name, entry in servers.items()} if isinstance(servers, dict) else {}
    return {str(name): server for name, server in found.items() if server is not None}


def _server_of(entry: object) -> LocalServer | None:
    """Return the program of an entry that starts skillserve, None for any other entry."""
    if not isinstance(entry, dict):
        return None
    command, args = entry.get("command", entry.get("cmd")), entry.get("args", [])
    words = [*command] if isinstance(command, list) else [command, *args] if isinstance(args, list) else []
    if not words or not all(isinstance(word, str) for word in words):
        return None
    starts_us = Path(words[0]).stem == "skillserve" or words[1:3] == ["-m", "server"] or "skillserve" in words[1:4]
    return LocalServer(words[0], tuple(words[1:])) if starts_us else None
