"""Log once, not thousands of times a second, that no connection can be accepted.

Each time it is woken, asyncio tries to accept as many connections as its backlog is long, and reports each failure to
the event loop's exception handler. A process without descriptors would spend its time, and its disk, on that.
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
    """An exception handler for event loops; everything else goes to the loop's own."""

    def __init__(self) -> None:
        self._quiet_until = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle what asyncio reports."""
        error = context.get("exception")
        if not isinstance(error, OSError) or not context.get("message", "").startswith("socket.accept()"):
            loop.default_exception_handler(context)
            return
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + _QUIET_SECONDS
            message = "no connection can be accepted now (%s); if this comes often, allow more open files"
            logger.warning(message, system_message(error))
