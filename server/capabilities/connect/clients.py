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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from server.capabilities.connect.documents import DocumentFormat
from server.config.values import resolved_path

HEADER_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_]\w*)\}")
"""How a header that a user gives refers to an environment variable."""

SYSTEMS: Final = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
"""The systems that a path may depend on, as Python names them and as people do."""

FilePath = str | dict[str, str]
"""A path that is the same everywhere, or one for each `sys.platform`."""


class ClientFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of one client.

    `user` and `project` are its files; `user_others` and `project_others` are further names that it reads, which count
    if they exist. `path` are the keys that lead to its servers, which are a table, or a list if they are `in_list`.
    `stdio` and `http` are entries with placeholders; without `http`, the file holds programs alone. `variable` is how
    the file refers to the environment variable NAME, None if it cannot.

    `program` is its command and `folder` another sign that it is installed; `next` is what its user does after a
    change, and `project_next` after one of a project's file. `keep_alive` tells that it never starts a server again
    that has ended, so that ours has to do so itself. `log` is where it writes what a server says, and `log_help` how to
    see that; `remarks` are further sentences for its users. `facts` is the client's key in `known_clients.json`,
    `measured` what was seen with `version` of the real client, and `sources` say where all of this comes from.
    """

    key: str
    title: str
    user: FilePath
    user_others: tuple[FilePath, ...] = ()
    project: str | None = None
    project_others: tuple[str, ...] = ()
    format: DocumentFormat
    path: tuple[str, ...]
    in_list: bool = False
    stdio: dict[str, Any]
    http: dict[str, Any] | None = None
    variable: str | None = None
    program: str | None = None
    folder: FilePath | None = None
    keep_alive: bool = False
    next: str = ""
    project_next: str = ""
    log: FilePath | None = None
    log_help: str = ""
    remarks: tuple[str, ...] = ()
    facts: str | None = None
    version: str = ""
    measured: str = ""
    sources: tuple[str, ...] = ()

    def file(self, home: Path, environment: Mapping[str, str]) -> Path | None:
        """Return the user's file, None if the client does not run on this system."""
        usual = _resolved(self.user, home, environment)
        others = (_resolved(each, home, environment) for each in self.user_others)
        return usual and _first_existing(usual, others)

    def project_file(self, project: Path) -> Path | None:
        """Return the file of a project, None if the client has no such file."""
        others = (project / each for each in self.project_others)
        return None if self.project is None else _first_existing(project / self.project, others)

    def log_file(self, name: str, home: Path, environment: Mapping[str, str]) -> Path | None:
        """Return where the client logs what the server `name` says, None if that is not known."""
        found = None if self.log is None else _resolved(self.log, home, environment)
        return None if found is None else Path(str(found).replace("{name}", name))

    def is_installed(self, home: Path, environment: Mapping[str, str]) -> bool:
        """Tell whether the client seems to be here: its program is on the path, or its folder exists."""
        if self.program is not None and shutil.which(self.program, path=environment.get("PATH")):
            return True
        if self.folder is not None:
            folder = _resolved(self.folder, home, environment)
            return folder is not None and folder.is_dir()
        file = self.file(home, environment)
        return file is not None and file.parent != home and file.parent.is_dir()


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server that a client starts: the program by its absolute path, its arguments, and variables set for it."""

    command: str
    args: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


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
    values = {"{url}": server.url, "{name}": name, **_header_values(client, server.headers)}
    return _filled(client.http, values)


def unsupported_variables(client: ClientFile, server: LocalServer | HttpServer) -> list[str]:
    """Return the environment variables that headers name, and that the client's file cannot refer to."""
    if isinstance(server, LocalServer) or client.http is None:
        return []
    values = _header_values(client, server.headers)
    headers = values["{headers}"] if client.variable is None else {}
    return [name for value in headers.values() for name in HEADER_VARIABLE.findall(value)]


def _header_values(client: ClientFile, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return what an entry says of headers; a variable is written as the client reads it.

    Codex has keys of their own for headers whose value is a variable, or a bearer token in one.
    """
    plain, bearer, whole = dict(headers), "", {}
    if "{bearer_variable}" in (client.http or {}).values():
        for name, value in headers.items():
            scheme, _, rest = value.rpartition(" ")
            found = HEADER_VARIABLE.fullmatch(rest)
            if found and name.lower() == "authorization" and scheme.lower() == "bearer":
                bearer = found[1]
            elif found and not scheme:
                whole[name] = found[1]
            else:
                continue
            del plain[name]
    if form := client.variable:
        plain = {
            name: HEADER_VARIABLE.sub(lambda found: form.replace("NAME", found[1]), value)
            for name, value in plain.items()
        }
    return {"{headers}": plain, "{bearer_variable}": bearer, "{variable_headers}": whole}


def deeplink(client: ClientFile, name: str, entry: Mapping[str, Any] | None) -> str | None:
    """Return a link that asks the client to add the entry, None if the client has none that would work.

    Goose accepts only some programs by their bare names, such as `uvx`, and no program by its path: its link is for
    servers at an address. It decodes the value of a header twice.
    """
    if entry is None:
        return None
    if client.key == "cursor":
        config = base64.b64encode(json.dumps(entry).encode()).decode()
        return f"cursor://anysphere.cursor-deeplink/mcp/install?name={quote(name)}&config={quote(config, safe='')}"
    if client.key == "vscode":
        return f"vscode:mcp/install?{quote(json.dumps({'name': name, **entry}), safe='')}"
    if client.key == "goose" and "uri" in entry:
        words = {"type": entry["type"], "url": entry["uri"], "id": name, "name": name, "timeout": entry["timeout"]}
        headers = [("header", f"{key}={quote(value, safe='')}") for key, value in entry.get("headers", {}).items()]
        return f"goose://extension?{urlencode([*words.items(), *headers], quote_via=quote)}"
    return None


def _filled(template: Mapping[str, Any], values: Mapping[str, object]) -> dict[str, Any]:
    """Return a template with its values; a placeholder without a value is left out together with its key."""
    filled: dict[str, Any] = {}
    for key, each in template.items():
        value = _filled(each, values) if isinstance(each, dict) else values.get(each, each) if _is_text(each) else each
        if value or value == each:
            filled[key] = value
    return filled


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _first_existing(usual: Path, others: Iterable[Path | None]) -> Path:
    """Return the usual file, or the first of others that is there instead of it."""
    if os.path.lexists(usual):
        return usual
    return next((each for each in others if each is not None and os.path.lexists(each)), usual)


def _resolved(path: FilePath, home: Path, environment: Mapping[str, str]) -> Path | None:
    system = "linux" if sys.platform not in {"darwin", "win32"} else sys.platform
    text = path if isinstance(path, str) else path.get(system)
    return None if text is None else resolved_path(text, home, environment)


def this_server(words: Sequence[str]) -> LocalServer:
    """Return the server that a client starts with these words: this program by its absolute path."""
    program = Path(os.path.abspath(sys.argv[0]))  # noqa: PTH100 - `resolve` would follow the link of an installation
    if program.is_file() and os.access(program, os.X_OK) and program.stem == "skillserve":
        return LocalServer(str(program), tuple(words))
    # A client may start it in the folder of a stranger, whose modules must not take the place of ours.
    return LocalServer(sys.executable, ("-P", "-m", "server", *words))
