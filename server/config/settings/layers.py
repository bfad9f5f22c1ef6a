"""Build settings from layers of values: files, variables and flags. Later layers override earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from server.config.files import ConfigurationError, own_file, read_settings_file
from server.config.settings.model import Settings
from server.config.settings.names import BY_OPTION, BY_PATH, SECTIONS, Setting, SettingPath, entries, fault_of
from server.config.values import InvalidValueError, home_path, read
from skills_core.live.watch_options import WatchMode

if TYPE_CHECKING:
    from server.config.jdai import JdaiSettings


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

_MAX_SECRET: Final = 65_536
# Bytes of a file with a secret.


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
    """Return the values of environment variables; an empty variable counts as not set.

    Raises:
        ConfigurationError: a variable names a file that cannot be read.
    """
    each = ((path, from_variable(setting, environment)) for path, setting in BY_PATH.items())
    return {path: given for path, given in each if given is not None}


def from_variable(setting: Setting, environment: Mapping[str, str]) -> Given | None:
    """Return the value of a setting's variable, or of the file that its second variable names; None if neither is set.

    Raises:
        ConfigurationError: the file cannot be read, or both variables are set.
    """
    variable, file_variable = setting.variable, setting.file_variable
    # Compose files set variables to an empty text.
    text = environment.get(variable) if variable else None
    file = environment.get(file_variable) if file_variable else None
    if file:
        origin = f"the environment variable {file_variable}"
        if text:
            raise ConfigurationError(f"{origin}: {variable} is set too; set one of them")
        return Given(_read_secret(file, origin), origin)
    return Given(_parsed(text, setting.default), f"the environment variable {variable}") if text else None


def _read_secret(file: str, origin: str) -> str:
    """Return the text of a file without white space around it; no message repeats it."""
    from skills_core.disk.files import read_bounded  # noqa: PLC0415 - few servers have secrets in files
    from skills_core.errors import FileRefusedError  # noqa: PLC0415 - likewise

    path = home_path(file)
    if not path.is_absolute():
        raise ConfigurationError(f"{origin}: expected the absolute path of a file")
    try:
        raw = read_bounded(path, _MAX_SECRET)
        text = None if raw is None else raw.decode().strip()
    except FileRefusedError as error:
        raise ConfigurationError(f"{origin}: {error}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{origin}: {path}: it is not UTF-8") from None
    if not text:
        raise ConfigurationError(f"{origin}: {path}: {'it is empty' if text is not None else 'there is no such file'}")
    return text


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
    for section in SECTIONS.values():
        for model, key in section.keys_of_models.items():
            if _is_foreign((section.name, model), (section.name, key), layers):
                del merged[section.name, key]
    # Reading the types of a struct is slow, so sections without a value keep their defaults.
    return Settings().with_sections(*(_section(name, merged) for name in dict.fromkeys(path[0] for path in merged)))


def _is_foreign(model: SettingPath, key: SettingPath, layers: tuple[Layer, ...]) -> bool:
    """Tell whether a key was given for the model of an earlier layer, and a later one names another address.

    The key of one server must not be sent to another one.
    """
    given = [number for number, layer in enumerate(layers) if key in layer]
    models = [(number, layer[model].value) for number, layer in enumerate(layers) if model in layer]
    meant = [value for number, value in models if given and number <= given[-1]]
    return bool(meant) and _address(meant[-1]) != _address(models[-1][1])


def _address(model: object) -> str:
    """Return the address in the name of a model, empty if a provider's own library knows it."""
    text = str(model)
    return text.partition("#")[0].rstrip("/") if "://" in text else ""


def _section(name: str, merged: Layer) -> Struct:
    values = {path[1]: given.value for path, given in merged.items() if path[0] == name}
    try:
        return read(SECTIONS[name].kind, values)
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
