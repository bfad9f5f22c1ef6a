"""The answer to the host: written once, by whoever is first, the decision or the end of the time for it.

Source: the hooks reference of Claude Code, read 2026-10. An object on stdout with exit code 0 decides; nothing with 0
leaves the call to the host; 2 blocks it, with what stands on stderr as the reason; any other code lets it pass, and so
does a hook that takes longer than the host waits. So nothing here ends in another way than with 0 or 2.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from skills_core.guard.guard import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BLOCKED", "DONE", "Answer", "complain"]

DONE: Final = 0
BLOCKED: Final = 2

_WORDS: Final = {Verdict.DENY: "deny", Verdict.CONFIRM: "ask"}

_STDOUT: Final = 1
_STDERR: Final = 2


class Answer:
    """The one answer of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given = False

    def give(self, verdict: Verdict, reason: str) -> int:
        """Write the decision and return the exit code; a second answer waits for the end that the first one brings."""
        with self._lock:
            if self._given:
                threading.Event().wait()
            self._given = True
        if verdict is Verdict.ALLOW:
            return DONE
        output = {
            "hookEventName": "PreToolUse",
            "permissionDecision": _WORDS[verdict],
            "permissionDecisionReason": reason,
        }
        try:
            _write(_STDOUT, json.dumps({"hookSpecificOutput": output}) + "\n")
        except OSError:
            # Nobody reads it there. A user who would be asked is not.
            complain(reason)
            return BLOCKED
        return DONE

    @contextmanager
    def by(self, seconds: float) -> Iterator[None]:
        """Deny and end the process where no answer is given within `seconds`."""

        def expire() -> None:
            code = BLOCKED
            try:
                reason = f"The call is denied: the guard came to no decision within {seconds:g} seconds."
                code = self.give(Verdict.DENY, reason)
            finally:
                os._exit(code)

        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def complain(message: str) -> None:
    """Write a message to stderr, if somebody reads it there."""
    try:
        _write(_STDERR, f"skillserve: {message}\n")
    except OSError:
        return


def _write(handle: int, text: str) -> None:
    """Write all of a text, past the streams of Python: those write again when the process ends, and may fail then."""
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(handle, data) :]
