"""Read the JSON file of MCP servers, in the `mcpServers` format that clients use, and find the secrets in it.

Variants of several clients are accepted: `servers` (VS Code), `httpUrl` (Gemini CLI), `serverUrl` (Windsurf) and the
type `local` (Copilot).

Values may refer to environment variables as `${NAME}`, `${NAME:-default}` or `${env:NAME}`. Values often contain
secrets, so error messages name the place of a value and never quote it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count, pairwise
from pathlib import Path
from typing import Any

from server.config.files import ConfigurationError
from server.config.values import home_path
from server.wire.address import Address, AddressError
from skills_core.diagnostics import one_line
from skills_core.disk.files import read_bounded
from skills_core.errors import FileRefusedError

_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_SECRET = re.compile(
    r"token|secret|passw|passphrase|credential|authoriz|cookie|jwt"
    r"|(?:key|pass|auth|[^a-z]pwd)s?(?![a-z])|(?<![a-z])pat(?![a-z])"
)

_METADATA = re.compile(
    r"(?<![a-z])(?:max|min|num|limit|count|size|length|timeout|ttl)(?![a-z])"
    r"|(?<![a-z])(?:file|path|dir|type|mode|method|name|url|uri|endpoint)$"
)
# Names of properties of a secret, such as `MAX_TOKENS` and `TOKEN_FILE`.

_ASSIGNED = re.compile(r"([\w-]+)[ \t]*[=:][ \t]*(.+)", re.DOTALL)
_IN_URL = re.compile(r"://[^/?#\s:@]*:([^/?#\s@]+)@")
_IN_QUERY = re.compile(r"[?&;]([^=&;#\s]+)=([^&;#\s]+)")

_ORDINARY = re.compile(
    r"HOME|PWD|USER|LOGNAME|USERNAME|PATH|SHELL|TERM|LANG|TZ|TMPDIR|TEMP|TMP|APPDATA|LOCALAPPDATA|PROGRAMDATA"
    r"|PROGRAMFILES|USERPROFILE|SYSTEMROOT|SYSTEMDRIVE|WINDIR|HOMEDRIVE|HOMEPATH|COMPUTERNAME|HOSTNAME",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Return whether a variable, option or parameter of this name probably holds a secret."""
    words = _CAMEL_CASE.sub("_", name).lower()
    return _SECRET.search(words) is not None and _METADATA.search(words) is None


def is_ordinary_variable(name: str) -> bool:
    """Return whether the environment variable is a standard one of the system that holds no secret."""
    return _ORDINARY.fullmatch(name) is not None


def is_ordinary_header(name: str) -> bool:
    """Return whether an HTTP header describes the protocol or content, and carries no credential."""
    return name.lower().startswith(("accept", "content-", "user-agent", "mcp-protocol-"))


def find_secrets(text: str) -> Iterator[str]:
    """Yield the secrets in a text: passwords in URLs, and values assigned to secret names."""
    yield from (found[1] for found in _IN_URL.finditer(text))
    yield from (found[2] for found in _IN_QUERY.finditer(text) if is_secret_name(found[1]))
    assigned = _ASSIGNED.fullmatch(text)
    if assigned is not None and is_secret_name(assigned[1]):
        yield from header_secrets(assigned[2])


def header_secrets(value: str) -> tuple[str, str]:
    """Return a header's value with and without its scheme: a server may repeat either."""
    return value, value.rpartition(" ")[2]


MAX_SERVERS = 50

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}|\$\{([^}]*)\}")
# The third group matches a reference that is not to an environment variable.

_SAFE_REFERENCE = re.compile(r"[\w./][\w./-]*(?::[\w./][\w./-]*)?")
# A reference that error messages may quote: it has no default value, which could be a secret.

_STDIO_TYPES = {"stdio", "local"}
_HTTP_TYPES = {"http", "streamable-http", "streamableHttp", "sse"}
_URL_KEYS = ("httpUrl", "url", "serverUrl")
# In order of preference: Gemini CLI prefers `httpUrl` to `url`.


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """How to reach one server: a program to start, or an address.

    `sse` selects the HTTP+SSE transport without trying streamable HTTP first. `trusted` accepts the server's read-only
    hints for its tools. `secrets` are the secret values of the entry, each after its place.
    """

    name: str
    command: tuple[str, ...] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    directory: Path | None = None
    address: Address | None = None
    sse: bool = False
    trusted: bool = False
    secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def read_servers(path: Path, environment: Mapping[str, str]) -> tuple[ServerSpec, ...]:
    """Read the file at `path`.

    Raises:
        ConfigurationError: the file cannot be read, or is invalid.
    """
    try:
        path = path.expanduser()
        raw = read_bounded(path)
    except RuntimeError:
        raise ConfigurationError(f"{path}: ~ cannot be expanded: there is no such user") from None
    except FileRefusedError as error:
        raise ConfigurationError(str(error)) from None
    if raw is None:
        raise ConfigurationError(f"{path}: there is no such file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: expected UTF-8 text") from None
    return parse_servers(path, text, environment)


def parse_servers(path: Path, text: str, environment: Mapping[str, str]) -> tuple[ServerSpec, ...]:
    """Return the enabled servers of the file, whose content is `text`, in the file's order.

    Raises:
        ConfigurationError: the content is invalid; the message names the place.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        # The error does not quote the text, which may contain a secret.
        where = f"{path}:{error.lineno}" if isinstance(error, json.JSONDecodeError) else path
        raise ConfigurationError(f"{where}: expected JSON") from None
    except RecursionError:
        raise ConfigurationError(f"{path}: the JSON is nested too deeply") from None
    keys = ("mcpServers", "servers") if isinstance(found, dict) else ()
    key, servers = next(((each, found[each]) for each in keys if found.get(each) is not None), ("", None))
    if not isinstance(servers, dict):
        raise ConfigurationError(f'{path}: expected {{"mcpServers": {{"name": {{"command": …}} or {{"url": …}}}}}}')
    if len(servers) > MAX_SERVERS:
        raise ConfigurationError(f"{path}: {key}: expected at most {MAX_SERVERS} servers")

    def spec(name: str, entry: object) -> ServerSpec:
        where = f"{path}: {key}.{one_line(name)[:100]}"
        return _ServerEntry(where, _without_nulls(entry), environment, path.parent).spec(name)

    return tuple(
        spec(name, entry)
        for name, entry in servers.items()
        if not (isinstance(entry, dict) and (entry.get("disabled") is True or entry.get("enabled") is False))
    )


def file_secrets(specs: Iterable[ServerSpec]) -> dict[str, str]:
    """Return the secret values of the servers' entries by their places, for redaction."""
    found: dict[str, str] = {}
    for spec in specs:
        for where, value in dict.fromkeys(spec.secrets):
            name = f"mcpServers.{spec.name}.{where}"
            names = chain([name], (f"{name} ({number})" for number in count(2)))
            found[next(each for each in names if each not in found)] = value
    return found


def _without_nulls(entry: object) -> object:
    """Return an object without its null values, which count as absent; return any other value unchanged."""
    return {key: value for key, value in entry.items() if value is not None} if isinstance(entry, dict) else entry


def _is_string(value: object) -> bool:
    """Return whether a value is a string, or a number, which counts as its text."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class _ServerEntry:
    """One entry of the file; error messages name it as `where`."""

    where: str
    raw: Any
    environment: Mapping[str, str]
    folder: Path
    secrets: list[tuple[str, str]] = field(default_factory=list)

    def spec(self, name: str) -> ServerSpec:
        """Parse the entry."""
        if not isinstance(self.raw, dict):
            raise self._error("", "expected an object")
        if not re.search(r"[A-Za-z0-9]", name):
            raise self._error("", "expected a name with a letter or digit")
        kind = self.raw.get("type") or ("stdio" if "command" in self.raw else "http")
        trusted = self.raw.get("trusted", False)
        if not isinstance(trusted, bool):
            raise self._error("trusted", "expected true or false")
        if not isinstance(kind, str) or kind not in _STDIO_TYPES | _HTTP_TYPES:
            raise self._error("type", "expected stdio, http or sse")
        if kind in _STDIO_TYPES:
            return self._stdio_spec(name, trusted=trusted)
        address = self._address()
        return ServerSpec(name=name, address=address, sse=kind == "sse", trusted=trusted, secrets=tuple(self.secrets))

    def _address(self) -> Address:
        key = next((each for each in _URL_KEYS if each in self.raw), "url")
        headers = [f"{name}: {value}" for name, value in self._headers().items()]
        try:
            address = Address.parse(self._string(key), headers)
        except AddressError as error:
            raise self._error(f"{key} or headers", str(error).removeprefix("--header: ")) from None
        if address.url != address.shown:
            self._add_secrets(key, address.url)
        return address

    def _stdio_spec(self, name: str, *, trusted: bool) -> ServerSpec:
        given = self.raw.get("args", [])
        if not isinstance(given, list) or not all(map(_is_string, given)):
            raise self._error("args", "expected a list of strings")
        arguments = [self._expand(str(each), f"args[{number}]") for number, each in enumerate(given)]
        for number, (option, value) in enumerate(pairwise(arguments), 1):
            if option.startswith("-") and "=" not in option and is_secret_name(option) and not value.startswith("-"):
                self._add_secrets(f"args[{number}]", value)
        directory = self._string("cwd") if "cwd" in self.raw else ""
        command, environment = self._string("command"), self._variables()
        return ServerSpec(
            name=name,
            command=(command, *arguments),
            environment=environment,
            directory=self.folder / home_path(directory) if directory else None,
            trusted=trusted,
            secrets=tuple(self.secrets),
        )

    def _variables(self) -> dict[str, str]:
        values = self._strings("env")
        for name, value in values.items():
            where = f"env.{name}"
            # A value that contains a secret is secret as a whole.
            if is_secret_name(name) or any(place == where for place, _ in self.secrets):
                self._add_secrets(where, value)
        return values

    def _headers(self) -> dict[str, str]:
        values = self._strings("headers")
        for name, value in values.items():
            if not is_ordinary_header(name):
                self._add_secrets(f"headers.{name}", *header_secrets(value))
        return values

    def _add_secrets(self, where: str, *values: str) -> None:
        self.secrets.extend((where, value) for value in values)

    def _string(self, key: str) -> str:
        value = self.raw.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self._error(key, "expected a non-empty string")
        return self._expand(value, key)

    def _strings(self, key: str) -> dict[str, str]:
        value = _without_nulls(self.raw.get(key, {}))
        if not isinstance(value, dict) or not all(map(_is_string, value.values())):
            raise self._error(key, "expected an object of strings")
        return {name: self._expand(str(each), f"{key}.{name}") for name, each in value.items()}

    def _expand(self, text: str, key: str) -> str:
        def value(match: re.Match[str]) -> str:
            if match[1] is None:
                shown = match[0] if _SAFE_REFERENCE.fullmatch(match[3]) else "${…}"
                raise self._error(key, f"{shown} is not supported; refer to an environment variable: ${{NAME}}")
            found = self.environment.get(match[1], match[2])
            if found is None:
                raise self._error(
                    key,
                    f"the environment variable {match[1]} is not set; set it, or give a default: ${{{match[1]}:-…}}",
                )
            # Programs and folders are not secret, and any file may name them.
            is_secret = (
                match[1] in self.environment and key not in {"command", "cwd"} and not is_ordinary_variable(match[1])
            )
            if is_secret or is_secret_name(match[1]):
                self._add_secrets(key, found)
            return found

        expanded = _VARIABLE.sub(value, text)
        self._add_secrets(key, *find_secrets(expanded))
        return expanded

    def _error(self, key: str, why: str) -> ConfigurationError:
        return ConfigurationError(f"{self.where}{'.' if key else ''}{one_line(key)[:100]}: {why}")
