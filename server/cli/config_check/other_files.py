"""Check the other files: of the project, of JD.AI, of trust and of tokens, and the MCP servers of runs."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.capabilities.runs.settings import RunSettings
from server.cli.config_check.finding import Finding, Level
from server.cli.config_check.settings_check import file_fault
from server.cli.config_check.values import faults, field_types
from server.config.files import ConfigurationError, own_file, read_settings_file
from server.config.machine import TrustError
from server.config.project_file import ProjectFile
from server.config.settings.names import BY_OPTION, entries, fault_of
from server.config.settings.project import ProjectDiscovery, ProjectSource
from server.config.settings.skills import SourceSettings
from skills_core.diagnostics import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from server.capabilities.login.static_tokens import StoredToken
    from server.capabilities.runs.mcp_servers.config_file import ServerSpec
    from server.cli.config_check.settings_check import CheckedSettings
    from server.config.jdai import JdaiSettings
    from server.config.machine import Machine
    from server.config.settings.model import Settings

__all__ = [
    "check_jdai",
    "check_mcp_servers",
    "check_project",
    "check_secrets",
    "check_tokens",
    "check_trust",
]

_ALLOWED = frozenset(ProjectDiscovery.__struct_fields__)
_ONLY_OF_USERS = {*SourceSettings.__struct_fields__} - {*ProjectSource.__struct_fields__}
_READABLE = 0o044
_WRITABLE = 0o022
_NO_TRUST = "skillserve trust"


def check_project(machine: Machine, *, trusted: bool) -> Iterator[Finding]:
    """Check the project's `skillserve.toml`; that of an untrusted project is not parsed."""
    file = ProjectFile(machine.places)
    if not trusted:
        for notice in file.untrusted().notices:
            yield Finding(Level.WARNING, str(file.path), None, notice.removeprefix(f"{file.path} "), _NO_TRUST)
        return
    if file.is_own:
        return
    try:
        found = read_settings_file(file.path)
    except ConfigurationError as error:
        yield file_fault(file.path, error)
        return
    before = [*_project_faults(found, file.path)]
    yield from before
    try:
        notices = file.trusted(()).notices
    except ConfigurationError as error:
        if not before:
            yield Finding(Level.ERROR, str(file.path), None, str(error).removeprefix(f"{file.path}: "), "correct it")
        return
    for notice in notices:
        message = notice.removeprefix(f"{file.path}: ")
        yield Finding(Level.WARNING, str(file.path), None, message, "move these settings, or remove them")


def _project_faults(found: dict[str, Any], file: Path) -> Iterator[Finding]:
    kinds = field_types(ProjectDiscovery)
    for path, given in entries(found):
        setting = BY_OPTION.get(path[0]) if len(path) == 1 else None
        target = setting.path if setting else path
        if path == ("discovery",) or (target != path and target[0] == "discovery" and target[1] in _ALLOWED):
            message = fault_of(path).partition(": ")[2]
            yield Finding(Level.ERROR, str(file), ".".join(path), message, "correct the place of the key")
        elif target[0] == "discovery" and target[-1] in _ALLOWED:
            value = _usable_sources(given) if target[1] == "sources" else given
            for fault in faults(kinds[target[1]], value):
                key = ".".join((*path, *fault.path))
                yield Finding(Level.ERROR, str(file), key, fault.message, "correct it, or remove it")


def _usable_sources(given: object) -> object:
    """Return the sources without the keys that only users may set: they are ignored, and a notice names them."""
    if not isinstance(given, list):
        return given
    return [
        {key: value for key, value in each.items() if key not in _ONLY_OF_USERS} if isinstance(each, dict) else each
        for each in given
    ]


def check_jdai(settings: JdaiSettings) -> Iterator[Finding]:
    """Check `config.json` and `skills.json` of JD.AI."""
    for each in settings.problems:
        if each.code is Reason.UNTRUSTED:
            message, _, advice = each.message.partition("; ")
            yield Finding(Level.WARNING, each.path, None, message, advice, each.line)
        else:
            yield Finding(Level.ERROR, each.path, None, each.message, "correct the file, or remove it", each.line)


def check_trust(machine: Machine) -> Iterator[Finding]:
    """Check the list of trusted folders."""
    try:
        machine.trust.folders()
    except TrustError as error:
        message, _, advice = str(error).removeprefix(f"{machine.trust.path}: ").partition("; ")
        yield Finding(Level.ERROR, str(machine.trust.path), None, message, advice or "make it readable")


def check_tokens(path: Path) -> tuple[list[Finding], tuple[StoredToken, ...] | None]:
    """Check the file of static tokens; return them too, None if the file cannot be used."""
    from server.capabilities.login.static_tokens import TokenFile, TokenFileError

    try:
        return [], TokenFile(path).tokens()
    except TokenFileError as error:
        message, _, advice = str(error).removeprefix(f"{path}: ").partition("; ")
        return [Finding(Level.ERROR, str(path), None, message, advice or "make it a file that you can read")], None


def check_mcp_servers(
    settings: Settings, environment: Mapping[str, str]
) -> tuple[list[Finding], tuple[ServerSpec, ...]]:
    """Check the file of MCP servers, each server on its own; return those that can be used too."""
    from server.capabilities.runs.mcp_servers.config_file import parse_servers, read_servers

    named = settings.section(RunSettings).mcp_servers
    if named is None:
        return [], ()
    path = Path(named)
    try:
        return [], read_servers(path, environment)
    except ConfigurationError as error:
        first = str(error)
    path = Path(os.path.expanduser(path))  # noqa: PTH111 - a user without a home is no error
    findings: list[Finding] = []
    specs: list[ServerSpec] = []
    for name, entry in _servers_in(path).items():
        try:
            specs += parse_servers(path, json.dumps({"mcpServers": {name: entry}}), environment)
        except ConfigurationError as error:
            where, _, message = str(error).removeprefix(f"{path}: ").partition(": ")
            findings.append(Finding(Level.ERROR, str(path), where, message, "correct the entry, or disable it"))
    if not findings:
        message = first.removeprefix(f"{path}: ")
        findings.append(Finding(Level.ERROR, str(path), None, message, "correct the file, or runs.mcp_servers"))
    return findings, tuple(specs)


def _servers_in(path: Path) -> dict[str, Any]:
    """Return the entries of a file of MCP servers, nothing if it has none that can be told apart."""
    from server.capabilities.runs.mcp_servers.config_file import MAX_SERVERS
    from skills_core.disk.files import read_bounded
    from skills_core.errors import FileRefusedError

    try:
        found = json.loads((read_bounded(path) or b"").decode("utf-8-sig"))
    except (FileRefusedError, ValueError, RecursionError):
        return {}
    keys = ("mcpServers", "servers") if isinstance(found, dict) else ()
    servers = next((found[key] for key in keys if found.get(key) is not None), None)
    return servers if isinstance(servers, dict) and len(servers) <= MAX_SERVERS else {}


def check_secrets(checked: CheckedSettings, machine: Machine, specs: tuple[ServerSpec, ...]) -> Iterator[Finding]:
    """Warn about files with secrets that other users can read, and about settings that they can change."""
    from server.capabilities.runs.mcp_servers.config_file import file_secrets

    own = own_file(machine.places.config_home)
    yield from _exposed(own, ", ".join(checked.secrets_in_file), changes=True)
    servers = checked.settings.section(RunSettings).mcp_servers
    if servers is not None:
        yield from _exposed(Path(os.path.expanduser(servers)), ", ".join(file_secrets(specs)), changes=True)  # noqa: PTH111
    yield from _exposed(machine.trust.path, "", changes=True)
    skills = machine.jdai.paths[2]
    yield from _exposed(skills, "keys and variables of skills" if _has_keys(skills) else "", changes=False)


def _has_keys(file: Path) -> bool:
    """Tell whether a `skills.json` has API keys or variables."""
    try:
        text = file.read_bytes()[: 1024 * 1024] if file.is_file() else b""
    except OSError:
        return False
    return b'"apiKey"' in text or b'"env"' in text


def _exposed(file: Path, secrets: str, *, changes: bool) -> Iterator[Finding]:
    if sys.platform == "win32":
        return
    try:
        mode = file.stat().st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        return
    if secrets and mode & _READABLE:
        message = f"other users of this machine can read the secrets in it: {secrets}"
        yield Finding(Level.WARNING, str(file), None, message, f"run: chmod 600 {file}")
    if changes and mode & _WRITABLE:
        message = "other users of this machine can change it, and so what the server does"
        yield Finding(Level.WARNING, str(file), None, message, f"run: chmod go-w {file}")
