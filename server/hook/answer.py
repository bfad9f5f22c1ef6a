"""Answer the host exactly once: with the decision, or with a refusal when the time limit comes first.

Source: the hooks reference of Claude Code, read 2026-10. Exit code 0 with an object on stdout decides; 0 without output
leaves the call to the host; 2 blocks it and takes stderr as the reason. Any other code lets the call pass, and so does
a hook that outlasts the host's patience. Hence the process only ever exits with 0 or 2.
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

__all__ = ["BLOCKED", "DONE", "Answer", "write_error"]

DONE: Final = 0
BLOCKED: Final = 2

_PERMISSIONS: Final = {Verdict.DENY: "deny", Verdict.CONFIRM: "ask"}

_STDOUT: Final = 1
_STDERR: Final = 2


class Answer:
    """The single answer of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given = False

    def give(self, verdict: Verdict, reason: str) -> int:
        """Write the decision and return the exit code; block any later call until the first one ends the process."""
        with self._lock:
            if self._given:
                threading.Event().wait()
            self._given = True
        if verdict is Verdict.ALLOW:
            return DONE
        output = {
            "hookEventName": "PreToolUse",
            "permissionDecision": _PERMISSIONS[verdict],
            "permissionDecisionReason": reason,
        }
        try:
            _write(_STDOUT, json.dumps({"hookSpecificOutput": output}) + "\n")
        except OSError:
            # The host does not read stdout, so it would not ask the user either: block.
            write_error(reason)
            return BLOCKED
        return DONE

    @contextmanager
    def deadline(self, seconds: float) -> Iterator[None]:
        """Deny the call and exit the process unless the block answers within `seconds`."""

        def expire() -> None:
            code = BLOCKED
            try:
                reason = f"The call is denied: the guard made no decision within {seconds:g} seconds."
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


def write_error(message: str) -> None:
    """Write a message to stderr; a closed stderr is no error."""
    try:
        _write(_STDERR, f"skillserve: {message}\n")
    except OSError:
        return


def _write(handle: int, text: str) -> None:
    """Write the whole text, bypassing Python's streams: a failing flush at exit would change the exit code."""
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(handle, data) :]
