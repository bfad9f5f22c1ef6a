"""From flags to settings and a library, alike for every command."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from server.config import LogLevel, Settings, load_settings
from server.environment import Machine, current_places
from server.sources import sources_of
from skills_core.library import Library
from skills_core.sources import Strictness

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from skills_core.gates import Environment

__all__ = ["open_library", "open_quietly", "open_with_settings", "quiet_settings", "settings_with_logs"]


def settings_with_logs(machine: Machine, **flags: object) -> Settings:
    """Return the settings with `flags` on top, and let logs go to stderr.

    A flag that is false, None or empty counts as not given.

    Raises:
        ConfigurationError: a setting cannot be used.
    """
    settings = quiet_settings(machine, **flags)
    logging.basicConfig(
        stream=sys.stderr,
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    if settings.log_level is LogLevel.INFO:
        # What the libraries find worth telling at this level is about themselves.
        for library in ("uvicorn", "mcp"):
            logging.getLogger(library).setLevel(logging.WARNING)
    return settings


def open_library(directories: Sequence[Path] | None, settings: Settings, machine: Machine) -> Library:
    """Load the skills of `directories`, or of the usual places where none is given.

    Raises:
        InvalidSourceError: a directory is missing, or is a file.
    """
    sources = sources_of(directories, settings, machine.places)

    def environment() -> Environment:
        return replace(machine.environment(), enabled=settings.enabled, disabled=settings.disabled)

    return Library(sources, environment)


def open_quietly(directories: Sequence[Path] | None, **flags: object) -> Library:
    """Load skills to look at them: flags are as for `settings_with_logs`, and nothing is logged.

    Raises:
        ConfigurationError: a setting cannot be used.
        InvalidSourceError: a directory is missing, or is a file.
    """
    return open_with_settings(directories, **flags)[0]


def open_with_settings(directories: Sequence[Path] | None, **flags: object) -> tuple[Library, Settings]:
    """Do as `open_quietly` does, and return the settings too.

    Raises:
        ConfigurationError: a setting cannot be used.
        InvalidSourceError: a directory is missing, or is a file.
    """
    machine = Machine(current_places())
    settings = quiet_settings(machine, **flags)
    return open_library(directories, settings, machine), settings


def quiet_settings(machine: Machine, **flags: object) -> Settings:
    """Return the settings with `flags` on top, as for `settings_with_logs`, and log nothing.

    Raises:
        ConfigurationError: a setting cannot be used.
    """
    given = {name: flag for name, flag in flags.items() if flag is not False}
    if given.pop("strict", None):
        given["strictness"] = Strictness.STRICT
    if given.pop("no_adapt", None):
        given["adapt"] = False
    return load_settings(given, os.environ, machine.places.config_home, jdai=machine.jdai.read())
