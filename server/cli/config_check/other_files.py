"""Check the other files: of the project, of JD.AI, and of trust."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.cli.config_check.finding import ConfigFinding, Level
from server.cli.config_check.places import exposed
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
    from server.cli.config_check.settings_check import CheckedSettings
    from server.config.jdai import JdaiSettings
    from server.config.machine import Machine

_ALLOWED = frozenset(ProjectDiscovery.__struct_fields__)
_ONLY_OF_USERS = {*SourceSettings.__struct_fields__} - {*ProjectSource.__struct_fields__}
_NO_TRUST = "skillserve trust"


def check_project(machine: Machine, *, trusted: bool) -> Iterator[ConfigFinding]:
    """Check the project's `skillserve.toml`; that of an untrusted project is not parsed."""
    file = ProjectFile(machine.places)
    if not trusted:
        for notice in file.untrusted().notices:
            yield ConfigFinding(Level.WARNING, str(file.path), None, notice.removeprefix(f"{file.path} "), _NO_TRUST)
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
            yield ConfigFinding(
                Level.ERROR, str(file.path), None, str(error).removeprefix(f"{file.path}: "), "correct it"
            )
        return
    for notice in notices:
        message = notice.removeprefix(f"{file.path}: ")
        yield ConfigFinding(Level.WARNING, str(file.path), None, message, "move these settings, or remove them")


def _project_faults(found: dict[str, Any], file: Path) -> Iterator[ConfigFinding]:
    kinds = field_types(ProjectDiscovery)
    for path, given in entries(found):
        setting = BY_OPTION.get(path[0]) if len(path) == 1 else None
        target = setting.path if setting else path
        if path == ("discovery",) or (target != path and target[0] == "discovery" and target[1] in _ALLOWED):
            message = fault_of(path).partition(": ")[2]
            yield ConfigFinding(Level.ERROR, str(file), ".".join(path), message, "correct the place of the key")
        elif target[0] == "discovery" and target[-1] in _ALLOWED:
            value = _usable_sources(given) if target[1] == "sources" else given
            for fault in faults(kinds[target[1]], value):
                key = ".".join((*path, *fault.path))
                yield ConfigFinding(Level.ERROR, str(file), key, fault.message, "correct it, or remove it")


def _usable_sources(given: object) -> object:
    """Return the sources without the keys that only users may set: they are ignored, and a notice names them."""
    if not isinstance(given, list):
        return given
    return [
        {key: value for key, value in each.items() if key not in _ONLY_OF_USERS} if isinstance(each, dict) else each
        for each in given
    ]


def check_jdai(settings: JdaiSettings) -> Iterator[ConfigFinding]:
    """Check `config.json` and `skills.json` of JD.AI."""
    for each in settings.problems:
        if each.code is Reason.UNTRUSTED:
            message, _, advice = each.message.partition("; ")
            yield ConfigFinding(Level.WARNING, each.path, None, message, advice, each.line)
        else:
            yield ConfigFinding(Level.ERROR, each.path, None, each.message, "correct the file, or remove it", each.line)


def check_trust(machine: Machine) -> Iterator[ConfigFinding]:
    """Check the list of trusted folders."""
    try:
        machine.trust.folders()
    except TrustError as error:
        message, _, advice = str(error).removeprefix(f"{machine.trust.path}: ").partition("; ")
        yield ConfigFinding(Level.ERROR, str(machine.trust.path), None, message, advice or "make it readable")


def check_secrets(checked: CheckedSettings, machine: Machine) -> Iterator[ConfigFinding]:
    """Warn about files with secrets that other users can read, and about settings that they can change."""
    own = own_file(machine.places.config_home)
    yield from exposed(own, ", ".join(checked.secrets_in_file), changes=True)
    yield from exposed(machine.trust.path, "", changes=True)
    skills = machine.jdai.paths[2]
    yield from exposed(skills, "keys and variables of skills" if _has_keys(skills) else "", changes=False)


def _has_keys(file: Path) -> bool:
    """Tell whether a `skills.json` has API keys or variables."""
    try:
        text = file.read_bytes()[: 1024 * 1024] if file.is_file() else b""
    except OSError:
        return False
    return b'"apiKey"' in text or b'"env"' in text
