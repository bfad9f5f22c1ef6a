"""Log lines as JSON objects, with the request that each belongs to; without texts of requests, and without secrets."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final

from server.logs.text_logs import RareWarnings, is_own, message_of
from server.requests import (
    ADMIN_METHOD,
    DOWNLOAD_METHOD,
    HTTP_METHOD,
    LIMIT_METHOD,
    LOGIN_METHOD,
    NOTES,
    SESSION_METHOD,
    RequestRecord,
)
from skills_core.diagnostics import without_lone_surrogates
from skills_core.texts import may_have_secret, without_secrets

logger = logging.getLogger("server.requests")

_MAX_MESSAGE: Final = 4000
_MAX_FIELD: Final = 500
_MAX_FRAMES: Final = 30
_MAX_TOKEN: Final = 8192
# Characters; a token at the end of a text is replaced before the text is cut.

_FIELDS: Final = "skillserve_fields"
# The attribute of a log record with further fields of its object.

_ANCHOR: Final = "anchor"
# The field that only the audit log writes; in all others, what looks like an anchor is replaced.

_OWN_TARGETS: Final = frozenset(
    {ADMIN_METHOD, DOWNLOAD_METHOD, HTTP_METHOD, LIMIT_METHOD, LOGIN_METHOD, SESSION_METHOD}
)
# Records whose target is the path of one of our routes.

_MAX_PLAIN: Final = 1500
# Characters of a line that is short enough whatever its fields are.

_NOT_PLAIN: Final = re.compile(r"\\")
# JSON escapes what is not ASCII, and what could hide a token: its search needs the text as it is.


def fields_of_line(**fields: str) -> dict[str, Any]:
    """Return what to pass as `extra` to a logger, so that a line has these fields instead of those of a request."""
    return {_FIELDS: fields}


def log_uncaught() -> None:
    """Log errors that end the process or a thread, which Python would print as text."""

    def ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        logger.critical("the process ends by an error", exc_info=(kind, error, trace))

    def thread_ended(ending: threading.ExceptHookArgs) -> None:
        error = ending.exc_value or ending.exc_type()
        name = ending.thread.name if ending.thread else ""
        logger.error("the thread %s ends by an error", name, exc_info=(ending.exc_type, error, ending.exc_traceback))

    def ignored(ignoring: sys.UnraisableHookArgs) -> None:
        error = ignoring.exc_value or ignoring.exc_type()
        logger.error("an error is ignored", exc_info=(ignoring.exc_type, error, ignoring.exc_traceback))

    sys.excepthook, threading.excepthook, sys.unraisablehook = ended, thread_ended, ignored


class JsonHandler(logging.StreamHandler[Any]):
    """Writes JSON lines to stderr."""

    def __init__(self) -> None:
        """Write to the current stderr."""
        super().__init__(sys.stderr)
        self.setFormatter(JsonFormatter())
        self.addFilter(_is_harmless)
        self.addFilter(RareWarnings())

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name of the base class
        """Lose a line that cannot be written: the base class would write a traceback with texts to stderr."""


def _is_harmless(record: logging.LogRecord) -> bool:
    """Tell whether a record has no texts of requests.

    Libraries log whole messages at the level `debug`, and ids of sessions at `info`.
    """
    return record.levelno >= logging.WARNING or is_own(record)


class JsonFormatter(logging.Formatter):
    """Makes one line of ASCII of each log record.

    A traceback keeps places and the type of the error, and not its text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        fields = getattr(record, _FIELDS, None)
        line.update(_of_request() if fields is None else fields)
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__qualname__
            line["frames"] = _frames(record.exc_info[2])
        text = _encoded(line)
        if len(text) > _MAX_PLAIN or _NOT_PLAIN.search(text) or may_have_secret(text):
            return _encoded({name: _harmless(name, value) for name, value in line.items()})
        return text


def _encoded(line: dict[str, Any]) -> str:
    # In ASCII, no reader takes a character for the end of the line, and no terminal for a control character.
    return json.dumps(line, separators=(",", ":"), default=str)


def _harmless(name: str, value: object) -> object:
    """Return the value of a field as it may be written, which takes longer than to see that most lines are harmless."""
    if not isinstance(value, str) or name == _ANCHOR:
        return value
    return _shown(value, _MAX_MESSAGE if name == "message" else _MAX_FIELD)


def _message(record: logging.LogRecord) -> str:
    message = message_of(record)
    # Further lines of libraries show values: those of warnings, and errors of tasks that nobody awaited.
    return message if is_own(record) else message.partition("\n")[0]


def _shown(text: str, most: int) -> str:
    """Return a text without secrets, within bounds, and with replacements for what is not Unicode."""
    shown = without_secrets(without_lone_surrogates(text[: most + _MAX_TOKEN]))
    return shown if len(shown) <= most else f"{shown[:most]}…"


def _of_request() -> dict[str, Any]:
    """Return the fields of the request that the current task works on."""
    notes = NOTES.get()
    if notes is None:
        return {}
    fields = {
        "request_id": notes.request_id,
        "trace_id": notes.trace_id,
        "principal": notes.principal.subject,
        "principal_kind": notes.principal.kind,
        "address": notes.address,
        "tool": notes.tool,
        "skill": notes.skill,
        "digest": notes.digest,
    }
    return {name: value for name, value in fields.items() if value}


def _frames(trace: TracebackType | None) -> list[str]:
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_qualname}")
        trace = trace.tb_next
    return frames[-_MAX_FRAMES:]


def _target(record: RequestRecord) -> str:
    """Return the target if it exists; the names of others are texts that clients choose."""
    return record.target if record.skill or record.method in _OWN_TARGETS else ""


def log_request(record: RequestRecord) -> None:
    """Log a request and its decision."""
    if not logger.isEnabledFor(logging.INFO):
        return
    fields = {
        "request_id": record.request_id,
        "trace_id": record.trace_id,
        "principal": record.principal.subject,
        "principal_kind": record.principal.kind,
        "client": record.client.name,
        "client_version": record.client.version,
        "address": record.address,
        "era": record.era,
        "method": record.method,
        "target": _target(record),
        "tool": record.tool,
        "skill": record.skill,
        "digest": record.digest,
        "use": record.use,
        "decision": record.decision,
        "reason": record.reason,
    }
    found: dict[str, Any] = {name: value for name, value in fields.items() if value}
    found["seconds"] = round(record.seconds, 6)
    logger.info("request", extra={_FIELDS: found})
