"""Log lines as text, in which nothing that a client sent controls a terminal, forges a line or shows a secret.

At a terminal a line has the time and the message, and colour for trouble. Elsewhere, as in a container or in the log
file of a client, it has date, level and logger as well, and so it has at the level `debug`.

Values of clients may be in messages of libraries, and clients decide how often some of them are logged. These loggers
write values that clients choose, at the level `warning` or above: `mcp.server.transport_security` (the headers Host and
Origin), `mcp.server.streamable_http_manager` (ids of sessions), `mcp.server.runner`, `mcp.shared.dispatcher` and
`mcp.shared.jsonrpc_dispatcher` (names of methods, ids of requests), `mcp.server.subscriptions` (ids of subscriptions)
and `mcp.server.request_state` (names of methods). All that log errors with a traceback, among them `uvicorn.error`, may
quote a request in the text of an error. Below `warning`, `mcp` writes whole messages, `sse_starlette` whole events, and
HTTP clients addresses with their queries.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from skills_core.diagnostics import shortened

_OWN: Final = ("server", "skills_core")
# The packages whose messages never contain texts of requests.

_FACING_CLIENTS: Final = frozenset({"mcp", "uvicorn", "starlette", "sse_starlette"})
# The packages that answer requests, so that whoever can connect can have them log a warning.

_SECURITY: Final = "mcp.server.transport_security"
_ADVICE: Final = {
    "Invalid Host header": "http.allowed_hosts does not name it",
    "Invalid Origin header": "http.allowed_origins does not name it",
}
# What is logged instead of a name that a stranger sent.

_SESSION: Final = re.compile(r"\b[0-9a-f]{32}\b")
# The form of the ids of sessions.

_MOST: Final = 10
_WINDOW_SECONDS: Final = 60.0
_NOTE: Final = "skillserve_note"
# The attribute of a log record with what is added to its message.

_FIELDS: Final = "skillserve_more"
_READER: Final = "skillserve_reader"
_PEOPLE: Final = "people"
_PROGRAMS: Final = "programs"
# Attributes of a log record: further fields of its JSON object, and who alone reads it.


def for_programs(**fields: str | None) -> dict[str, Any]:
    """Return what to pass as `extra` to a logger, so that text leaves the line out; `fields` are those of JSON."""
    return {_READER: _PROGRAMS, **with_fields(**fields)}


def for_people() -> dict[str, Any]:
    """Return what to pass as `extra` to a logger, so that JSON leaves the line out."""
    return {_READER: _PEOPLE}


def with_fields(**fields: str | None) -> dict[str, Any]:
    """Return what to pass as `extra` to a logger, so that a line as JSON has these fields too, except those of None."""
    return {_FIELDS: {name: value for name, value in fields.items() if value is not None}}


def more_fields(record: logging.LogRecord) -> Mapping[str, str]:
    """Return the further fields of a line as JSON."""
    found: Mapping[str, str] = getattr(record, _FIELDS, {})
    return found


def is_for_people(record: logging.LogRecord) -> bool:
    """Tell whether people read a record."""
    return getattr(record, _READER, _PEOPLE) == _PEOPLE


def is_for_programs(record: logging.LogRecord) -> bool:
    """Tell whether programs read a record."""
    return getattr(record, _READER, _PROGRAMS) == _PROGRAMS


def is_own(record: logging.LogRecord) -> bool:
    """Tell whether a record is of this server, and not of a library."""
    return record.name.partition(".")[0] in _OWN


def message_of(record: logging.LogRecord) -> str:
    """Return the message of a record; that of a library without ids of sessions and without hostile names."""
    try:
        message = record.getMessage()
    except Exception:  # noqa: BLE001 - the arguments do not fit, and a line with less is better than none
        return record.msg if isinstance(record.msg, str) else type(record.msg).__name__
    if is_own(record):
        return message
    if record.name == _SECURITY:
        head = message.partition(":")[0]
        message = f"{head}: {_ADVICE[head]}" if head in _ADVICE else head
    return _SESSION.sub("[id]", message) + getattr(record, _NOTE, "")


class RareWarnings(logging.Filter):
    """Lets ten warnings a minute through from each place in the libraries that answer requests, and all other records.

    What clients cause would otherwise fill the log, one line a request.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._window = clock()
        self._counts: dict[tuple[str, int], int] = {}
        self._left: dict[tuple[str, int], int] = {}
        # Libraries may log in any thread.
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record is logged; note in it that others are left out."""
        if record.levelno != logging.WARNING or record.name.partition(".")[0] not in _FACING_CLIENTS:
            return True
        place = record.pathname, record.lineno
        with self._lock:
            if self._clock() - self._window >= _WINDOW_SECONDS:
                self._window = self._clock()
                self._left = {place: count - _MOST for place, count in self._counts.items() if count > _MOST}
                self._counts.clear()
            count = self._counts[place] = self._counts.get(place, 0) + 1
            left = self._left.pop(place, 0)
        if left:
            setattr(record, _NOTE, f" ({left} more of these were left out)")
        elif count == _MOST:
            setattr(record, _NOTE, " (more of these are left out for up to a minute)")
        return count <= _MOST


_MAX_MESSAGE: Final = 1000
_MAX_LINE: Final = 500
_MAX_TEXT: Final = 40_000
# Characters of a traceback, and of a message of a library before it is shortened; a token is at most 8,192 long.


class TextHandler(logging.StreamHandler[Any]):
    """Writes lines of text to stderr."""

    def __init__(self) -> None:
        """Write to the current stderr."""
        super().__init__(sys.stderr)
        self.setFormatter(TextFormatter())
        self.addFilter(is_for_people)
        self.addFilter(RareWarnings())

    def write_for_terminal(self) -> None:
        """Leave out of the lines what a person at a terminal does not need."""
        self.setFormatter(TerminalFormatter(coloured=has_colours(os.environ)))


def has_colours(environment: Mapping[str, str]) -> bool:
    """Tell whether a terminal may be sent colours; see no-color.org. Not every console of Windows knows them."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb" and sys.platform != "win32"


class TextFormatter(logging.Formatter):
    """Makes one line of each log record, and of its traceback indented ones."""

    def __init__(self, form: str = "%(asctime)s %(levelname)s %(name)s: %(message)s", times: str | None = None) -> None:
        """Show the time, the level and the logger before the message, unless `form` says otherwise."""
        super().__init__(form, times)

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines. Of a message of a library, and of errors, they have what a log may show."""
        message = message_of(record)
        # Own messages of trouble may quote an answer of another server, or the name of a skill.
        if record.levelno >= logging.WARNING or not is_own(record):
            message = _without_secrets(message)
        record.message = message if is_own(record) else shortened(message, _MAX_MESSAGE)
        record.asctime = self.formatTime(record, self.datefmt)
        lines = [self.formatMessage(record)]
        if record.exc_info and record.exc_info[0] is not None:
            lines += _indented(self.formatException(record.exc_info))
        if record.stack_info:
            lines += _indented(record.stack_info)
        return "\n".join(lines)


_COLOURS: Final = {logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31"}


class TerminalFormatter(TextFormatter):
    """Makes lines for a person at a terminal."""

    def __init__(self, *, coloured: bool) -> None:
        """Show the time of day before the message, and trouble in colours if they are to be `coloured`."""
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")
        self._coloured = coloured

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the base class
        """Return the first line."""
        colour = _COLOURS.get(record.levelno) if self._coloured else None
        if colour is not None:
            record.message = f"\x1b[{colour}m{record.message}\x1b[0m"
        return super().formatMessage(record)


def prepare_logs() -> None:
    """Load what replaces secrets: later, when file descriptors are used up and that is logged, it cannot be loaded."""
    _without_secrets("x" * 16)


def _indented(traceback: str) -> list[str]:
    # The texts of errors may quote what a client sent.
    return [f"  {shortened(line, _MAX_LINE)}" for line in _without_secrets(traceback).split("\n")]


def _without_secrets(text: str) -> str:
    from skills_core.texts import without_secrets  # noqa: PLC0415 - most servers have little to warn of

    half = _MAX_TEXT // 2
    return without_secrets(text if len(text) <= _MAX_TEXT else f"{text[:half]}\n…\n{text[-half:]}")
