"""One call from stdin to the answer on stdout; whatever goes wrong in between denies it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from server.hook.answer import BLOCKED, Answer, complain
from server.hook.call import MAX_INPUT, OtherEventError, UnreadableCallError, read_call
from server.hook.decide import judge
from skills_core.diagnostics import one_line
from skills_core.guard.guard import Decision, Verdict

if TYPE_CHECKING:
    from server.hook.options import HookOptions

__all__ = ["SECONDS", "answer_call"]

SECONDS = 10
"""Time for all of it. A host that waits longer than it wants to may let the call pass."""


def answer_call(options: HookOptions) -> int:
    """Read a call, answer it, and return the exit code, see `answer`."""
    answer = Answer()
    try:
        with answer.by(SECONDS):
            decision = _decide(options)
            return answer.give(decision.verdict, decision.reason)
    except OtherEventError as error:
        complain(str(error))
    return BLOCKED


def _decide(options: HookOptions) -> Decision:
    try:
        raw = sys.stdin.buffer.read(MAX_INPUT + 1) if sys.stdin else b""
        return judge(read_call(raw), options)
    except UnreadableCallError as error:
        reason = f"The call is denied, as what the host said of it cannot be judged: {error}."
    except OtherEventError:
        raise
    except Exception as error:  # noqa: BLE001 - a call that nobody judged must not pass
        reason = f"The call is denied, as the guard failed ({type(error).__name__}: {one_line(str(error))[:200]})."
    complain(reason)
    return Decision(Verdict.DENY, reason)
