"""From what files, variables and flags say to settings: layers of values, of which later ones win."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from server.config.files import ConfigurationError, own_file, read_settings_file
from server.config.settings.model import Settings
from server.config.settings.names import BY_OPTION, BY_PATH, DEFAULTS, Path, entries, fault_of
from server.config.values import InvalidValueError, read
from skills_core.watch_options import WatchMode

if TYPE_CHECKING:
    import pathlib

    from server.config.jdai import JdaiSettings

__all__ = ["Given", "Layer", "combine", "from_environment", "from_flags", "load_settings"]


class Given(Struct, frozen=True):
    """A value that is not checked yet, and what an error says of where it came from."""

    value: object
    origin: str


Layer: TypeAlias = Mapping[Path, Given]

_TRUTH: Final = {
    **dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}
# How variables spell switches.


def load_settings(
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    config_home: pathlib.Path,
    jdai: JdaiSettings | None = None,
) -> Settings:
    """Return the settings of the user.

    `flags` are the options of the command line, None or empty for those that were not given. `config_home` is the
    folder of the user's own `skillserve/skillserve.toml`. `jdai` is what JD.AI's `skills.json` says of watching; all
    else overrides it.

    Raises:
        ConfigurationError: a layer has an unknown name or a value that does not fit.
    """
    own = from_file(own_file(config_home))
    return combine(from_jdai(jdai), own, from_environment(environment), from_flags(flags))


def from_jdai(jdai: JdaiSettings | None) -> Layer:
    """Return what JD.AI's file says of watching."""
    found: dict[Path, Given] = {}
    if jdai is not None and jdai.watch is not None:
        found["watch", "mode"] = Given(WatchMode.AUTO if jdai.watch else WatchMode.OFF, "skills.json")
    if jdai is not None and jdai.watch_debounce_ms is not None:
        found["watch", "debounce_ms"] = Given(jdai.watch_debounce_ms, "skills.json")
    return found


def from_file(file: pathlib.Path) -> Layer:
    """Return what the user's own file says.

    Raises:
        ConfigurationError: it cannot be read, or has a section or a key that is unknown.
    """
    found = {path: Given(value, str(file)) for path, value in entries(read_settings_file(file))}
    for path in found:
        if path not in BY_PATH:
            raise ConfigurationError(f"{file}: {fault_of(path)}")
    return found


def from_environment(environment: Mapping[str, str]) -> Layer:
    """Return what variables say; a variable that is empty counts as not set."""
    found: dict[Path, Given] = {}
    for path, setting in BY_PATH.items():
        variable = setting.variable
        # Compose files set variables to nothing.
        if variable and (text := environment.get(variable)):
            found[path] = Given(_parsed(text, setting.default), f"the environment variable {variable}")
    return found


def from_flags(flags: Mapping[str, object]) -> Layer:
    """Return what the command line says, by the names of its options."""
    given = ((BY_OPTION[name], flag) for name, flag in flags.items() if flag is not None and flag != ())
    return {setting.path: Given(flag, setting.flag) for setting, flag in given}


def combine(*layers: Layer) -> Settings:
    """Return the settings of layers, the last of which is the strongest.

    Raises:
        ConfigurationError: a value does not fit.
    """
    merged: dict[Path, Given] = {}
    for layer in layers:
        merged.update(layer)
    sections: dict[str, Any] = {}
    # Reading the types of a struct takes longer than all else here, so sections without a value keep their defaults.
    for section in dict.fromkeys(path[0] for path in merged):
        sections[section] = _section(section, merged)
    return Settings(**sections)


def _section(name: str, merged: Layer) -> Any:  # noqa: ANN401 - of the section's type
    values = {path[1]: given.value for path, given in merged.items() if path[0] == name}
    try:
        return read(type(getattr(DEFAULTS, name)), values)
    except InvalidValueError as error:
        origin = merged[name, error.path[0]].origin
        raise ConfigurationError(f"{origin}: {_dotted((name, *error.path))}: {error.message}") from None


def _dotted(path: Iterable[str]) -> str:
    return ".".join(path)


def _parsed(text: str, default: object) -> object:
    """Return what a variable says of a setting, by the kind of its default."""
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if isinstance(default, bool):
        return _TRUTH.get(text.strip().lower(), text)
    return text.strip() if isinstance(default, int) else text
