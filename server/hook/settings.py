"""Whose settings count: those of the project that a call is made in, and what is left of them where some are faulty."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from server.config.bootstrap import settings_in_project, user_settings
from server.config.files import own_file
from server.config.machine import Machine, current_places
from server.config.settings import ConfigurationError, GuardSettings, Settings, load_settings
from server.config.settings.layers import Given, Layer, combine, from_flags
from server.config.values import InvalidValueError, read
from skills_core.diagnostics import one_line
from skills_core.disk.bounded import read_bounded
from skills_core.errors import FileRefusedError
from skills_core.locations import project_of
from skills_core.sources import Strictness

if TYPE_CHECKING:
    from pathlib import Path

    from server.hook.options import HookOptions

__all__ = ["SettingsThere", "settings_there"]

_PATTERNS = GuardSettings.__struct_fields__


class SettingsThere(Struct, frozen=True):
    """Settings, the machine as seen from where they count, and in words what of them could not be used."""

    settings: Settings
    machine: Machine
    doubts: tuple[str, ...] = ()


def settings_there(directory: Path | None, options: HookOptions) -> SettingsThere:
    """Return the settings in the project of `directory`, the working directory where it is None.

    A project that is not trusted has no say, not even in which of the user's own skills count: then all is as if the
    call was made in the home directory. So it is where the project cannot be found. Where its settings cannot be used,
    those of the user count alone, and its skills all the same.
    """
    places, flags = current_places(), _flags(options)
    machine = Machine(replace(places, working_directory=places.home))
    settings, doubts = _settings_of_user(machine, flags)
    try:
        there = _place(options.project, directory or places.working_directory)
        if settings.discovery.trust_workspace or machine.environment().trusts(project_of(there, places.home)):
            machine = Machine(replace(places, working_directory=there))
            settings, project_file = settings_in_project(machine, settings, flags)
            # Whoever wrote patterns there relies on them. All else that is left out takes no pattern away.
            doubts += (
                project_file.notices if any(name.partition(".")[0] == "guard" for name in project_file.ignored) else ()
            )
    except (ConfigurationError, OSError) as error:
        doubts += (str(error),)
    # What is wrong with the settings of the user is wrong with them in every project.
    return SettingsThere(settings, machine, tuple(dict.fromkeys(doubts)))


def _place(project: Path | None, directory: Path) -> Path:
    """Return where settings and skills of a project count, the project that was named before any other.

    Raises:
        ConfigurationError: the project that was named is not there.
        OSError: the directory cannot be looked at.
    """
    if project is not None and not project.is_dir():
        raise ConfigurationError(f"--project: {one_line(str(project))} is no directory")
    # Without links and steps upwards: trust is a matter of where a directory really is.
    return (project or directory).resolve()


def _flags(options: HookOptions) -> dict[str, object]:
    """Return what the command line says of settings, None for what it does not say."""
    return {
        "strictness": Strictness.STRICT if options.strict else None,
        "follow_symlinks": options.follow_symlinks or None,
        "trust_workspace": options.trust_workspace or None,
        "conventions": options.conventions,
        "gitignore": options.gitignore or None,
    }


def _settings_of_user(machine: Machine, flags: dict[str, object]) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings of the user, or as many of them as can be used, and what is wrong with the others."""
    places = machine.places
    try:
        return user_settings(machine, flags), ()
    except ConfigurationError as error:
        doubts = (str(error),)
    try:
        # A variable may be what is wrong; then the files are as good as ever.
        return load_settings(flags, {}, places.config_home), doubts
    except ConfigurationError:
        patterns = _usable_patterns(own_file(places.config_home))
        usable: Layer = {("guard", name): Given(value, "patterns") for name, value in patterns.items()}
        return combine(usable, from_flags(flags)), doubts


def _usable_patterns(file: Path) -> dict[str, list[Any]]:
    """Return the patterns of a file of settings that can be used, whatever else is wrong with it."""
    import tomllib  # noqa: PLC0415 - few calls come here, and each would pay for it

    try:
        found = tomllib.loads((read_bounded(file) or b"").decode("utf-8"))
    except (FileRefusedError, ValueError, RecursionError):
        return {}
    guard = found.get("guard")
    # Patterns that stand outside of their section are an error, and still deny.
    found |= guard if isinstance(guard, dict) else {}
    lists = {name: value for name in _PATTERNS if isinstance(value := found.get(name), list)}
    return {name: [each for each in value if _is_usable(name, each)] for name, value in lists.items()}


def _is_usable(name: str, pattern: object) -> bool:
    try:
        read(GuardSettings, {name: [pattern]})
    except InvalidValueError:
        return False
    return True
