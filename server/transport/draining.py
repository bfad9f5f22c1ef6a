"""The end of an HTTP server: running requests finish within a bound before the server stops."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from server.config.settings import OperationSettings

__all__ = ["Draining"]

logger = logging.getLogger(__name__)


class Draining:
    """Whether a server drains, and until when."""

    def __init__(self, settings: OperationSettings) -> None:
        """Drain as long as `settings` say, once asked to."""
        self._notice = settings.drain_notice_seconds
        self._bound = max(settings.drain_seconds, settings.drain_notice_seconds)
        self._began: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the server has been asked to stop."""
        return self._began is not None

    def begin(self) -> None:
        """Begin; safe in a signal handler."""
        self._began = self._began if self._began is not None else time.monotonic()

    def is_over(self, running: int) -> bool:
        """Tell whether the server stops now, while `running` requests are being answered."""
        if self._began is None:
            return False
        passed = time.monotonic() - self._began
        if passed < self._notice or (running and passed < self._bound):
            return False
        if running and self._bound:
            logger.warning("%d requests are cancelled: they did not finish in %g seconds", running, self._bound)
        return True
