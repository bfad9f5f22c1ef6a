"""Check the user's settings: the file, the environment variables, and the values of a section together."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from server.cli.config_check.finding import ConfigFinding, Level
from server.cli.config_check.values import faults, field_types, is_secret, section_faults, usable
from server.config.bootstrap import unknown_variables
from server.config.files import ConfigurationError, own_file, read_settings_file
from server.config.settings.layers import Given, combine, from_jdai, from_variable
from server.config.settings.model import Settings
from server.config.settings.names import BY_OPTION, BY_PATH, SECTIONS, entries, fault_of, value_of
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from server.config.jdai import JdaiSettings
    from server.config.machine import Machine
    from server.config.settings.names import SettingPath

_SHOWN: Final = 100


@dataclass(slots=True)
class CheckedSettings:
    """The settings that can be used, where each of them comes from, and what is wrong with the others.

    `broken` has the sections with a fault: what they contain is not what the user meant, so it is not compared with
    other sections. It is None if the file as a whole cannot be used.
    """

    settings: Settings = field(default_factory=Settings)
    findings: list[ConfigFinding] = field(default_factory=list)
    origins: dict[SettingPath, str] = field(default_factory=dict)
    secrets_in_file: list[str] = field(default_factory=list)
    broken: set[str] | None = field(default_factory=set)

    def origin(self, key: str) -> str:
        """Return where a setting, named `section.key`, comes from."""
        section, _, name = key.partition(".")
        return self.origins.get((section, name), "defaults")

    def is_set(self, key: str) -> bool:
        """Tell whether a setting does not have its default."""
        section, _, name = key.partition(".")
        path = section, name
        return path in self.origins and bool(value_of(self.settings, path) != BY_PATH[path].default)

    def finding(self, level: Level, key: str, message: str, advice: str, place: str = "") -> ConfigFinding:
        """Return a finding about a setting, named `section.key`, or about what is at a `place` within its value."""
        return ConfigFinding(level, self.origin(key), f"{key}{place}", one_line(message), advice)

    def can_compare(self, *sections: str) -> bool:
        """Tell whether these sections are what the user meant."""
        return self.broken is not None and not self.broken & {*sections}


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a check may look at: the settings, where the user's files are, and the environment variables."""

    checked: CheckedSettings
    machine: Machine
    environment: Mapping[str, str]


def check_settings(config_home: Path, environment: Mapping[str, str], jdai: JdaiSettings) -> CheckedSettings:
    """Check the user's file and the environment variables."""
    checked = CheckedSettings()
    valid: dict[SettingPath, Given] = {**from_jdai(jdai)}
    file = own_file(config_home)
    try:
        found = read_settings_file(file)
    except ConfigurationError as error:
        checked.findings.append(file_fault(file, error))
        found, checked.broken = {}, None
    for path, value in entries(found):
        if path not in BY_PATH:
            _refuse(checked, str(file), path, fault_of(path).partition(": ")[2], "correct the name, or remove the key")
            _break_meant(checked, path)
            continue
        kind = _type_of(path)
        if is_secret(kind):
            checked.secrets_in_file.append(".".join(path))
        _take(checked, valid, path, Given(value, str(file)))
    for path, setting in BY_PATH.items():
        try:
            given = from_variable(setting, environment)
        except ConfigurationError as error:
            origin, _, message = str(error).partition(": ")
            _refuse(checked, origin, path, message, "correct the path, or unset it")
            continue
        if given is not None:
            _take(checked, valid, path, given)
    checked.findings += _unknown_variables(environment)
    _check_sections(checked, valid)
    return checked


def file_fault(file: Path, error: ConfigurationError) -> ConfigFinding:
    """Return the finding for a file of settings that cannot be read at all."""
    message = str(error).removeprefix(f"{file}: ")
    advice = "make it a regular file that you can read" if "read" in message or "file" in message else "correct it"
    return ConfigFinding(Level.ERROR, str(file), None, message, advice)


def _type_of(path: SettingPath) -> Any:  # noqa: ANN401 - of any type
    return field_types(SECTIONS[path[0]].kind)[path[1]]


def _take(checked: CheckedSettings, valid: dict[SettingPath, Given], path: SettingPath, given: Given) -> None:
    """Check a value alone; keep what is valid of it."""
    kind = _type_of(path)
    found = faults(kind, given.value)
    for fault in found:
        key = (*path, *fault.path)
        default = BY_PATH[path].default
        usual = f" ({default})" if isinstance(default, int | str) and not isinstance(default, bool) else ""
        unknown = fault.message == "unknown"
        advice = (
            "correct the name, or remove the key" if unknown else f"correct it, or remove it for the default{usual}"
        )
        _refuse(checked, given.origin, key, fault.message, advice)
    if not found:
        valid[path] = given
    elif (left := usable(kind, given.value)) is not None:
        valid[path] = Given(left, given.origin)


def _check_sections(checked: CheckedSettings, valid: dict[SettingPath, Given]) -> None:
    """Check the valid values of each section together; the settings have those that fit."""
    for section in dict.fromkeys(path[0] for path in valid):
        kind = SECTIONS[section].kind
        values = {path[1]: given.value for path, given in valid.items() if path[0] == section}
        found = [*section_faults(kind, values, section)]
        for fault in found:
            origin = valid[section, fault.path[0]].origin
            _refuse(checked, origin, (section, *fault.path), fault.message, "correct it, or set what it needs")
        if found:
            for path in [path for path in valid if path[0] == section]:
                del valid[path]
    checked.settings = combine(valid)
    checked.origins = {path: given.origin for path, given in valid.items()}


def _refuse(checked: CheckedSettings, origin: str, path: SettingPath, message: str, advice: str) -> None:
    key = ".".join(path)[:_SHOWN]
    checked.findings.append(ConfigFinding(Level.ERROR, origin, key, message, advice))
    if checked.broken is not None:
        checked.broken.add(path[0])


def _break_meant(checked: CheckedSettings, path: SettingPath) -> None:
    """Note which section an unknown name was most likely meant for."""
    if checked.broken is None:
        return
    if setting := BY_OPTION.get(path[-1]):
        checked.broken.add(setting.section)
    checked.broken.update(difflib.get_close_matches(path[0], SECTIONS, 1))


def _unknown_variables(environment: Mapping[str, str]) -> list[ConfigFinding]:
    return [
        ConfigFinding(Level.WARNING, f"the environment variable {name[:_SHOWN]}", None, message, advice)
        for name, message, advice in unknown_variables(environment)
    ]
