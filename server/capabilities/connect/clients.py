"""The clients that keep their servers in a file: where it is, how it is written, and what an entry looks like.

The facts are data (`clients.json`).
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from server.capabilities.connect.documents import DocumentFormat

_VARIABLE: Final = re.compile(r"\$\{(\w+):-([^}]*)\}|%(\w+)%")

FilePath = str | dict[str, str]
"""A path that is the same everywhere, or one for each `sys.platform`."""


class ClientFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of one client.

    `user` and `project` are its files, `path` are the keys that lead to its servers, which are a table, or a list if
    they are `in_list`. `stdio` and `http` are entries with placeholders; without `http`, the file holds programs alone.
    `program` is its command, `next` what its user does after a change, and `log` where it writes what a server says.
    """

    key: str
    title: str
    user: FilePath
    project: str | None = None
    format: DocumentFormat
    path: tuple[str, ...]
    in_list: bool = False
    stdio: dict[str, Any]
    http: dict[str, Any] | None = None
    program: str | None = None
    next: str = ""
    log: FilePath | None = None

    def file(self, home: Path, environment: Mapping[str, str]) -> Path | None:
        """Return the user's file, None if the client does not run on this system."""
        return _resolved(self.user, home, environment)

    def log_file(self, name: str, home: Path, environment: Mapping[str, str]) -> Path | None:
        """Return where the client logs what the server `name` says, None if that is not known."""
        found = None if self.log is None else _resolved(self.log, home, environment)
        return None if found is None else Path(str(found).replace("{name}", name))

    def is_installed(self, home: Path, environment: Mapping[str, str]) -> bool:
        """Tell whether the client seems to be here: its program is on the path, or its folder exists."""
        if self.program is not None and shutil.which(self.program, path=environment.get("PATH")):
            return True
        file = self.file(home, environment)
        return file is not None and file.parent != home and file.parent.is_dir()


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server that a client starts: the program by its absolute path, and its arguments."""

    command: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server at an address, and the headers that a client sends to it."""

    url: str
    headers: Mapping[str, str]


def known_clients() -> dict[str, ClientFile]:
    """Return the clients by their keys."""
    raw = Path(__file__).with_name("clients.json").read_bytes()
    return {each.key: each for each in msgspec.json.decode(raw, type=list[ClientFile])}


def entry_for(client: ClientFile, name: str, server: LocalServer | HttpServer) -> dict[str, Any] | None:
    """Return the entry of a server in the file of a client, None if the file cannot hold such a server."""
    if isinstance(server, LocalServer):
        values: dict[str, object] = {
            "{command}": server.command,
            "{args}": [*server.args],
            "{command_line}": [server.command, *server.args],
            "{name}": name,
        }
        return _filled(client.stdio, values)
    if client.http is None:
        return None
    return _filled(client.http, {"{url}": server.url, "{headers}": dict(server.headers), "{name}": name})


def deeplink(client: ClientFile, name: str, entry: Mapping[str, Any] | None) -> str | None:
    """Return a link that asks the client to add the entry, None if the client has none."""
    if entry is None:
        return None
    if client.key == "cursor":
        config = base64.b64encode(json.dumps(entry).encode()).decode()
        return f"cursor://anysphere.cursor-deeplink/mcp/install?name={quote(name)}&config={quote(config, safe='')}"
    if client.key == "vscode":
        return f"vscode:mcp/install?{quote(json.dumps({'name': name, **entry}), safe='')}"
    return None


def _filled(template: Mapping[str, Any], values: Mapping[str, object]) -> dict[str, Any]:
    filled = {key: values.get(each, each) if isinstance(each, str) else each for key, each in template.items()}
    return {key: each for key, each in filled.items() if not (template[key] == "{headers}" and not each)}


def _resolved(path: FilePath, home: Path, environment: Mapping[str, str]) -> Path | None:
    system = "linux" if sys.platform not in {"darwin", "win32"} else sys.platform
    text = path if isinstance(path, str) else path.get(system)
    if text is None:
        return None

    def value(found: re.Match[str]) -> str:
        name, default = (found[1], found[2]) if found[1] else (found[3], "")
        return environment.get(name) or default

    text = _VARIABLE.sub(value, text)
    return home / text.removeprefix("~/") if text.startswith("~/") else Path(text)


def own_command(words: Sequence[str]) -> LocalServer:
    """Return the server that a client starts with these words: this program by its absolute path."""
    program = Path(os.path.abspath(sys.argv[0]))  # noqa: PTH100 - `resolve` would follow the link of an installation
    if program.is_file() and os.access(program, os.X_OK) and program.stem == "skillserve":
        return LocalServer(str(program), tuple(words))
    return LocalServer(sys.executable, ("-m", "server", *words))
