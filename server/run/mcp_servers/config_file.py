"""The file that says which other MCP servers there are: `mcpServers`, as every client has it.

Clients do not agree on each word: VS Code says `servers`, Gemini CLI `httpUrl`, Windsurf `serverUrl`, Copilot `local`.

Values may name variables of the environment, as in the clients that know them: `${NAME}`, `${NAME:-otherwise}` and
`${env:NAME}`. What they hold are secrets more often than not, so no message has a value in it, only where it stands.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from itertools import chain, count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.config.settings import ConfigurationError
from server.remote.address import Address, AddressError
from server.run.mcp_servers.secrets import (
    is_ordinary_header,
    is_ordinary_variable,
    names_secret,
    secrets_in,
    with_last_word,
)
from skills_core.diagnostics import one_line
from skills_core.disk.bounded import read_bounded
from skills_core.errors import FileRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["ServerSpec", "parse_servers", "read_servers", "secrets_of"]

MAX_SERVERS = 50

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}|\$\{([^}]*)\}")
# The third group is what stands in one that is none of the environment.

_NAME_ALONE = re.compile(r"[\w./][\w./-]*(?::[\w./][\w./-]*)?")
# What may be shown: a value to fall back on may be a secret.

_PROGRAM = {"stdio", "local"}
_HTTP = {"http", "streamable-http", "streamableHttp", "sse"}
_ADDRESSES = ("httpUrl", "url", "serverUrl")
# Gemini CLI takes the first of them where an entry has the second too.


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """How to reach one server: a program to start, or an address.

    `sse` says that the server speaks the transport before streamable HTTP, and needs not be asked for the newer one.
    `trusted` says that what the server tells of its tools, that they only read, is believed. `secrets` are the values
    of its entry that nobody is told, each with where it stands.
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
    """Read the file.

    Raises:
        ConfigurationError: it cannot be read, or says what makes no sense.
    """
    try:
        path = path.expanduser()
        raw = read_bounded(path)
    except RuntimeError:
        raise ConfigurationError(f"{path}: there is no such user, so ~ stands for no home directory") from None
    except FileRefusedError as error:
        raise ConfigurationError(str(error)) from None
    if raw is None:
        raise ConfigurationError(f"{path}: there is no such file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: it is no UTF-8") from None
    return parse_servers(path, text, environment)


def parse_servers(path: Path, text: str, environment: Mapping[str, str]) -> tuple[ServerSpec, ...]:
    """Return the servers that the text of the file at `path` names and does not disable, in its order.

    Raises:
        ConfigurationError: it makes no sense; the message says where.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        # The text around the fault may be a secret.
        where = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ConfigurationError(f"{path}: it is no JSON{where}") from None
    except RecursionError:
        raise ConfigurationError(f"{path}: it nests too deep") from None
    keys = ("mcpServers", "servers") if isinstance(found, dict) else ()
    key, servers = next(((each, found[each]) for each in keys if found.get(each) is not None), ("", None))
    if not isinstance(servers, dict):
        raise ConfigurationError(f'{path}: expected {{"mcpServers": {{"name": {{"command": …}} or {{"url": …}}}}}}')
    if len(servers) > MAX_SERVERS:
        raise ConfigurationError(f"{path}: {key}: at most {MAX_SERVERS} servers")
    return tuple(
        _Entry(f"{path}: {key}.{one_line(name)[:100]}", _given(entry), environment, path.parent).spec(name)
        for name, entry in servers.items()
        if not (isinstance(entry, dict) and (entry.get("disabled") is True or entry.get("enabled") is False))
    )


def secrets_of(specs: Iterable[ServerSpec]) -> dict[str, str]:
    """Return the values that a file keeps for servers alone, by where they stand, so that nothing records them."""
    found: dict[str, str] = {}
    for spec in specs:
        for where, value in dict.fromkeys(spec.secrets):
            name = f"mcpServers.{spec.name}.{where}"
            names = chain([name], (f"{name} ({number})" for number in count(2)))
            found[next(each for each in names if each not in found)] = value
    return found


def _given(entry: object) -> object:
    """Return an entry without what is null, which is as good as absent."""
    return {key: value for key, value in entry.items() if value is not None} if isinstance(entry, dict) else entry


def _is_text(value: object) -> bool:
    """Tell whether a value is a text, or a number, which is the text that it is written as."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of the file; `where` names it in messages."""

    where: str
    raw: Any
    environment: Mapping[str, str]
    folder: Path
    secrets: list[tuple[str, str]] = field(default_factory=list)

    def spec(self, name: str) -> ServerSpec:
        """Return what the entry says."""
        if not isinstance(self.raw, dict):
            raise self._wrong("", "expected an object")
        if not re.search(r"[A-Za-z0-9]", name):
            raise self._wrong("", "a name needs a letter or digit")
        kind = self.raw.get("type") or ("stdio" if "command" in self.raw else "http")
        trusted = self.raw.get("trusted", False)
        if not isinstance(trusted, bool):
            raise self._wrong("trusted", "expected true or false")
        if not isinstance(kind, str) or kind not in _PROGRAM | _HTTP:
            raise self._wrong("type", "expected stdio, http or sse")
        if kind in _PROGRAM:
            return self._program(name, trusted=trusted)
        address = self._address()
        return ServerSpec(name=name, address=address, sse=kind == "sse", trusted=trusted, secrets=tuple(self.secrets))

    def _address(self) -> Address:
        key = next((each for each in _ADDRESSES if each in self.raw), "url")
        headers = [f"{name}: {value}" for name, value in self._headers().items()]
        try:
            address = Address.parse(self._text(key), headers)
        except AddressError as error:
            raise self._wrong(f"{key} or headers", str(error).removeprefix("--header: ")) from None
        if address.url != address.shown:
            self._hide(key, address.url)
        return address

    def _program(self, name: str, *, trusted: bool) -> ServerSpec:
        given = self.raw.get("args", [])
        if not isinstance(given, list) or not all(map(_is_text, given)):
            raise self._wrong("args", "expected a list of strings")
        arguments = [self._expanded(str(each), f"args[{number}]") for number, each in enumerate(given)]
        for number, (option, value) in enumerate(pairwise(arguments), 1):
            if option.startswith("-") and "=" not in option and names_secret(option) and not value.startswith("-"):
                self._hide(f"args[{number}]", value)
        directory = self._text("cwd") if "cwd" in self.raw else ""
        command, environment = self._text("command"), self._variables()
        return ServerSpec(
            name=name,
            command=(command, *arguments),
            environment=environment,
            directory=self.folder / Path(directory).expanduser() if directory else None,
            trusted=trusted,
            secrets=tuple(self.secrets),
        )

    def _variables(self) -> dict[str, str]:
        values = self._table("env")
        for name, value in values.items():
            where = f"env.{name}"
            # What is built around a secret is one too.
            if names_secret(name) or any(place == where for place, _ in self.secrets):
                self._hide(where, value)
        return values

    def _headers(self) -> dict[str, str]:
        values = self._table("headers")
        for name, value in values.items():
            if not is_ordinary_header(name):
                self._hide(f"headers.{name}", *with_last_word(value))
        return values

    def _hide(self, where: str, *values: str) -> None:
        self.secrets.extend((where, value) for value in values)

    def _text(self, key: str) -> str:
        value = self.raw.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self._wrong(key, "expected a string that is not empty")
        return self._expanded(value, key)

    def _table(self, key: str) -> dict[str, str]:
        value = _given(self.raw.get(key, {}))
        if not isinstance(value, dict) or not all(map(_is_text, value.values())):
            raise self._wrong(key, "expected an object of strings")
        return {name: self._expanded(str(each), f"{key}.{name}") for name, each in value.items()}

    def _expanded(self, text: str, key: str) -> str:
        def value(match: re.Match[str]) -> str:
            if match[1] is None:
                shown = match[0] if _NAME_ALONE.fullmatch(match[3]) else "${…}"
                raise self._wrong(key, f"{shown} is not filled in here; name a variable of the environment: ${{NAME}}")
            found = self.environment.get(match[1], match[2])
            if found is None:
                raise self._wrong(
                    key, f"the environment variable {match[1]} is not set; give a value: ${{{match[1]}:-…}}"
                )
            # A program and a folder are no secrets, and every file may name them.
            kept = match[1] in self.environment and key not in {"command", "cwd"} and not is_ordinary_variable(match[1])
            if kept or names_secret(match[1]):
                self._hide(key, found)
            return found

        expanded = _VARIABLE.sub(value, text)
        self._hide(key, *secrets_in(expanded))
        return expanded

    def _wrong(self, key: str, why: str) -> ConfigurationError:
        return ConfigurationError(f"{self.where}{'.' if key else ''}{one_line(key)[:100]}: {why}")
