"""Plan and make the changes of clients' configuration files."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from server.capabilities.bridge.clients import BridgedClient, bridged_clients
from server.capabilities.connect.clients import (
    HEADER_VARIABLE,
    ClientFile,
    HttpServer,
    LocalServer,
    entry_for,
    known_clients,
    this_server,
    unsupported_variables,
)
from server.capabilities.connect.documents import DocumentError, entry_at, read_document, with_entry, without_entry
from server.config.machine import current_places
from server.transport.client_commands import USUAL_NAME
from skills_core.diagnostics import one_line
from skills_core.disk.files import MAX_FILE_SIZE, Location, read_bounded
from skills_core.disk.sources import real_path
from skills_core.disk.writing import PRIVATE, exclusive_folder, write_file
from skills_core.errors import FileRefusedError, FileUnavailableError

_BACKUP: Final = ".before-skillserve"
_ADDRESS_KEYS: Final = ("url", "httpUrl", "serverUrl", "uri")
_ENVIRONMENT_KEYS: Final = ("env", "environment", "envs")


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one file: what it is before and after, or why it cannot be changed; and maybe of its stubs.

    `before` is None for a file that does not exist, `after` is None for one that is removed. `home` is the folder below
    which folders that are left empty are removed.
    """

    client: ClientFile
    name: str
    file: Path
    home: Path
    server: LocalServer | HttpServer
    entry: Mapping[str, Any] | None = None
    removes: bool = False
    before: str | None = None
    after: str | None = None
    fault: str = ""
    notes: tuple[str, ...] = ()
    bridged: BridgedClient | None = None

    @property
    def differs(self) -> bool:
        """Whether there is anything to write."""
        return not self.fault and self.before != self.after

    @property
    def backup(self) -> Path:
        """Where the file as it was before the first change is kept; a file that was not there has none."""
        return self.file.with_name(f"{self.file.name}{_BACKUP}")

    @property
    def path(self) -> tuple[str, ...]:
        """The keys that lead to the entry."""
        return (*self.client.path, self.name)

    @property
    def next(self) -> str:
        """What the user does after the change."""
        if self.removes:
            return f"{self.client.title} forgets it at its next start"
        is_own = self.home == current_places().home
        return (not is_own and self.client.project_next) or self.client.next

    def text(self) -> str:
        """Return what people see: the client, the file, and the difference; the file may be hostile."""
        head = one_line(f"{self.client.title}: {self.file}")
        if self.fault:
            return f"{head}\n  {one_line(self.fault)}; nothing was changed"
        if not self.differs:
            return f"{head}\n  nothing to change"
        before, after = (text.splitlines() if text else [] for text in (self.before, self.after))
        # Lines of other servers around it may hold their tokens.
        lines = [one_line(line) for line in difflib.unified_diff(before, after, lineterm="", n=0)][2:]
        return "\n".join([head, *(f"  {line}" for line in [*lines, *map(one_line, self.notes)])])


def plan(
    chosen: Sequence[ClientFile],
    folders: Iterable[Path],
    name: str,
    *,
    url: str | None = None,
    headers: Mapping[str, str] | None = None,
    project: bool = False,
    remove: bool = False,
    bridge: bool | None = None,
) -> list[Change]:
    """Return the change for each chosen client; without any, for each one that is installed.

    `bridge` says whether clients get stubs of the skills; None is as the measurements of each client recommend.
    """
    home = current_places().home
    clients = chosen or [each for each in known_clients().values() if each.is_installed(home, os.environ)]
    root = Path.cwd() if project else home
    # Clients start the server in any working directory.
    words = ["serve", *(str(folder.absolute()) for folder in folders)]

    def change(client: ClientFile) -> Change:
        bridged = None if project or url is not None else _bridged(client, bridge, remove=remove)
        server: LocalServer | HttpServer
        if url is not None:
            server = HttpServer(url, headers or {})
        else:
            kept_alive = ["--keep-alive"] if client.keep_alive else []
            server = this_server([*words, *kept_alive, *_bridge_words(bridged, name)])
        return _for_client(client, name, server, root, project=project, remove=remove, bridged=bridged)

    planned = map(change, clients)
    # Who names no client wants those that have such a file.
    return [each for each in planned if chosen or each.file != root]


def _bridged(client: ClientFile, bridge: bool | None, *, remove: bool) -> BridgedClient | None:  # noqa: FBT001
    """Return the client if it gets stubs, or may have some that are removed."""
    found = bridged_clients().get(client.key)
    wanted = remove or (bridge if bridge is not None else found is not None and found.default)
    return found if wanted else None


def _bridge_words(bridged: BridgedClient | None, name: str) -> list[str]:
    named = [] if name == USUAL_NAME else ["--server-name", name]
    return [] if bridged is None else ["--bridge", bridged.key, *named]


def _for_client(
    client: ClientFile,
    name: str,
    server: LocalServer | HttpServer,
    root: Path,
    *,
    project: bool,
    remove: bool,
    bridged: BridgedClient | None,
) -> Change:
    file = client.project_file(root) if project else client.file(root, os.environ)
    if file is None:
        fault = f"{client.title} reads no file {'of a project' if project else 'of a user; add --project'}"
        return Change(client, name, root, root, server, fault=fault)
    return _planned(
        Change(client, name, file, root, server, entry_for(client, name, server), removes=remove, bridged=bridged)
    )


def apply(change: Change) -> Change:
    """Make a change in the file as it is now, and return the change that was made; `fault` says why none was.

    The file as it was before the first change is kept beside it until the server is removed again. A folder is locked
    meanwhile, so that of two changes at once the second one is made in what the first has left.
    """
    folder = change.file.parent
    try:
        if not change.removes:
            folder.mkdir(parents=True, exist_ok=True)
        with exclusive_folder(folder):
            now = _planned(change)
            if now.differs:
                _write(now)
    except FileRefusedError as error:
        return replace(change, fault=f"{folder}{os.sep}{error}")
    except OSError as error:
        return replace(change, fault=f"{folder}: {error.strerror or error}")
    if now.after is None and not now.fault:
        _remove_empty(folder, change.home)
    return now


def _write(change: Change) -> None:
    folder = change.file.parent
    if change.after is None:
        change.file.unlink()
        change.backup.unlink(missing_ok=True)
        return
    if not change.removes:
        _back_up(change)
    is_shared = change.home != current_places().home and not _secret_headers(change)
    mode = 0o666 if is_shared else PRIVATE
    write_file(Location(folder, change.file.name), change.after.encode("utf-8"), mode, durable=True)
    if change.removes and not _servers_in(read_document(change.after, change.client.format), change.client):
        change.backup.unlink(missing_ok=True)


def _back_up(change: Change) -> None:
    """Keep the file as it is without this server; a copy of an earlier file that is left over is replaced."""
    if change.before is None:
        change.backup.unlink(missing_ok=True)
        return
    document = read_document(change.before, change.client.format)
    is_first = entry_at(document, change.path) is None and not _servers_in(document, change.client)
    if is_first or not os.path.lexists(change.backup):
        # Readable for its owner alone: such files hold tokens of other servers.
        write_file(Location(change.file.parent, change.backup.name), change.before.encode("utf-8"), PRIVATE)


def _remove_empty(folder: Path, home: Path) -> None:
    """Remove the folders below `home` that have become empty."""
    with suppress(OSError, ValueError):
        while folder.relative_to(home).parts:
            folder.rmdir()
            folder = folder.parent


def _planned(change: Change) -> Change:
    """Return a change with what the file is now, and what it would be."""
    client, change = change.client, replace(change, before=None, after=None, fault="", notes=())
    if change.entry is None and not change.removes:
        return replace(change, fault=f"{client.title} cannot connect to an address by its file")
    if missing := unsupported_variables(client, change.server):
        fault = (
            f"{client.title} reads no environment variables in headers ({', '.join(missing)}); give the value itself"
        )
        return replace(change, fault=fault)
    try:
        if obstacle := _way_out(change) or _obstacle(change):
            return replace(change, fault=obstacle)
        before = _text(change.file)
        if change.removes:
            return _without(replace(change, before=before))
        after = with_entry(before or "", client.format, change.path, change.entry or {}, in_list=client.in_list)
        change = replace(change, before=before, after=after)
        return replace(change, notes=tuple(_notes(change)))
    except (DocumentError, FileRefusedError, FileUnavailableError) as error:
        return replace(change, fault=str(error))


def _way_out(change: Change) -> str | None:
    """Return why a link among the folders must not be followed: a stranger's project may link to the user's files."""
    folder = real_path(change.file.parent)
    if change.home == current_places().home or folder.is_relative_to(real_path(change.home)):
        return None
    return f"a link leads out of the project, to {folder}; without --project, your own file is changed"


def _obstacle(change: Change) -> str | None:
    """Return why a file must not be replaced, as a new file takes the place of the old one."""
    try:
        status = change.file.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    by_hand = f"`skillserve connect {change.client.key} --print` shows what to write there"
    if stat.S_ISLNK(status.st_mode):
        return f"this is a link to {change.file.readlink()}; change that file by hand: {by_hand}"
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        return f"the file belongs to another user ({status.st_uid}): run this command as that user"
    if not status.st_mode & stat.S_IWUSR:
        return "the file is write-protected; if it may change, allow it with `chmod u+w`"
    return None


def _notes(change: Change) -> Iterator[str]:
    """Yield what a user should know before a change."""
    if not change.differs:
        return
    found = entry_at(read_document(change.before or "", change.client.format), change.path)
    if found is not None and found != change.entry:
        yield f"{change.name} is there already, with other settings: this replaces it"
    if change.bridged is not None:
        place = one_line(str(change.bridged.place(change.home)))
        yield f"and a stub of each skill in {place}, for its own list of skills; --no-bridge leaves them out"
    for name in _secret_headers(change):
        form = "" if change.client.variable is None else f"; {name}: ${{VARIABLE}} lets the client read it elsewhere"
        yield f"the value of {name} will be in this file as plain text{form}"
    if _secret_headers(change) and os.name != "nt" and change.before is not None and change.file.stat().st_mode & 0o077:
        yield "other users of this machine may open this file: `chmod 600` makes it yours alone"


def _secret_headers(change: Change) -> list[str]:
    headers = change.server.headers if isinstance(change.server, HttpServer) else {}
    return [name for name, value in headers.items() if not HEADER_VARIABLE.search(value)]


def _without(change: Change) -> Change:
    """Return the change that removes the server: the file as it was, if nothing else has changed since."""
    if change.before is None:
        return change
    found = entry_at(read_document(change.before, change.client.format), change.path)
    if found is None:
        return replace(change, after=change.before)
    if found != change.entry and _server_of(found) is None and _address_of(found) is None:
        other = f"{change.name} starts another program there, not skillserve"
        return replace(change, fault=f"{other}; give the name of this server with --name, or remove that one by hand")
    earlier, after = _text(change.backup), _removed(change, change.before)
    if earlier is None:
        # The file was not there before. What has comments is somebody's work.
        is_empty = after.removeprefix("\ufeff").strip() in {"", "{}"}
        return replace(change, after=None if is_empty else after)
    with suppress(DocumentError):
        entry = found if isinstance(found, dict) else {}
        again = with_entry(earlier, change.client.format, change.path, entry, in_list=change.client.in_list)
        if _removed(change, again) == after:
            after = earlier
    return replace(change, after=after)


def _removed(change: Change, text: str) -> str:
    """Return a text without the entry, or with the one that this entry has replaced."""
    client, earlier = change.client, _text(change.backup)
    document = read_document(earlier or "", client.format)
    replaced = entry_at(document, change.path)
    found = entry_at(read_document(text, client.format), change.path)
    if isinstance(replaced, dict) and replaced != found and _server_of(replaced) is None:
        return with_entry(text, client.format, change.path, replaced, in_list=client.in_list)
    return without_entry(text, client.format, change.path, drops_empty=entry_at(document, client.path) is None)


def _text(file: Path) -> str | None:
    content = read_bounded(file, MAX_FILE_SIZE)
    if content is None:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DocumentError(f"line {line}: the file is not UTF-8") from None


class Connection(NamedTuple):
    """What the file of a client says of one server; the client may have switched it off."""

    server: LocalServer | HttpServer
    is_on: bool


def connected(client: ClientFile, home: Path) -> dict[str, Connection] | str:
    """Return the connections to skillserve in a client's file, by name; or why the file cannot be read.

    What runs at an address is not known: it counts if it has the name that `connect` gives.
    """
    file = client.file(home, os.environ)
    try:
        text = None if file is None else _text(file)
        document = read_document(text or "", client.format)
    except (DocumentError, FileRefusedError, FileUnavailableError) as error:
        return f"{file}: {error}"
    found: dict[str, Connection] = {}
    for name, entry in _entries_in(document, client).items():
        address = _address_of(entry) if name == USUAL_NAME else None
        server = HttpServer(address, {}) if address is not None else _server_of(entry)
        if server is not None:
            found[name] = Connection(server, entry.get("disabled") is not True and entry.get("enabled") is not False)
    return found


def _servers_in(document: Mapping[str, Any], client: ClientFile) -> dict[str, LocalServer]:
    """Return the servers in a document that start skillserve, by name."""
    found = ((name, _server_of(entry)) for name, entry in _entries_in(document, client).items())
    return {name: server for name, server in found if server is not None}


def _entries_in(document: Mapping[str, Any], client: ClientFile) -> dict[str, dict[str, Any]]:
    """Return the entries of all servers in a document, by name."""
    servers = entry_at(document, client.path)
    if isinstance(servers, list):
        servers = {each.get("name"): each for each in servers if isinstance(each, dict)}
    if not isinstance(servers, dict):
        return {}
    return {str(name): entry for name, entry in servers.items() if isinstance(entry, dict)}


def _server_of(entry: object) -> LocalServer | None:
    """Return the program of an entry that starts skillserve, None for any other entry."""
    if not isinstance(entry, dict):
        return None
    command, args = entry.get("command", entry.get("cmd")), entry.get("args", [])
    words = [*command] if isinstance(command, list) else [command, *args] if isinstance(args, list) else []
    if not words or not all(isinstance(word, str) for word in words):
        return None
    is_module = ["-m", "server"] in (words[1:3], words[2:4] if words[1:2] == ["-P"] else [])
    starts_us = Path(words[0]).stem == "skillserve" or is_module or "skillserve" in words[1:4]
    return LocalServer(words[0], tuple(words[1:]), _environment_of(entry)) if starts_us else None


def _environment_of(entry: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the variables that a client sets; those with references, such as `${TOKEN}`, only the client knows."""
    given: Mapping[str, Any] = next((entry[key] for key in _ENVIRONMENT_KEYS if isinstance(entry.get(key), dict)), {})
    return tuple((name, value) for name, value in given.items() if isinstance(value, str) and "${" not in value)


def _address_of(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return None
    return next((entry[key] for key in _ADDRESS_KEYS if isinstance(entry.get(key), str)), None)
