"""Build settings from layers of values: files, variables and flags. Later layers override earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from server.config.files import ConfigurationError, own_file, read_settings_file
from server.config.settings.model import Settings
from server.config.settings.names import BY_OPTION, BY_PATH, DEFAULTS, SettingPath, entries, fault_of
from server.config.values import InvalidValueError, read
from skills_core.watch_options import WatchMode

if TYPE_CHECKING:
    from pathlib import Path

    from server.config.jdai import JdaiSettings

__all__ = ["Given", "Layer", "combine", "from_environment", "from_flags", "load_settings"]


class Given(Struct, frozen=True):
    """A value that is not checked yet, and its origin for error messages."""

    value: object
    origin: str


Layer: TypeAlias = Mapping[SettingPath, Given]

_TRUTH: Final = {
    **dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}
# Spellings of booleans in variables.


def load_settings(
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    config_home: Path,
    jdai: JdaiSettings | None = None,
) -> Settings:
    """Return the user's settings.

    `flags` maps options of the command line to values; None and empty ones count as not given. `config_home` contains
    the user's `skillserve/skillserve.toml`. All other layers override `jdai`, the watch settings of `skills.json`.

    Raises:
        ConfigurationError: a layer has an unknown name or a value that does not fit.
    """
    own = from_file(own_file(config_home))
    return combine(from_jdai(jdai), own, from_environment(environment), from_flags(flags))


def from_jdai(jdai: JdaiSettings | None) -> Layer:
    """Return the watch settings of JD.AI's `skills.json`."""
    found: dict[SettingPath, Given] = {}
    if jdai is not None and jdai.watch is not None:
        found["watch", "mode"] = Given(WatchMode.AUTO if jdai.watch else WatchMode.OFF, "skills.json")
    if jdai is not None and jdai.watch_debounce_ms is not None:
        found["watch", "debounce_ms"] = Given(jdai.watch_debounce_ms, "skills.json")
    return found


def from_file(file: Path) -> Layer:
    """Return the values of the user's own file.

    Raises:
        ConfigurationError: the file cannot be read, or has an unknown section or key.
    """
    found = {path: Given(value, str(file)) for path, value in entries(read_settings_file(file))}
    for path in found:
        if path not in BY_PATH:
            raise ConfigurationError(f"{file}: {fault_of(path)}")
    return found


def from_environment(environment: Mapping[str, str]) -> Layer:
    """Return the values of environment variables; an empty variable counts as not set."""
    found: dict[SettingPath, Given] = {}
    for path, setting in BY_PATH.items():
        variable = setting.variable
        # Compose files set variables to an empty text.
        if variable and (text := environment.get(variable)):
            found[path] = Given(_parsed(text, setting.default), f"the environment variable {variable}")
    return found


def from_flags(flags: Mapping[str, object]) -> Layer:
    """Return the values of the command line; `flags` maps options to values."""
    given = ((BY_OPTION[name], flag) for name, flag in flags.items() if flag is not None and flag != ())
    return {setting.path: Given(flag, setting.flag) for setting, flag in given}


def combine(*layers: Layer) -> Settings:
    """Merge layers into settings; later layers override earlier ones.

    Raises:
        ConfigurationError: a value does not fit.
    """
    merged: dict[SettingPath, Given] = {}
    for layer in layers:
        merged.update(layer)
    sections: dict[str, Any] = {}
    # Reading the types of a struct is slow, so sections without a value keep their defaults.
    for section in dict.fromkeys(path[0] for path in merged):
        sections[section] = _section(section, merged)
    return Settings(**sections)


def _section(name: str, merged: Layer) -> Any:  # noqa: ANN401 - of the section's type
    values = {path[1]: given.value for path, given in merged.items() if path[0] == name}
    try:
        return read(type(getattr(DEFAULTS, name)), values)
    except InvalidValueError as error:
        origin = merged[name, error.path[0]].origin
        raise ConfigurationError(f"{origin}: {'.'.join((name, *error.path))}: {error.message}") from None


def _parsed(text: str, default: object) -> object:
    """Return the text of a variable as a value of the type of the default."""
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if isinstance(default, bool):
        return _TRUTH.get(text.strip().lower(), text)
    return text.strip() if isinstance(default, int) else text
