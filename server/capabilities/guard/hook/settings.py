"""Load the settings that apply to a call: those of its project, or the usable rest where some are invalid."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from server.capabilities.guard.settings import GuardSettings
from server.config.bootstrap import settings_in_project, user_settings
from server.config.files import ConfigurationError, own_file
from server.config.machine import Machine, current_places
from server.config.settings.layers import Given, Layer, combine, from_flags, load_settings
from server.config.settings.model import Settings
from server.config.values import InvalidValueError, read
from skills_core.diagnostics import one_line
from skills_core.disk.files import read_bounded
from skills_core.disk.sources import Strictness, project_of
from skills_core.errors import FileRefusedError

if TYPE_CHECKING:
    from pathlib import Path

    from server.capabilities.guard.hook.options import HookOptions

__all__ = ["CallSettings", "settings_for_call"]

_PATTERN_SETTINGS = GuardSettings.__struct_fields__


class CallSettings(Struct, frozen=True):
    """The settings for a call, the machine as seen from its directory, and what of the settings could not be used."""

    settings: Settings
    machine: Machine
    doubts: tuple[str, ...] = ()


def settings_for_call(directory: Path | None, options: HookOptions) -> CallSettings:
    """Return the settings for the project of `directory`, or of the working directory if that is None.

    An untrusted project has no influence, not even on which of the user's own skills load: the call is treated as if
    made in the home directory. The same holds if the project cannot be found. If a trusted project's settings are
    invalid, only the user's settings apply, but the project's skills still load.
    """
    places, flags = current_places(), _flags(options)
    machine = Machine(replace(places, working_directory=places.home))
    settings, doubts = _settings_of_user(machine, flags)
    try:
        there = _project_directory(options.project, directory or places.working_directory)
        if settings.discovery.trust_workspace or machine.environment().trusts(project_of(there, places.home)):
            machine = Machine(replace(places, working_directory=there))
            settings, project_file = settings_in_project(machine, settings, flags)
            # A project may not set patterns, but its author relies on those it has; other ignored settings hide none.
            if any(name.partition(".")[0] == "guard" for name in project_file.ignored):
                doubts += project_file.notices
    except (ConfigurationError, OSError) as error:
        doubts += (str(error),)
    # A fault in the user's settings shows up again when the project's are merged into them.
    return CallSettings(settings, machine, tuple(dict.fromkeys(doubts)))


def _project_directory(project: Path | None, directory: Path) -> Path:
    """Return the directory whose project applies: the one named by --project, or that of the call.

    Raises:
        ConfigurationError: the named project is not a directory.
        OSError: the directory cannot be resolved.
    """
    if project is not None and not project.is_dir():
        raise ConfigurationError(f"--project: {one_line(str(project))} is not a directory")
    # Resolve links and `..`: trust depends on where a directory really is.
    return (project or directory).resolve()


def _flags(options: HookOptions) -> dict[str, object]:
    """Return the settings that the command line gives, None for those that it does not."""
    return {
        "strictness": Strictness.STRICT if options.strict else None,
        "follow_symlinks": options.follow_symlinks or None,
        "trust_workspace": options.trust_workspace or None,
        "conventions": options.conventions,
        "gitignore": options.gitignore or None,
    }


def _settings_of_user(machine: Machine, flags: dict[str, object]) -> tuple[Settings, tuple[str, ...]]:
    """Return the user's settings, or the usable part of them, and what is wrong with the rest."""
    places = machine.places
    try:
        return user_settings(machine, flags), ()
    except ConfigurationError as error:
        doubts = (str(error),)
    try:
        # If only an environment variable is invalid, the files still apply.
        return load_settings(flags, {}, places.config_home), doubts
    except ConfigurationError:
        patterns = _valid_patterns(own_file(places.config_home))
        usable: Layer = {("guard", name): Given(value, "patterns") for name, value in patterns.items()}
        return combine(usable, from_flags(flags)), doubts


def _valid_patterns(file: Path) -> dict[str, list[Any]]:
    """Return the valid patterns of a settings file, even if other settings in it are invalid."""
    import tomllib

    try:
        found = tomllib.loads((read_bounded(file) or b"").decode("utf-8"))
    except (FileRefusedError, ValueError, RecursionError):
        return {}
    guard = found.get("guard")
    # Patterns outside of their section are an error, but they still apply.
    found |= guard if isinstance(guard, dict) else {}
    lists = {name: value for name in _PATTERN_SETTINGS if isinstance(value := found.get(name), list)}
    return {name: [each for each in value if _is_valid(name, each)] for name, value in lists.items()}


def _is_valid(name: str, pattern: object) -> bool:
    try:
        read(GuardSettings, {name: [pattern]})
    except InvalidValueError:
        return False
    return True
