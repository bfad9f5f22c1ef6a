"""Start an MCP server: the part of `serve` that needs no command-line library."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from server.config.bootstrap import open_library, settings_with_logs
from server.config.machine import Machine, current_places, state_home
from server.config.settings import ConfigurationError, LogFormat, Transport
from server.config.sources import sources_of
from server.config.unknown_variables import unknown_variables
from server.history.at_start import complete_interrupted_changes
from server.transport.lazy_sdk import defer_packages
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from server.config.settings import Settings
    from skills_core.library import Library
    from skills_core.skill import Skill

__all__ = ["start_server"]

logger = logging.getLogger(__name__)


def start_server(directories: Sequence[Path] | None, flags: Mapping[str, object]) -> None:
    """Serve the skills in `directories` with the settings that `flags` override, until the client or a signal ends it.

    Raises:
        ConfigurationError: a setting cannot be used.
        InvalidSourceError: a directory is missing, or is a file.
        AddressInUseError: the server cannot listen on the HTTP address.
        UnprotectedAddressError: other machines could use the server without a login.
    """
    machine = Machine(current_places())
    log_format: LogFormat | None = None
    try:
        settings = settings_with_logs(machine, **flags)
        log_format = settings.logging.format
        _start(directories, settings, machine)
    except (SkillsError, ConfigurationError) as error:
        from server.cli.early_errors import asked_format, end_with_line

        if log_format is None:
            log_format = asked_format(flags.get("log_format"), os.environ, machine.places.config_home)
        if log_format is not LogFormat.JSON:
            raise
        end_with_line(error)


def _start(directories: Sequence[Path] | None, settings: Settings, machine: Machine) -> None:
    complete_interrupted_changes(sources_of(directories, settings, machine.places))
    if settings.server.transport is not Transport.HTTP:
        _run(open_library(directories, settings, machine), settings, machine)
        return
    from server.transport.listening import listen, require_protection
    from server.transport.signals import hang_ups_held

    require_protection(settings)
    # Before skills are loaded: clients that start together with the server wait for its answer.
    with hang_ups_held(), listen(settings.http) as listener:
        _run(open_library(directories, settings, machine), settings, machine, listener)


def _require_streams(settings: Settings) -> None:
    if settings.server.transport is Transport.STDIO and (sys.stdin is None or sys.stdout is None):
        message = "the stdio transport needs open stdin and stdout; to serve over HTTP, use --transport http"
        raise ConfigurationError(message)


def _run(library: Library, settings: Settings, machine: Machine, listener: socket.socket | None = None) -> None:
    _require_streams(settings)
    defer_packages()
    from server.hosting.catalog_log import log_catalog
    from server.hosting.usage import Usage, usage_file
    from server.transport.serving import serve as run

    log_catalog(library.catalog)
    _log_unknown_variables()
    _log_unknown_names(library, settings)
    usage = Usage(usage_file(state_home()) if settings.catalog.usage else None)
    try:
        run(library, settings, machine.files, usage, listener)
    except KeyboardInterrupt:
        return


def _log_unknown_names(library: Library, settings: Settings) -> None:
    """Log names of skills and clients in the settings that do not exist."""
    from server.clients import KNOWN_CLIENTS, UNKNOWN

    logger = logging.getLogger("server")
    for name in settings.catalog.pinned:
        if library.catalog.offer(name) is None:
            logger.warning("catalog.pinned: no skill %s is offered to models", one_line(name))
    names = {name for skill in library.catalog.skills for name in skill.content.names}
    for setting in ("enabled", "disabled"):
        for choice in getattr(settings.catalog, setting):
            if ":" not in choice and choice not in names:
                logger.warning("catalog.%s: there is no skill %s", setting, one_line(choice))
    tools = {f"{skill.key}/{tool}" for skill in library.catalog.skills for tool in _declared_tools(skill)}
    for entry in settings.tools.declared:
        if entry not in tools:
            logger.warning("tools.declared: no skill declares the tool %s", one_line(entry))
    known = [client.key for client in (*KNOWN_CLIENTS, UNKNOWN)]
    for key in settings.clients.budgets:
        if key not in known:
            logger.warning("clients.budgets: unknown client %s; expected one of %s", one_line(key), ", ".join(known))


def _log_unknown_variables() -> None:
    """Log environment variables that look like settings and are none."""
    for variable in unknown_variables(os.environ):
        logger.warning("the environment variable %s: %s", one_line(variable.name), variable.message)


def _declared_tools(skill: Skill) -> tuple[str, ...]:
    """Return the names of the tools that a skill declares, and `*` if there are any."""
    names = tuple(declaration.name for declaration in skill.frontmatter.tools)
    return ("*", *names) if names else ()
