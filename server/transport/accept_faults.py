"""Log failures to accept connections once a minute.

Whenever it wakes, asyncio tries to accept as many connections as its backlog is long, and reports each failure to the
event loop's exception handler. A process without free descriptors would log thousands of times a second.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from skills_core.system_faults import system_message

if TYPE_CHECKING:
    import asyncio

__all__ = ["AcceptFaults"]

logger = logging.getLogger(__name__)

_QUIET_SECONDS = 60.0


class AcceptFaults:
    """An exception handler for event loops; it passes all other errors to the loop's default handler."""

    def __init__(self) -> None:
        self._quiet_until = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error that asyncio reports."""
        error = context.get("exception")
        if not isinstance(error, OSError) or not context.get("message", "").startswith("socket.accept()"):
            loop.default_exception_handler(context)
            return
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + _QUIET_SECONDS
            message = "cannot accept connections (%s); if this happens often, raise the limit of open files"
            logger.warning(message, system_message(error))
