"""SIGHUP before a server can reload its skills."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["HangUps"]


class HangUps:
    """Whether SIGHUP came: while a server starts, the signal must not end it, and asks for a reload after the start."""

    def __init__(self) -> None:
        """Note nothing before `noted`."""
        self.came = False

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note the signal within the block, in the main thread; one that is ignored stays ignored, for `nohup`."""
        is_main = threading.current_thread() is threading.main_thread()
        if sys.platform == "win32" or not is_main or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
            yield
            return
        before = signal.signal(signal.SIGHUP, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGHUP, before)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.came = True
