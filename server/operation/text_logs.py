"""Log lines as text, in which nothing that a client sent controls a terminal, forges a line or shows a secret."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

from server.operation.library_messages import RareWarnings, is_own, message_of
from skills_core.diagnostics import shortened

__all__ = ["TextFormatter", "TextHandler", "prepare_logs"]

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
        self.addFilter(RareWarnings())


class TextFormatter(logging.Formatter):
    """Makes one line of each log record, and of its traceback indented ones."""

    def __init__(self) -> None:
        """Show the time, the level and the logger before the message."""
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines. Of a message of a library, and of errors, they have what a log may show."""
        message = message_of(record)
        # Own messages of trouble may quote an answer of another server, or the name of a skill.
        if record.levelno >= logging.WARNING or not is_own(record):
            message = _without_secrets(message)
        record.message = message if is_own(record) else shortened(message, _MAX_MESSAGE)
        record.asctime = self.formatTime(record)
        lines = [self.formatMessage(record)]
        if record.exc_info and record.exc_info[0] is not None:
            lines += _indented(self.formatException(record.exc_info))
        if record.stack_info:
            lines += _indented(record.stack_info)
        return "\n".join(lines)


def prepare_logs() -> None:
    """Load what replaces secrets: when descriptors are used up, which is worth a line, nothing can be loaded."""
    _without_secrets("x" * 16)


def _indented(traceback: str) -> list[str]:
    # The texts of errors may quote what a client sent.
    return [f"  {shortened(line, _MAX_LINE)}" for line in _without_secrets(traceback).split("\n")]


def _without_secrets(text: str) -> str:
    from skills_core.token_forms import without_secrets  # noqa: PLC0415 - most servers have little to warn of

    half = _MAX_TEXT // 2
    return without_secrets(text if len(text) <= _MAX_TEXT else f"{text[:half]}\n…\n{text[-half:]}")
