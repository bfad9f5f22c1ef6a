"""Process one call, from stdin to the answer on stdout; every failure in between denies it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from server.capabilities.guard.hook.call import (
    BLOCKED,
    MAX_INPUT,
    Answer,
    OtherEventError,
    UnreadableCallError,
    read_call,
    write_error,
)
from server.capabilities.guard.hook.decide import decide_call
from skills_core.diagnostics import one_line
from skills_core.guard.guard import Decision, Verdict

if TYPE_CHECKING:
    from server.capabilities.guard.hook.options import HookOptions

__all__ = ["SECONDS", "answer_call"]

SECONDS = 10
"""Time limit for the whole decision. A host that loses patience first may let the call pass."""


def answer_call(options: HookOptions) -> int:
    """Read a call from stdin, answer it, and return the exit code that the module `call` documents."""
    answer = Answer()
    try:
        with answer.deadline(SECONDS):
            decision = _decide(options)
            return answer.give(decision.verdict, decision.reason)
    except OtherEventError as error:
        write_error(str(error))
    return BLOCKED


def _decide(options: HookOptions) -> Decision:
    try:
        raw = sys.stdin.buffer.read(MAX_INPUT + 1) if sys.stdin else b""
        return decide_call(read_call(raw), options)
    except UnreadableCallError as error:
        reason = f"The call is denied, because the guard cannot read the hook's input: {error}."
    except OtherEventError:
        raise
    except Exception as error:  # noqa: BLE001 - a call without a decision must not pass
        reason = f"The call is denied, because the guard failed ({type(error).__name__}: {one_line(str(error))[:200]})."
    write_error(reason)
    return Decision(Verdict.DENY, reason)
