"""Log lines as JSON objects, with the request that each belongs to; without texts of requests, and without tokens."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from server.operation.notes import NOTES
from skills_core.diagnostics import without_lone_surrogates

if TYPE_CHECKING:
    from types import TracebackType

    from server.operation.records import RequestRecord

__all__ = ["JsonFormatter", "JsonHandler", "log_request", "without_tokens"]

logger = logging.getLogger("server.requests")

_MAX_MESSAGE: Final = 4000
_MAX_FRAMES: Final = 30

_FIELDS: Final = "skillserve_fields"
# The attribute of a log record with further fields of its object.

_OWN: Final = ("server", "skills_core")
# The packages whose messages never contain texts of requests.

_TOKEN: Final = re.compile(
    r"sks_[0-9a-f]{12}_[\w-]+|eyJ[\w-]+\.[\w-]*\.[\w-]*|\b(bearer|basic)\s+[\w.~+/=-]+|"
    r"([?&](?:access_token|token|key|code)=)[^&\s\"']+",
    re.ASCII | re.IGNORECASE,
)


def without_tokens(text: str) -> str:
    """Return `text` with everything replaced that looks like a token."""
    return _TOKEN.sub(lambda found: f"{found[2] or ''}[token]", text)


class JsonHandler(logging.StreamHandler[Any]):
    """Writes JSON lines to stderr."""

    def __init__(self) -> None:
        """Write to the current stderr."""
        super().__init__(sys.stderr)
        self.setFormatter(JsonFormatter())
        self.addFilter(_is_harmless)


def _is_harmless(record: logging.LogRecord) -> bool:
    """Tell whether a record has no texts of requests: libraries log whole messages at the level `debug`."""
    return record.levelno >= logging.INFO or record.name.partition(".")[0] in _OWN


class JsonFormatter(logging.Formatter):
    """Makes one line of each log record. A traceback keeps places and the type of the error, and not its text."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        message = without_tokens(without_lone_surrogates(record.getMessage()))
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}…",
        }
        fields = getattr(record, _FIELDS, None)
        line.update(_of_request() if fields is None else fields)
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__qualname__
            line["frames"] = _frames(record.exc_info[2])
        return json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=str)


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
        "tool": notes.tool,
        "skill": notes.skill,
        "digest": notes.digest,
    }
    return {name: without_tokens(value) for name, value in fields.items() if value}


def _frames(trace: TracebackType | None) -> list[str]:
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_qualname}")
        trace = trace.tb_next
    return frames[-_MAX_FRAMES:]


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
        "target": record.target,
        "tool": record.tool,
        "skill": record.skill,
        "digest": record.digest,
        "use": record.use,
        "decision": record.decision,
        "reason": record.reason,
    }
    found: dict[str, Any] = {name: without_tokens(str(value)) for name, value in fields.items() if value}
    found["seconds"] = round(record.seconds, 6)
    logger.info("request", extra={_FIELDS: found})
