"""From flags to settings and a library, alike for every command."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from server.config import LogLevel, Settings, load_settings
from server.environment import Machine, current_places
from skills_core.library import Library
from skills_core.locations import default_sources
from skills_core.sources import Strictness, explicit_sources

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from skills_core.gates import Environment

__all__ = ["open_library", "open_quietly", "settings_with_logs"]


def settings_with_logs(machine: Machine, **flags: object) -> Settings:
    """Return the settings with `flags` on top, None for what was not given, and let logs go to stderr.

    Raises:
        ConfigurationError: a setting cannot be used.
    """
    settings = load_settings(flags, os.environ, jdai=machine.jdai.read())
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
    if directories:
        sources = explicit_sources(directories, settings.strictness, follow_symlinks=settings.follow_symlinks)
    else:
        sources = default_sources(machine.places, follow_symlinks=settings.follow_symlinks)
        if settings.strictness is Strictness.STRICT:
            sources = tuple(replace(source, strictness=settings.strictness) for source in sources)
        if settings.trust_workspace:
            sources = tuple(replace(source, project=None) for source in sources)

    def environment() -> Environment:
        return replace(machine.environment(), enabled=settings.enabled, disabled=settings.disabled)

    return Library(sources, environment)


def open_quietly(directories: Sequence[Path] | None, **flags: bool) -> Library:
    """Load skills to look at them: flags that are false count as not given, and nothing is logged.

    Raises:
        ConfigurationError: a setting cannot be used.
        InvalidSourceError: a directory is missing, or is a file.
    """
    given: dict[str, object] = {name: flag or None for name, flag in flags.items()}
    given["strictness"] = Strictness.STRICT if given.pop("strict", None) else None
    machine = Machine(current_places())
    return open_library(directories, load_settings(given, os.environ, jdai=machine.jdai.read()), machine)
