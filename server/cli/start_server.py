"""Start an MCP server: the part of `serve` that needs no command-line library.

A server that cannot start is started again and again, and each time its message goes where its log goes. So errors are
written in the format of the log, also those before the settings are read.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NoReturn

from msgspec import structs

from server.capabilities import CAPABILITIES
from server.cli.serve_options import parse_plain_options
from server.config.bootstrap import log_to_stderr, open_library, settings_with_logs, unknown_variables
from server.config.files import ConfigurationError, own_file, read_settings_file
from server.config.machine import Machine, current_places, state_home
from server.config.settings.server import LogFormat, LoggingSettings, Transport
from server.config.sources import sources_of
from server.hosting.background import StoppedError
from server.transport.keep_alive import PREVIOUS_END
from server.transport.lazy_sdk import defer_packages
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    import socket

    from server.cli.serve_options import ServeOptions
    from server.config.settings.model import Settings
    from skills_core.live.library import Library
    from skills_core.skills.skill import Skill

logger = logging.getLogger(__name__)

_EXIT_USAGE: Final = 2
_EXIT_INTERRUPTED: Final = 130

_FIRST_SECONDS: Final = 0.1
_MOST_FIRST_SECONDS: Final = 0.4
# For which a server loads skills before it answers: the instructions and the first lists of small libraries are whole
# then. It goes on for more than the first only if that makes them whole: some clients wait a second for an answer.


@contextmanager
def command_process() -> Iterator[None]:
    """Write UTF-8 within the block, and exit with a message if it raises an error that the user can correct."""
    for stream in (sys.stdout, sys.stderr):
        # Pipes carry UTF-8. Escape characters that a terminal cannot print, instead of failing.
        if isinstance(stream, TextIOWrapper):
            encoding = stream.encoding if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="backslashreplace")
    try:
        yield
    except (SkillsError, ConfigurationError) as error:
        # The console imports the command-line library, which a plain start does without.
        from server.cli.console import fail

        fail(str(error), _EXIT_USAGE)


def greet() -> bool:
    """Greet a person who typed the command alone, and return True; return False if no capability does so."""
    greeting = next((each.greet for each in CAPABILITIES if each.greet is not None), None)
    if greeting is None:
        return False
    with command_process():
        greeting()
    return True


def serve_plainly(words: Sequence[str]) -> bool:
    """Serve as the words after `serve` say, and return True at the end; return False if the words are not plain."""
    parsed = parse_plain_options(words)
    if parsed is None:
        return False
    try:
        with command_process():
            start_server(*parsed)
    except KeyboardInterrupt:
        raise SystemExit(_EXIT_INTERRUPTED) from None
    return True


def start_server(directories: Sequence[Path] | None, options: ServeOptions) -> None:
    """Serve the skills in `directories` until the client or a signal ends it; `options` override settings.

    Clients show nothing of what a program writes before it ends. So over stdio a directory that is missing does not end
    the server, which tells the client and waits for the directory.

    Raises:
        ConfigurationError: a setting cannot be used.
        InvalidSourceError: a directory is missing, or is a file, and the server is for HTTP.
        AddressInUseError: the server cannot listen on the HTTP address.
        UnprotectedAddressError: other machines could use the server without a login.
    """
    machine = Machine(current_places())
    log_format: LogFormat | None = None
    try:
        flags = structs.asdict(options)
        is_kept_alive = flags.pop("keep_alive")
        settings = settings_with_logs(machine, **flags)
        log_format = settings.logging.format
        if is_kept_alive:
            _note_keeping(settings)
        _start(directories, settings, machine)
    except (SkillsError, ConfigurationError) as error:
        if log_format is None:
            log_format = asked_format(options.log_format, os.environ, machine.places.config_home)
        if log_format is not LogFormat.JSON:
            raise
        end_with_line(error)


def _note_keeping(settings: Settings) -> None:
    """Log why this process has replaced another one, if it has."""
    if settings.server.transport is Transport.HTTP:
        raise ConfigurationError("--keep-alive is for stdio; over HTTP, a service manager starts a server again")
    if how := PREVIOUS_END.get():
        logger.warning("the server before this one ended with %s, so this one goes on", how)


def asked_format(flag: object, environment: Mapping[str, str], config_home: Path) -> LogFormat:
    """Return the format that the flag, the variable or the user's file asks for, whatever is wrong with the rest."""
    for value in (flag, environment.get("SKILLSERVE_LOG_FORMAT")):
        if value in list(LogFormat):
            return LogFormat(str(value))
    try:
        logs: Any = read_settings_file(own_file(config_home)).get("logging")
    except ConfigurationError:
        return LogFormat.TEXT
    asks = isinstance(logs, dict) and logs.get("format") == LogFormat.JSON
    return LogFormat.JSON if asks else LogFormat.TEXT


def end_with_line(error: object, code: int = _EXIT_USAGE) -> NoReturn:
    """Exit with an error as one JSON line on stderr."""
    # If logs are set up already, this changes nothing.
    log_to_stderr(LoggingSettings(format=LogFormat.JSON))
    logger.critical("%s", error)
    raise SystemExit(code) from None


def _start(directories: Sequence[Path] | None, settings: Settings, machine: Machine) -> None:
    awaited = settings.server.transport is not Transport.HTTP
    sources = sources_of(directories, settings, machine.places, awaited=awaited)
    for each in CAPABILITIES:
        if each.before_loading is not None:
            each.before_loading(sources)
    if awaited:
        _run(open_library(directories, settings, machine, awaited=True, later=True), settings, machine)
        return
    from server.transport.listening import listen, require_protection
    from server.transport.signals import hang_ups_held

    require_protection(settings)
    # Before skills are loaded: clients that start together with the server wait for its answer.
    with hang_ups_held(), listen(settings.http) as listener:
        _run(open_library(directories, settings, machine, later=True), settings, machine, listener)


def _require_streams(settings: Settings) -> None:
    if settings.server.transport is Transport.STDIO and (sys.stdin is None or sys.stdout is None):
        message = "the stdio transport needs open stdin and stdout; to serve over HTTP, use --transport http"
        raise ConfigurationError(message)


def _run(library: Library, settings: Settings, machine: Machine, listener: socket.socket | None = None) -> None:
    _require_streams(settings)
    defer_packages()
    from server.hosting.catalog_log import log_catalog
    from server.hosting.usage import UsageCounts, usage_file
    from server.transport.serving import serve as run

    def report() -> None:
        log_catalog(library.catalog)
        _log_unknown_variables()
        _log_unknown_names(library, settings)

    usage = UsageCounts(usage_file(state_home()) if settings.catalog.usage else None)
    try:
        with _begun(library):
            if library.is_complete:
                report()
            run(library, settings, machine.files, usage, listener, report)
    except KeyboardInterrupt:
        return


@contextmanager
def _begun(library: Library) -> Iterator[None]:
    """Load the library for a moment, in which small ones are complete, before the block; it ends what is left."""
    stopped = threading.Event()

    def pause() -> None:
        if stopped.is_set():
            raise StoppedError

    def load() -> None:
        # The host goes on with the load, and reports what is wrong.
        with suppress(Exception):
            library.load(_FIRST_SECONDS, pause)
            left = end - monotonic()
            if (progress := library.progress) is not None and progress.seconds_left < left:
                library.load(left, pause)

    # A thread, because listing the files of a large library may take longer by itself.
    end = monotonic() + _MOST_FIRST_SECONDS
    thread = threading.Thread(target=load, name="load", daemon=True)
    thread.start()
    try:
        thread.join(_MOST_FIRST_SECONDS)
        yield
    finally:
        stopped.set()


def _log_unknown_names(library: Library, settings: Settings) -> None:
    """Log names of skills and clients in the settings that do not exist."""
    from server.clients.known import KNOWN_CLIENTS
    from server.clients.profile import UNKNOWN

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
