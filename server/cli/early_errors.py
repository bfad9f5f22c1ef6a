"""Errors of `serve` before its settings are read: they are written in the format of the log, which is looked for here.

A server that cannot start is started again and again, and each time its message goes where its log goes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NoReturn

from server.config.files import ConfigurationError, own_file, read_settings_file
from server.config.settings import LogFormat, LoggingSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["asked_format", "end_with_line", "format_in"]

logger = logging.getLogger(__name__)

_FLAG = "--log-format"


def format_in(words: Sequence[str]) -> str | None:
    """Return the value of the last `--log-format` among the words of a command line, which may be wrong elsewhere."""
    found = None
    for number, word in enumerate(words):
        if word == "--":
            break
        if word == _FLAG:
            found = next(iter(words[number + 1 :]), None)
        elif word.startswith(f"{_FLAG}="):
            found = word.partition("=")[2]
    return found


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


def end_with_line(error: object) -> NoReturn:
    """Exit with an error as one JSON line on stderr."""
    from server.cli.console import EXIT_USAGE
    from server.config.bootstrap import log_to_stderr

    # If logs are set up already, this changes nothing.
    log_to_stderr(LoggingSettings(format=LogFormat.JSON))
    logger.critical("%s", error)
    raise SystemExit(EXIT_USAGE) from None
